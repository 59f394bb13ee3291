"""A small HTTP/1.1 server whose answers a test scripts, and an MCP server on top of it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def rpc_method(self) -> str:
        return str(self.json.get("method", "")) if self.body else ""


Write = Callable[[bytes], Awaitable[None]]
Handler = Callable[[Request, Write], Awaitable[None]]


@dataclass
class Recorder:
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    active: int = 0
    peak: int = 0

    def methods(self) -> list[str]:
        return [request.rpc_method or request.method for request in self.requests]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something the other side does."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class Hangup(Exception):
    """The handler wants the connection closed here."""


def answer(body: bytes | object, status: int = 200, media: str = "application/json", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-type: {media}", f"content-length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(message: object) -> bytes:
    return chunk(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Recorder]:
    recorder = Recorder()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recorder.connections += 1

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ")
                headers = [
                    (name.lower(), value.strip())
                    for name, _, value in (line.partition(":") for line in rest if line)
                ]
                request = Request(method, path, headers, b"")
                request.body = await reader.readexactly(int(request.header("content-length") or 0))
                recorder.requests.append(request)
                recorder.active += 1
                recorder.peak = max(recorder.peak, recorder.active)
                try:
                    await handler(request, write)
                finally:
                    recorder.active -= 1
        except (asyncio.IncompleteReadError, ConnectionError, Hangup):
            pass
        finally:
            writer.close()

    async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A cancelled handler is the end of a test, nothing to report.
        with suppress(asyncio.CancelledError):
            await connected(reader, writer)

    server = await asyncio.start_server(ended, "127.0.0.1", 0, limit=2**22, ssl=tls)
    scheme = "https" if tls else "http"
    recorder.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp/all"
    try:
        yield recorder
    finally:
        server.close()


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}", "inputSchema": {"type": "object"}}


@dataclass
class McpServer:
    """Both eras.  Attributes may be changed while it runs."""

    tools: list[str] = field(default_factory=lambda: ["a", "b", "c"])
    page_size: int = 100
    sse: bool = False
    delay: float = 0.0
    needs_session: bool = True
    tokens: set[str] | None = None
    sessions: dict[str, bool] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    """Tool name to a result, an awaitable function, or an HTTP answer in bytes."""
    extra: dict[str, Any] = field(default_factory=dict)
    before: Callable[[Request, Write], Awaitable[bool]] | None = None
    """Called first; true means that it has answered."""

    async def __call__(self, request: Request, write: Write) -> None:
        if self.before is not None and await self.before(request, write):
            return
        if self.tokens is not None and request.header("authorization") not in self.tokens:
            await write(answer(b"who?", 401, "text/plain", www_authenticate='Bearer realm="x"'))
            return
        session = request.header("mcp-session-id")
        modern = (request.header("mcp-protocol-version") or "") >= "2026-07-28"
        if request.method == "DELETE":
            self.deleted.append(session or "")
            self.sessions.pop(session or "", None)
            await write(answer(b"", 200))
            return
        message = request.json
        method = message.get("method")
        if method == "initialize":
            made = f"own-{len(self.sessions) + len(self.deleted)}"
            self.sessions[made] = False
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"},
            }
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            await write(answer(reply, mcp_session_id=made) if self.needs_session else answer(reply))
            return
        if not modern and self.needs_session and session not in self.sessions:
            await write(answer(b"no session", 404, "text/plain"))
            return
        if method == "notifications/initialized" and session:
            self.sessions[session] = True
        if "id" not in message or "method" not in message:
            await write(answer(b"", 202))
            return
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._result(request, message, write)

    async def _result(self, request: Request, message: Any, write: Write) -> None:
        if message["method"] == "tools/list":
            result: Any = self._page(message.get("params", {}).get("cursor"))
        else:
            result = self.results.get(message["params"]["name"], {"content": []})
            if callable(result):
                result = await result(request, write)
        if result is None:
            return
        if isinstance(result, bytes):
            await write(result)
            return
        key = "error" if "code" in result else "result"
        reply = {"jsonrpc": "2.0", "id": message["id"], key: result}
        if self.sse:
            await write(STREAM_HEAD + event(reply) + STREAM_END)
        else:
            await write(answer(reply))

    def _page(self, cursor: str | None) -> dict[str, Any]:
        start = 0
        if cursor is not None:
            if not cursor.isdigit() or int(cursor) >= len(self.tools):
                return {"code": -32602, "message": "bad cursor"}
            start = int(cursor)
        end = start + self.page_size
        page: dict[str, Any] = {"tools": [tool(name) for name in self.tools[start:end]], **self.extra}
        if end < len(self.tools):
            page["nextCursor"] = str(end)
        return page
