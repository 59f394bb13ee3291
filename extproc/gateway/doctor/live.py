"""A real handshake through the gateway, both eras, one step at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import httpx

LEGACY = "2025-06-18"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
NAMES = frozenset(
    {
        "search_tools",
        "describe_tool",
        "call_read_tool",
        "call_write_tool",
        "call_destructive_tool",
        "call_read_tools",
    }
)
REQUIRED = NAMES - {"call_read_tools"}
MAX_ANSWER = 64 * 1024 * 1024


class Mark(Enum):
    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Step:
    """One request and what it showed; ``mend`` where something is wrong."""

    name: str
    mark: Mark
    what: str
    mend: str = ""

    @property
    def failed(self) -> bool:
        return self.mark is Mark.FAILED

    @property
    def shown(self) -> str:
        text = f"{self.mark.value:<8}{self.name}: {self.what}\n"
        return text + (f"        mend: {self.mend}\n" if self.mend else "")


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 15.0
    """Seconds for each step."""


class Failure(Exception):
    """An answer that ends this era; ``mend`` says what to do."""

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    message: Mapping[str, Any]
    """The JSON-RPC answer; empty when there is none."""


def run_live(target: Target, transport: httpx.BaseTransport | None = None) -> list[Step]:
    """Every step, in order.  Never raises for what the gateway answers; raises httpx.InvalidURL."""
    with httpx.Client(timeout=target.timeout, transport=transport, headers=list(target.headers)) as client:
        steps = list(_legacy(client, target.url))
        if steps[0].mark is Mark.FAILED and steps[0].what.startswith("no connection"):
            return steps
        modern = list(_modern(client, target.url))
    legacy_works = not steps[0].failed
    if legacy_works and modern[0].failed and "404" not in modern[0].what:
        # A server may be of one era; that is not the gateway's fault.
        modern = [
            Step(modern[0].name, Mark.SKIPPED, f"the server does not speak {MODERN} ({modern[0].what})")
        ]
    elif legacy_works and modern[0].failed:
        modern = [Step(modern[0].name, Mark.SKIPPED, f"the server does not speak {MODERN}")]
    elif not modern[0].failed and steps[0].failed:
        steps = [Step(steps[0].name, Mark.SKIPPED, f"the server does not speak {LEGACY} ({steps[0].what})")]
    return steps + modern


def _legacy(client: httpx.Client, url: str) -> Iterator[Step]:
    name = f"initialize ({LEGACY})"
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}}
    try:
        answer = _post(client, url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {})
        result = _result(answer)
    except Failure as failure:
        yield Step(name, Mark.FAILED, failure.what, failure.mend)
        return
    yield _greeting(name, result, str(result.get("protocolVersion", "?")))
    version = str(result.get("protocolVersion", LEGACY))
    headers = {"mcp-protocol-version": version}
    if session := answer.headers.get("mcp-session-id"):
        headers["mcp-session-id"] = session

    def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
        return _result(_post(client, url, body, headers))

    try:
        _post(client, url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        yield from _tools(ask, f" ({version})")
    except Failure as failure:
        yield Step("notifications/initialized", Mark.FAILED, failure.what, failure.mend)
    finally:
        if session:
            with suppress(httpx.HTTPError):
                client.delete(url, headers=headers)


def _modern(client: httpx.Client, url: str) -> Iterator[Step]:
    def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": "doctor", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 3, "method": method, "params": {**params, "_meta": meta}}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if isinstance(params.get("name"), str):
            headers["mcp-name"] = params["name"]
        return _result(_post(client, url, body, headers))

    name = f"server/discover ({MODERN})"
    try:
        result = ask("server/discover", {})
    except Failure as failure:
        yield Step(name, Mark.FAILED, failure.what, failure.mend)
        return
    yield _greeting(name, result, ", ".join(map(str, result.get("supportedVersions", []))))
    yield from _tools(ask, f" ({MODERN})")


def _greeting(name: str, result: Mapping[str, Any], version: str) -> Step:
    if "search_tools" in str(result.get("instructions", "")):
        return Step(name, Mark.OK, f"version {version}; instructions carry the guidance")
    capabilities = result.get("capabilities")
    if not isinstance(capabilities, Mapping) or "tools" not in capabilities:
        return Step(name, Mark.OK, f"version {version}; the server has no tools")
    return Step(
        name,
        Mark.OK,
        f"version {version}; instructions carry no guidance: switched off (instructions.enabled), or the "
        "response does not pass the processor",
    )


def _tools(ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], era: str) -> Iterator[Step]:
    name = f"tools/list{era}"
    try:
        tools = ask("tools/list", {}).get("tools")
    except Failure as failure:
        yield Step(name, Mark.FAILED, failure.what, failure.mend)
        return
    names = (
        [str(tool.get("name")) for tool in tools if isinstance(tool, Mapping)]
        if isinstance(tools, list)
        else []
    )
    if not set(names) >= REQUIRED:
        yield Step(
            name,
            Mark.FAILED,
            f"{len(names)} tools, and not the six: the response does not pass the processor",
            "check the route's filter with doctor FILE: body modes, allow_mode_override, order",
        )
        return
    pinned = len(set(names) - NAMES)
    missing = NAMES - set(names)
    yield Step(
        name,
        Mark.OK,
        f"{len(names)} tools"
        + (f", {pinned} pinned" if pinned else "")
        + (", without call_read_tools (no catalog.url)" if missing else ""),
    )
    yield _search(ask, era)


def _search(ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], era: str) -> Step:
    name = f"search_tools{era}"
    try:
        result = ask("tools/call", {"name": "search_tools", "arguments": {"queries": ["list files"]}})
    except Failure as failure:
        return Step(name, Mark.FAILED, failure.what, failure.mend)
    content = result.get("content")
    texts = (
        [part.get("text", "") for part in content if isinstance(part, Mapping)]
        if isinstance(content, list)
        else []
    )
    size = sum(len(str(text)) for text in texts)
    if result.get("isError"):
        return Step(name, Mark.FAILED, f"an error result of {size} characters", "see the processor's log")
    return Step(name, Mark.OK, f"an answer of {size} characters")


def _post(client: httpx.Client, url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    """Raises Failure when there is no HTTP answer, or one that is no success."""
    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    try:
        with client.stream("POST", url, json=body, headers=sent) as response:
            if response.status_code >= 300:
                data = b"".join(response.iter_bytes())[:2000]
                raise Failure(*_explain(response, data))
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


def _result(answer: Answer) -> Mapping[str, Any]:
    error = answer.message.get("error")
    if isinstance(error, Mapping):
        raise Failure(f"JSON-RPC error {error.get('code')}: {str(error.get('message', ''))[:200]}")
    result = answer.message.get("result")
    if not isinstance(result, Mapping):
        raise Failure("an answer without a result", "see the gateway's and the processor's log")
    return result


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
            return what + f" to {response.headers.get('location', '?')}", "use the final address"
        case _:
            return what, "see the gateway's log"
