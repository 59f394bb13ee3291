"""One JSON-RPC request over HTTP, and what an answer that is none usually means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

MAX_ANSWER = 64 * 1024 * 1024
MAX_SAID = 200
"""Characters of a foreign text that are shown."""
UNSPOKEN: Final = frozenset({400, 404, 405, 406, 410, 415, 422, 501})
"""HTTP statuses with which servers turn away a revision they do not speak."""
INTERNAL: Final = frozenset({-32603, -32700})
"""JSON-RPC errors that say that the server failed, not that it refused."""


class Failure(Exception):
    """An answer that ends this era; ``mend`` says what to do.

    ``unspoken``: it may come from a server that does not speak the revision, which is no fault.
    """

    def __init__(self, what: str, mend: str = "", *, unspoken: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend
        self.unspoken = unspoken


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    message: Mapping[str, Any]
    """The JSON-RPC answer; empty when there is none."""


def post(client: httpx.Client, url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    """Raises Failure when there is no HTTP answer, or one that is no success."""
    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    try:
        with client.stream("POST", url, json=body, headers=sent) as response:
            if response.status_code >= 300:
                raise _refused(response, b"".join(response.iter_bytes())[:100_000])
            return Answer(response.status_code, response.headers, _read(response, body.get("id")))
    except httpx.ConnectError as error:
        raise Failure(f"no connection: {error}", "is the gateway running and the address right?") from None
    except httpx.TimeoutException:
        raise Failure(
            "no answer in time",
            "a buffered response that never ends? see hangs in docs/troubleshooting.md",
        ) from None
    except httpx.HTTPError as error:
        raise Failure(
            f"the connection broke: {error or type(error).__name__}", "see the gateway's log"
        ) from None


def result_of(answer: Answer) -> Mapping[str, Any]:
    """Raises Failure when the answer holds none."""
    if (said := _error(answer.message)) is not None:
        code, text = said
        raise Failure(
            f"JSON-RPC error {text}",
            "see the server's log" if code in INTERNAL else "",
            unspoken=code not in INTERNAL,
        )
    result = answer.message.get("result")
    if not isinstance(result, Mapping):
        raise Failure("an answer without a result", "see the gateway's and the processor's log")
    return result


def printable(text: str) -> str:
    """A foreign text, short and without anything that a terminal would obey."""
    shown = "".join(char if char.isprintable() else "?" for char in text[:MAX_SAID])
    return shown + ("…" if len(text) > MAX_SAID else "")


def _read(response: httpx.Response, wanted: object) -> Mapping[str, Any]:
    """The message that answers ``wanted``, from JSON or from the stream as soon as it is there."""
    if wanted is None:
        return {}
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        data: list[str] = []
        for line in response.iter_lines():
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                message = _parse("\n".join(data))
                data.clear()
                if message.get("id") == wanted and "method" not in message:
                    return message
        raise Failure("the stream ended without an answer", "see the processor's log")
    raw = bytearray()
    for chunk in response.iter_bytes():
        raw += chunk
        if len(raw) > MAX_ANSWER:
            raise Failure(f"an answer of more than {MAX_ANSWER:,} bytes")
    return _parse(raw.decode("utf-8", "replace"))


def _parse(text: str) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    try:
        message = json.loads(text)
    except ValueError:
        raise Failure(
            "an answer that is not JSON", "is this the MCP route? check path and gateway routing"
        ) from None
    return message if isinstance(message, dict) else {}


def _error(message: Mapping[str, Any]) -> tuple[object, str] | None:
    """Code of a JSON-RPC error, and how it is shown."""
    error = message.get("error")
    if not isinstance(error, Mapping):
        return None
    code, text = error.get("code"), printable(str(error.get("message", "")))
    return code, f"{printable(str(code))}: {text}" if text else printable(str(code))


def _refused(response: httpx.Response, data: bytes) -> Failure:
    what, mend = _explain(response, data)
    code: object = None
    try:
        message = json.loads(data)
    except ValueError:
        message = None
    if isinstance(message, dict) and (said := _error(message)) is not None:
        code, text = said
        what += f", JSON-RPC error {text}"
    return Failure(what, mend, unspoken=response.status_code in UNSPOKEN and code not in INTERNAL)


def _explain(response: httpx.Response, data: bytes) -> tuple[str, str]:
    """What an HTTP error from a gateway with an external processor usually means."""
    status = response.status_code
    what = f"HTTP {status}" + (", empty body" if not data.strip() else "")
    match status:
        case 401 | 403:
            challenge = response.headers.get("www-authenticate", "")
            hint = " with a challenge, as OAuth clients need it" if challenge else " without www-authenticate"
            return what + hint, "give credentials with --header 'Authorization: Bearer …'"
        case 404:
            return what, "no such route, or no such session: check the path"
        case 413:
            return what, "the gateway's body limit: see buffer-limit in docs/troubleshooting.md"
        case 500:
            return (
                what,
                "the gateway does not reach the processor, or refused its answer: is it running, is the "
                "cluster HTTP/2, is the buffer large enough?",
            )
        case 503:
            return what, "no healthy MCP server behind the gateway, or the processor is draining"
        case 504:
            return what, "the processor took longer than message_timeout: see message-timeout"
        case _ if 300 <= status < 400:
            to = printable(response.headers.get("location", "?"))
            return f"{what} to {to}", "use the final address"
        case _:
            return what, "see the gateway's log"
