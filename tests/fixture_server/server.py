"""The MCP endpoint: both eras on one path, JSON or event-stream answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
from typing import Any

from tests.fixture_server.calls import Call, Reset, run
from tests.fixture_server.options import LEGACY, MODERN
from tests.fixture_server.rules import VERSION, Refusal, check_modern
from tests.fixture_server.state import Session, State, Stream
from tests.fixture_server.wire import Headers, Request, Responder

JSON_TYPE = ("content-type", "application/json")
SSE_HEADERS: Headers = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
]
INFO = {"name": "fixture", "version": "1.0.0"}
PRIMING = "0"


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def failure(number: Any, refusal: Refusal) -> bytes:
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.text}
    if refusal.data is not None:
        error["data"] = refusal.data
    return encode({"jsonrpc": "2.0", "id": number, "error": error})


class Exchange:
    """One POST: knows its caller, its era, and whether an event stream has been opened."""

    def __init__(self, state: State, request: Request, responder: Responder) -> None:
        self.state, self.request, self.responder = state, request, responder
        self.streaming = False
        self.events = 0
        self.stream = 0
        self.session: Session | None = None
        self.headers: Headers = []

    async def answer(self) -> None:
        number: Any = None
        try:
            token = self.state.caller(self.request)
            message = self._parse()
            number = message.get("id") if isinstance(message, dict) else None
            if self._is_modern(message):
                await self._modern(message, token)
            else:
                await self._legacy(message, token)
        except Refusal as refusal:
            await self._refuse(number, refusal)
        except Reset as reset:
            if reset.half:
                await self.open()
                await self.responder.chunk(b'event: message\ndata: {"jsonrpc":"2.0","id":')
                await asyncio.sleep(0.05)
            self.responder.abort()

    def _parse(self) -> Any:
        try:
            return json.loads(self.request.body)
        except ValueError:
            raise Refusal(400, -32700, "Parse error") from None

    def _is_modern(self, message: Any) -> bool:
        version = self.request.header("mcp-protocol-version")
        params = message.get("params") if isinstance(message, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        stamped = isinstance(meta, dict) and VERSION in meta
        modern = stamped or version not in (None, *LEGACY)
        if modern and self.state.options.era == "legacy":
            raise Refusal(400, -32000, "Bad Request: Unsupported protocol version")
        if not modern and self.state.options.era == "modern":
            known = {"supported": list(MODERN), "requested": version or ""}
            raise Refusal(400, -32022, "Unsupported protocol version", known)
        return modern

    async def _modern(self, message: Any, token: str) -> None:
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            raise Refusal(400, -32600, "One request or notification is expected")
        if "id" not in message:
            await self.responder.send(202)
            return
        check_modern(self.request, message, {tool["name"]: tool for tool in self.state.tools(token)})
        if message["method"] == "subscriptions/listen":
            await self._listen(message)
            return
        work = asyncio.ensure_future(self._result(message, token, modern=True))
        gone = asyncio.ensure_future(self.responder.gone.wait())
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not work.done():
            work.cancel()
            return
        result = await work
        result.setdefault("resultType", "complete")
        result.setdefault("_meta", {})["io.modelcontextprotocol/serverInfo"] = INFO
        await self._reply(message, result)

    async def _legacy(self, message: Any, token: str) -> None:
        if isinstance(message, list):
            await self._batch(message, token)
            return
        if not isinstance(message, dict):
            raise Refusal(400, -32600, "Invalid request")
        self._find_session(message)
        if "method" not in message:
            pending = self.session.pending.pop(message.get("id"), None) if self.session else None
            if pending is not None and not pending.done():
                pending.set_result(message)
        if "method" not in message or "id" not in message:
            await self.responder.send(202)
            return
        if self.state.options.resume and self.session and message["method"] != "initialize":
            await self._hold_back(message, token, self.session)
            return
        await self._reply(message, await self._result(message, token, modern=False))

    def _find_session(self, message: dict[str, Any]) -> None:
        if not self.state.options.sessions or message.get("method") == "initialize":
            return
        name = self.request.header("mcp-session-id")
        if name is None:
            raise Refusal(400, -32600, "Bad Request: Missing session ID")
        if name not in self.state.sessions:
            raise Refusal(404, -32600, "Session not found")
        self.session = self.state.sessions[name]

    async def _batch(self, messages: list[Any], token: str) -> None:
        if self.request.header("mcp-protocol-version") not in (None, "2025-03-26"):
            raise Refusal(400, -32600, "Batches are not supported in this version")
        self._find_session({})
        answers = []
        for message in messages:
            if isinstance(message, dict) and "method" in message and "id" in message:
                result = await self._result(message, token, modern=False)
                answers.append({"jsonrpc": "2.0", "id": message["id"], "result": result})
        if answers:
            await self.responder.send(200, encode(answers), [JSON_TYPE])
        else:
            await self.responder.send(202)

    async def _result(self, message: dict[str, Any], token: str, *, modern: bool) -> dict[str, Any]:
        method, params = message["method"], message.get("params") or {}
        if fault := self.state.options.faults.get(method):
            await self._fault(fault)
        match method:
            case "server/discover" if modern:
                return {"supportedVersions": list(MODERN), **self._about(), **self._caching()}
            case "initialize" if not modern:
                return self._initialize(params)
            case "ping" if not modern:
                return {}
            case "tools/list":
                await asyncio.sleep(self.state.options.list_delay)
                page = self._page(token, params.get("cursor"))
                return {**page, **self._caching()} if modern else page
            case "tools/call":
                return await run(Call(self.state, token, message, self.say, modern, self.session))
            case _:
                raise Refusal(404 if modern else 200, -32601, f"Method not found: {method}")

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        offered = params.get("protocolVersion")
        version = offered if offered in LEGACY else LEGACY[-1]
        if self.state.options.sessions:
            name = secrets.token_hex(16)
            self.state.sessions[name] = Session(version)
            self.headers.append(("mcp-session-id", name))
        return {"protocolVersion": version, "serverInfo": INFO, **self._about()}

    def _about(self) -> dict[str, Any]:
        options = self.state.options
        about: dict[str, Any] = {"capabilities": {"tools": {"listChanged": options.list_changed}}}
        return about if options.instructions is None else {**about, "instructions": options.instructions}

    def _caching(self) -> dict[str, Any]:
        return {"ttlMs": self.state.options.ttl_ms, "cacheScope": self.state.options.cache_scope}

    def _page(self, token: str, cursor: Any) -> dict[str, Any]:
        tools, size = self.state.tools(token), self.state.options.page_size
        start = 0
        if cursor is not None:
            if not isinstance(cursor, str) or not cursor.startswith("page-") or not cursor[5:].isdigit():
                raise Refusal(200, -32602, "Invalid cursor")
            start = int(cursor[5:])
        if not size or start + size >= len(tools):
            return {"tools": tools[start:]}
        return {"tools": tools[start : start + size], "nextCursor": f"page-{start + size}"}

    async def _fault(self, fault: str) -> None:
        match fault:
            case "reset" | "half":
                raise Reset(half=fault == "half")
            case "error":
                raise Refusal(200, -32603, "Internal error")
            case _:
                raise Refusal(int(fault), -32603, "Internal error")

    async def open(self) -> None:
        if not self.streaming:
            self.streaming = True
            if self.session is not None:
                self.session.streams += 1
                self.stream = self.session.streams
            await self.responder.start(200, [*SSE_HEADERS, *self.headers])

    async def say(self, message: dict[str, Any]) -> None:
        """One event; legacy events carry an id that is unique in the session."""
        await self.open()
        await self.responder.chunk(self._event(message))

    def _event(self, message: dict[str, Any]) -> bytes:
        self.events += 1
        number = f"id: {self.stream}-{self.events}\n".encode() if self.session is not None else b""
        return b"event: message\n" + number + b"data: " + encode(message) + b"\n\n"

    async def _reply(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if self.streaming or self.state.options.answers == "sse":
            await self.say(answer)
            await self.responder.end()
            return
        body, headers = encode(answer), [JSON_TYPE, *self.headers]
        if self.state.options.compress and "gzip" in (self.request.header("accept-encoding") or ""):
            body = gzip.compress(body, 1)
            headers.append(("content-encoding", "gzip"))
        await self.responder.send(200, body, headers)

    async def _refuse(self, number: Any, refusal: Refusal) -> None:
        if self.streaming:
            await self.responder.chunk(b"event: message\ndata: " + failure(number, refusal) + b"\n\n")
            await self.responder.end()
        else:
            body = failure(number, refusal)
            await self.responder.send(refusal.status, body, [JSON_TYPE, *refusal.headers])

    async def _hold_back(self, message: dict[str, Any], token: str, session: Session) -> None:
        """Priming event, then the end of the stream; the answer waits for a GET with ``Last-Event-ID``."""
        result = await self._result(message, token, modern=False)
        await self.open()
        await self.responder.chunk(f"id: {self.stream}-{PRIMING}\nretry: 20\ndata:\n\n".encode())
        event = self._event({"jsonrpc": "2.0", "id": message["id"], "result": result})
        session.replay.setdefault(str(self.stream), []).append(event.decode())
        await self.responder.end()

    async def _listen(self, message: dict[str, Any]) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        wanted = message["params"].get("notifications", {})
        honoured = {"toolsListChanged": True} if wanted.get("toolsListChanged") else {}
        await self.say(
            {
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": honoured, "_meta": meta},
            }
        )
        await follow(self.state, self.responder, self.say, meta)


async def follow(state: State, responder: Responder, say: Any, meta: dict[str, Any] | None = None) -> None:
    """Keep a stream open and send notifications on it until the client leaves."""
    stream = Stream(asyncio.Queue(), meta)
    state.streams.append(stream)
    gone = asyncio.ensure_future(responder.gone.wait())
    try:
        while not gone.done():
            message = asyncio.ensure_future(stream.queue.get())
            await asyncio.wait({message, gone}, return_when=asyncio.FIRST_COMPLETED)
            if message.done():
                await say(message.result())
            else:
                message.cancel()
    finally:
        gone.cancel()
        state.streams.remove(stream)


async def get(state: State, request: Request, responder: Responder) -> None:
    """The legacy GET stream, or the rest of a broken POST stream when ``Last-Event-ID`` says so."""
    modern = request.header("mcp-protocol-version") not in (None, *LEGACY)
    name = request.header("mcp-session-id")
    if modern or state.options.era == "modern":
        await responder.send(405, b"", [("allow", "POST")])
        return
    if state.options.sessions and name not in state.sessions:
        unknown = failure(None, Refusal(404, -32600, "Session not found"))
        await responder.send(404 if name else 400, unknown, [JSON_TYPE])
        return
    await responder.start(200, SSE_HEADERS)
    last = request.header("last-event-id")
    if last is not None and name is not None:
        for event in state.sessions[name].replay.pop(last.partition("-")[0], []):
            await responder.chunk(event.encode())
        await responder.end()
        return

    async def say(message: dict[str, Any]) -> None:
        await responder.chunk(b"event: message\ndata: " + encode(message) + b"\n\n")

    await responder.chunk(b": open\n\n")
    await follow(state, responder, say)


async def delete(state: State, request: Request, responder: Responder) -> None:
    name = request.header("mcp-session-id")
    if name is None:
        await responder.send(405, b"", [("allow", "POST")])
    elif state.sessions.pop(name, None) is None:
        await responder.send(404)
    else:
        await responder.send(200)
