"""The MCP backend: targets joined as ``<target>_<tool>``, every answer an event stream, first pages only."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from tests.gateway.wire import HttpRequest

MODERN = "2026-07-28"
STAMP = "io.modelcontextprotocol/protocolVersion"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
EVENTS = ("content-type", "text/event-stream")
OWN = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "mcp-session-id"}
)
"""Request headers that the gateway writes itself."""
HOP = frozenset({"connection", "content-length", "transfer-encoding", "content-encoding"})
Close = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    return None


@dataclass
class Reply:
    """``processed`` is false for what the gateway says itself: it passes no processor."""

    status: int
    headers: list[tuple[str, str]]
    chunks: AsyncIterator[bytes] | None = None
    close: Close = _nothing
    processed: bool = True


class Failed(Exception):
    """The backend's own answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class Relay:
    """One route's targets."""

    def __init__(self, targets: Mapping[str, str], client: httpx.AsyncClient) -> None:
        self.targets, self.client = targets, client
        self.alone = next(iter(targets)) if len(targets) == 1 else None

    async def answer(self, request: HttpRequest) -> Reply:
        try:
            match request.method:
                case "POST":
                    return await self._post(request)
                case "GET":
                    return await self._get(request)
                case "DELETE":
                    return await self._delete(request)
                case _:
                    return Reply(405, [], processed=False)
        except Failed as failed:
            return failed.reply

    # Messages ----------------------------------------------------------------------------------------------

    async def _post(self, request: HttpRequest) -> Reply:
        try:
            message = json.loads(request.body)
        except ValueError:
            return _plain(400, "the body is not JSON")
        if not isinstance(message, dict):
            return _plain(400, "one JSON-RPC message is expected")
        method, params = message.get("method"), message.get("params") or {}
        modern = request.header("mcp-protocol-version") == MODERN or STAMP in (params.get("_meta") or {})
        self._check_names(request, method, params, modern)
        if modern and self.alone is None:
            return _error(400, message.get("id"), -32022, "joined servers speak older revisions here")
        sessions = self._sessions(request)
        if not modern and method != "initialize" and sessions is None:
            return _plain(400, "no session")
        known = sessions or {}
        if method is None or "id" not in message:
            for name in self.targets:
                response = await self._send(name, request, request.body, known)
                await self._read_whole(response)
            return Reply(202, [])
        match method:
            case "initialize":
                return await self._initialize(request, message)
            case "tools/list":
                return await self._list(request, message, known)
            case "tools/call" if self.alone is None:
                return await self._call(request, message, known)
            case "ping" if self.alone is None:
                return _events([{"jsonrpc": "2.0", "id": message["id"], "result": {}}])
            case _ if self.alone is None:
                problem = {"code": -32601, "message": f"Method not found: {method}"}
                return _events([{"jsonrpc": "2.0", "id": message["id"], "error": problem}])
            case _:
                return self._streamed(await self._send(self.alone, request, request.body, known))

    def _check_names(self, request: HttpRequest, method: Any, params: Any, modern: bool) -> None:
        wanted = {"mcp-method": method}
        if method in NAMED and isinstance(params, dict):
            wanted["mcp-name"] = params.get(NAMED[method])
        for header, value in wanted.items():
            given = request.values(header)
            if (modern or given) and [decoded(each) for each in given] != [value]:
                raise Failed(_error(400, None, -32020, f"Header mismatch: {header}"))

    def _sessions(self, request: HttpRequest) -> dict[str, str] | None:
        """Target to its session, as the gateway packed them into the client's; None without one."""
        packed = request.header("mcp-session-id")
        if packed is None:
            return None
        try:
            found: dict[str, str] = json.loads(base64.b64decode(packed, validate=True))
        except ValueError:
            raise Failed(_plain(404, "no such session")) from None
        return found

    async def _initialize(self, request: HttpRequest, message: dict[str, Any]) -> Reply:
        sent = [await self._send(name, request, request.body, {}) for name in self.targets]
        sessions = {
            name: response.headers["mcp-session-id"]
            for name, response in zip(self.targets, sent, strict=True)
            if "mcp-session-id" in response.headers
        }
        answers = [await self._response(response) for response in sent]
        result = answers[0]
        if self.alone is None:
            each = [answer["result"] for answer in answers]
            said = "\n".join(one["instructions"] for one in each if one.get("instructions"))
            result = {
                "jsonrpc": "2.0",
                "id": message["id"],
                "result": {
                    "protocolVersion": min(one["protocolVersion"] for one in each),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "stand-in", "version": "1"},
                    "instructions": said,
                },
            }
        packed = base64.b64encode(json.dumps(sessions).encode()).decode()
        return _events([result], [("mcp-session-id", packed)])

    async def _list(self, request: HttpRequest, message: dict[str, Any], sessions: dict[str, str]) -> Reply:
        """``nextCursor`` is dropped: nothing in the answer tells that a target has more."""
        work = [self._send(name, request, request.body, sessions) for name in self.targets]
        sent = await asyncio.gather(*work)
        tools: list[Any] = []
        others: list[dict[str, Any]] = []
        result: dict[str, Any] = {}
        for name, response in zip(self.targets, sent, strict=True):
            answer = await self._response(response, others)
            if "error" in answer:
                return _events([*others, answer])
            result = {**answer["result"], **result}
            for tool in answer["result"]["tools"]:
                tools.append(tool if self.alone else {**tool, "name": f"{name}_{tool['name']}"})
        result.pop("nextCursor", None)
        joined = {"jsonrpc": "2.0", "id": message["id"], "result": {**result, "tools": tools}}
        return _events([*others, joined])

    async def _call(self, request: HttpRequest, message: dict[str, Any], sessions: dict[str, str]) -> Reply:
        target, found, name = str(message["params"].get("name")).partition("_")
        if not found or target not in self.targets:
            return _plain(500, "no such target")
        body = json.dumps({**message, "params": {**message["params"], "name": name}}, ensure_ascii=False)
        return self._streamed(await self._send(target, request, body.encode(), sessions))

    # Streams and sessions ----------------------------------------------------------------------------------

    async def _get(self, request: HttpRequest) -> Reply:
        sessions = self._sessions(request)
        opened: list[httpx.Response] = []

        async def close() -> None:
            for response in opened:
                await response.aclose()

        for name in self.targets:
            try:
                opened.append(await self._send(name, request, b"", sessions or {}))
            except Failed:
                await close()
                raise
        return Reply(200, [EVENTS], _merged(opened), close)

    async def _delete(self, request: HttpRequest) -> Reply:
        for name in self.targets:
            with suppress(Failed):
                await self._read_whole(await self._send(name, request, b"", self._sessions(request) or {}))
        return Reply(202, [])

    # Targets -----------------------------------------------------------------------------------------------

    async def _send(
        self, target: str, request: HttpRequest, body: bytes, sessions: Mapping[str, str]
    ) -> httpx.Response:
        """Raises Failed with the gateway's reply where the target refuses or cannot be reached."""
        headers = [item for item in request.headers if item[0] not in OWN]
        if target in sessions:
            headers.append(("mcp-session-id", sessions[target]))
        sent = self.client.build_request(
            request.method, self.targets[target], content=body or None, headers=headers
        )
        try:
            response = await self.client.send(sent, stream=True)
        except httpx.HTTPError as error:
            raise Failed(_plain(503, f"upstream: {type(error).__name__}")) from None
        if response.status_code < 300:
            return response
        with suppress(httpx.HTTPError):
            await response.aread()
        kept = [item for item in response.headers.multi_items() if item[0] not in HOP]
        raise Failed(Reply(response.status_code, kept, _one(response.content), processed=False))

    def _streamed(self, response: httpx.Response) -> Reply:
        return Reply(200, [EVENTS], _reframed(response), response.aclose)

    async def _response(
        self, response: httpx.Response, others: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """The message that answers; what came before it goes to ``others``."""
        try:
            async for data in _messages(response):
                message: dict[str, Any] = json.loads(data)
                if "method" not in message:
                    return message
                if others is not None:
                    others.append(message)
        except (httpx.HTTPError, ValueError):
            pass
        finally:
            await response.aclose()
        raise Failed(_plain(502, "upstream: no answer"))

    async def _read_whole(self, response: httpx.Response) -> None:
        with suppress(httpx.HTTPError):
            await response.aread()
        await response.aclose()


async def _messages(response: httpx.Response) -> AsyncIterator[bytes]:
    """The JSON texts in a response, as they arrive."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        if body := await response.aread():
            yield body
        return
    left, data = b"", []
    async for chunk in response.aiter_bytes():
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line.strip() and data:
                # An event without data only carries an id.
                if text := b"\n".join(data):
                    yield text
                data = []


async def _reframed(response: httpx.Response) -> AsyncIterator[bytes]:
    async for data in _messages(response):
        yield _event(data)


async def _merged(responses: list[httpx.Response]) -> AsyncIterator[bytes]:
    """Events of all streams as they come; it opens with a comment."""
    yield b": open\n\n"
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def pump(response: httpx.Response) -> None:
        with suppress(httpx.HTTPError):
            async for data in _messages(response):
                queue.put_nowait(data)
        queue.put_nowait(None)

    tasks = [asyncio.ensure_future(pump(response)) for response in responses]
    open_streams = len(tasks)
    try:
        while open_streams:
            if (data := await queue.get()) is None:
                open_streams -= 1
            else:
                yield _event(data)
    finally:
        for task in tasks:
            task.cancel()


def _event(data: bytes) -> bytes:
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


async def _one(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data


async def _several(messages: list[dict[str, Any]]) -> AsyncIterator[bytes]:
    for message in messages:
        yield _event(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode())


def _events(messages: list[dict[str, Any]], more: list[tuple[str, str]] | None = None) -> Reply:
    return Reply(200, [EVENTS, *(more or [])], _several(messages))


def _plain(status: int, text: str) -> Reply:
    return Reply(status, [("content-type", "text/plain")], _one(text.encode()), processed=False)


def _error(status: int, number: Any, code: int, text: str) -> Reply:
    message = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
    body = json.dumps(message).encode()
    return Reply(status, [("content-type", "application/json")], _one(body), processed=False)


def decoded(value: str) -> str:
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2]).decode()
    return value
