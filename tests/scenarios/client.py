"""A strict MCP client: speaks each revision as its specification says and checks what it gets."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from extproc.exchange.messages import Headers
from tests.gateway.config import Outcome
from tests.gateway.peer import Gateway
from tests.gateway.wire import HttpRequest, HttpResponse

from .upstream import META, MODERN, members

Value: TypeAlias = object
"""A JSON value in which bytes stand for themselves."""

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}


def text_of(value: Value) -> bytes:
    match value:
        case bytes():
            return value
        case dict():
            return joined(value)
        case list() | tuple():
            return b"[" + b",".join(map(text_of, value)) + b"]"
        case _:
            return json.dumps(value, ensure_ascii=False).encode()


def joined(parts: Mapping[str, Value]) -> bytes:
    return b"{" + b",".join(json.dumps(key).encode() + b":" + text_of(v) for key, v in parts.items()) + b"}"


def header_value(text: str) -> str:
    if re.fullmatch(r"[!-~]([ -~]*[!-~])?", text) and not re.fullmatch(r"=\?base64\?.*\?=", text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def events(stream: bytes) -> list[bytes]:
    """The data of every dispatched event (WHATWG HTML, 9.2)."""
    found: list[bytes] = []
    data: list[bytes] = []
    for line in re.split(rb"\r\n|\n|\r", stream):
        if not line:
            if any(data):
                found.append(b"\n".join(data))
            data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    return found


@dataclass(frozen=True)
class Reply:
    """What came back for one message.  ``message`` holds the raw members of the response to it."""

    outcome: Outcome
    message: dict[str, bytes]
    others: tuple[bytes, ...] = ()

    @property
    def http(self) -> HttpResponse:
        return self.outcome.client

    @property
    def status(self) -> int:
        return self.outcome.client.status

    @property
    def result(self) -> Any:
        assert "result" in self.message, self.message or self.http
        return json.loads(self.message["result"])

    @property
    def error(self) -> Any:
        assert "error" in self.message, self.message or self.http
        return json.loads(self.message["error"])

    @property
    def text(self) -> str:
        """The first text block of a tool result."""
        return str(self.result["content"][0]["text"])

    @property
    def is_error(self) -> bool:
        return bool(self.result.get("isError", False))

    @property
    def names(self) -> list[str]:
        return [tool["name"] for tool in self.result["tools"]]

    @property
    def sent(self) -> dict[str, bytes]:
        """Raw members of the message the upstream saw."""
        assert self.outcome.upstream is not None
        return members(self.outcome.upstream.body)

    @property
    def sent_params(self) -> dict[str, bytes]:
        return members(self.sent["params"])


class Wrong(AssertionError):
    """An answer no conforming client accepts."""


@dataclass
class Client:
    """``headers`` go with every request, ``trailers`` too; ``session`` is set by :meth:`open`."""

    gateway: Gateway
    revision: str
    headers: Headers = ()
    trailers: Headers = ()
    session: str | None = None
    opened: bool = False
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    path: str = "/mcp"

    @property
    def modern(self) -> bool:
        return self.revision == MODERN

    async def open(self) -> Reply:
        """The handshake of the revision; its reply is that of ``initialize`` or ``server/discover``."""
        if self.modern:
            return await self.send("server/discover")
        params = {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "c", "version": "1"},
        }
        reply = await self.send("initialize", params)
        self.session, self.opened = reply.http.header("mcp-session-id"), True
        done = await self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        if done.status != 202:
            raise Wrong(done)
        return reply

    async def list(self, **params: Value) -> Reply:
        return await self.send("tools/list", params)

    async def call(self, name: str, arguments: Value = b"{}", id: bytes = b"1", **params: Value) -> Reply:
        return await self.send("tools/call", {"name": name, "arguments": arguments, **params}, id=id)

    async def search(self, *queries: str, **arguments: Value) -> Reply:
        return await self.call("search_tools", {"queries": queries, **arguments})

    async def send(
        self, method: str, params: Mapping[str, Value] | None = None, *, id: bytes = b"1"
    ) -> Reply:
        """Send a request with the headers of the revision and check the shape of the answer."""
        inner = dict(params or {})
        if self.modern:
            inner["_meta"] = inner.get("_meta", self.meta())
        parts: dict[str, Value] = {"jsonrpc": "2.0", "id": id, "method": method}
        if inner:
            parts["params"] = joined(inner)
        reply = await self.post(joined(parts), self.message_headers(method, inner))
        self._check(reply, method, id)
        return reply

    def meta(self, **more: Value) -> dict[str, Value]:
        return {
            META + "protocolVersion": self.revision,
            META + "clientCapabilities": dict(self.capabilities),
            **more,
        }

    def message_headers(self, method: str, params: Mapping[str, Value]) -> Headers:
        found: list[tuple[str, str]] = []
        if self.modern:
            found += [("mcp-protocol-version", self.revision), ("mcp-method", method)]
            if method in _NAMED:
                name = params[_NAMED[method]]
                found.append(("mcp-name", header_value(json.loads(text_of(name)))))
        return tuple(found)

    async def post(self, body: bytes, more: Headers = ()) -> Reply:
        """Send a body as it is."""
        headers: list[tuple[str, str]] = [("host", "gateway.test"), ("content-type", "application/json")]
        headers += [("accept", "application/json, text/event-stream"), ("accept-encoding", "gzip, deflate")]
        headers += [*self.headers, *more]
        if not self.modern and self.opened:
            if self.revision >= "2025-06-18":
                headers.append(("mcp-protocol-version", self.revision))
            if self.session is not None:
                headers.append(("mcp-session-id", self.session))
        if not self.trailers:
            headers.append(("content-length", str(len(body))))
        return await self.exchange(HttpRequest("POST", self.path, tuple(headers), body, self.trailers))

    async def get(self, method: str = "GET", *more: tuple[str, str]) -> Reply:
        session = (("mcp-session-id", self.session),) if self.session else ()
        headers = (("accept", "text/event-stream"), *self.headers, *session, *more)
        return await self.exchange(HttpRequest(method, self.path, headers))

    async def exchange(self, request: HttpRequest) -> Reply:
        outcome = await self.gateway.send(request)
        if outcome.dropped:
            raise Wrong(f"the gateway ignored {outcome.dropped}")
        client = outcome.client
        kind = (client.header("content-type") or "").partition(";")[0]
        found = events(client.body) if kind == "text/event-stream" else [client.body]
        answers = [m for m in map(members, found) if "method" not in m and ("result" in m or "error" in m)]
        others = tuple(one for one in found if "method" in members(one))
        if len(answers) > 1 and request.method == "POST":
            raise Wrong(f"{len(answers)} answers")
        return Reply(outcome, answers[-1] if answers else {}, others)

    # What a conforming client refuses ----------------------------------------------------------------------

    def _check(self, reply: Reply, method: str, id: bytes) -> None:
        message = reply.message
        if reply.status != 200 and not message:
            return
        if reply.status == 200 and message.get("id") != id:
            raise Wrong(f"sent id {id!r}, got {message or reply.http}")
        if message.get("jsonrpc") != b'"2.0"':
            raise Wrong(f"not JSON-RPC: {reply.http}")
        if "result" in message:
            self._check_result(method, json.loads(message["result"]))

    def _check_result(self, method: str, result: dict[str, Any]) -> None:
        cacheable = method in ("tools/list", "server/discover")
        if self.modern:
            needed = {"resultType", *(("ttlMs", "cacheScope") if cacheable else ())}
            if missing := needed - result.keys():
                raise Wrong(f"{method}: {missing} missing")
        elif extra := {"resultType", "ttlMs", "cacheScope"} & result.keys():
            raise Wrong(f"{method}: {extra} in a legacy result")
        names = [tool["name"] for tool in result.get("tools", ())] if method == "tools/list" else []
        if len(set(names)) != len(names):
            raise Wrong("a name stands twice")
        if method != "tools/call" or result.get("resultType", "complete") != "complete":
            return
        if "task" not in result and not isinstance(result.get("content"), list):
            raise Wrong("no content")
        structured = result.get("structuredContent", {})
        if "structuredContent" in result and self.revision < "2025-06-18":
            raise Wrong("structuredContent before 2025-06-18")
        if not self.modern and not isinstance(structured, dict):
            raise Wrong("structuredContent is no object")
