"""One JSON-RPC request over HTTP and its answer, whether it comes as JSON or among server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from extproc.exchange.messages import Headers
from extproc.mcp import slices
from extproc.mcp.sse import FrameSplitter
from extproc.upstream.channel import Channel
from extproc.upstream.outcomes import Failed, Reason
from extproc.upstream.transport import Head, Transport, TransportError

OFF_LOOP = 128 * 1024
"""Bytes above which a body is taken apart in a thread."""
_TAIL = 0.05
"""Seconds an event stream gets to end by itself after its answer, so that its connection can be reused."""
_REFUSED_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """The ``result`` member as it came."""

    result: bytes = field(repr=False)
    headers: Headers = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class RpcError:
    code: int
    message: str = field(repr=False)
    raw: bytes = field(repr=False)
    status: int = 200


@dataclass(frozen=True, slots=True)
class HttpError:
    """A status that is no success and a body that is no JSON-RPC error to this request."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


Reply: TypeAlias = Answer | RpcError | HttpError | Failed


async def request(
    transport: Transport,
    channel: Channel,
    method: str,
    params: slices.Members,
    request_id: int,
    *,
    extra: Headers = (),
    limit: int | None = None,
    repeat: bool = False,
) -> Reply:
    """Send a request and wait for its answer; deadlines are the caller's.

    ``repeat`` sends it once more when a kept connection broke before any answer: for requests that change
    nothing.  Never raises because of a peer.
    """
    body = channel.request_body(method, params, request_id)
    headers = channel.request_headers(method, extra)
    while True:
        try:
            async with transport.send("POST", headers, body, limit=limit) as head:
                return await _reply(transport, channel, head, request_id)
        except TransportError as error:
            if not (repeat and error.early and error.reason is Reason.RESET):
                return Failed(error.reason, error.detail)
            repeat = False


async def notify(transport: Transport, channel: Channel, method: str, params: slices.Members) -> bool:
    """Send a notification; true when the server took it."""
    body = channel.request_body(method, params, None)
    try:
        async with transport.send("POST", channel.request_headers(method), body) as head:
            return 200 <= head.status < 300
    except TransportError:
        return False


async def end_session(transport: Transport, channel: Channel) -> None:
    """DELETE the channel's session; servers may refuse (405), which is fine."""
    with suppress(TransportError):
        async with transport.send("DELETE", channel.headers):
            pass


async def _reply(transport: Transport, channel: Channel, head: Head, request_id: int) -> Reply:
    if not 200 <= head.status < 300:
        return await _error_reply(head, request_id)
    if head.media_type == "text/event-stream":
        return await _from_events(transport, channel, head, request_id)
    if head.media_type != "application/json":
        return Failed(Reason.MALFORMED, "content type")
    reply = await _read_message(await head.read(), request_id, head)
    return Failed(Reason.MALFORMED, "no answer to the request") if reply is None else reply


async def _error_reply(head: Head, request_id: int) -> Reply:
    try:
        body = await _at_most(head, _REFUSED_BODY)
    except TransportError:
        body = b""
    if head.status not in (401, 403) and head.media_type == "application/json":
        message = _members(body)
        if message is not None and "error" in message:
            return _rpc_error(message["error"], head.status)
    return HttpError(head.status, head.headers, body)


async def _at_most(head: Head, size: int) -> bytes:
    """The body if it has at most ``size`` bytes, else nothing: half a challenge helps nobody."""
    held = bytearray()
    async for chunk in head.chunks():
        held += chunk
        if len(held) > size:
            return b""
    return bytes(held)


async def _from_events(transport: Transport, channel: Channel, head: Head, request_id: int) -> Reply:
    splitter = FrameSplitter(2**62)
    chunks = head.chunks()
    async with aclosing(_events(chunks, splitter)) as events:
        async for data in events:
            message = await _parse(data)
            if message is None:
                continue
            if "method" in message:
                if "id" in message and channel.meta is None:
                    await _decline(transport, channel, message["id"], message["method"])
                continue
            reply = _answer(message, request_id, head)
            if reply is not None:
                await _drain(chunks)
                return reply
    return Failed(Reason.MALFORMED, "stream ended without an answer")


async def _events(chunks: AsyncIterator[bytes], splitter: FrameSplitter) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        for frame in splitter.feed(chunk):
            if frame.data:
                yield frame.data
    for frame in splitter.feed(b"", end=True):
        if frame.data:
            yield frame.data


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with suppress(TimeoutError, TransportError):
        async with asyncio.timeout(_TAIL):
            async for _ in chunks:
                pass


async def _decline(transport: Transport, channel: Channel, server_id: bytes, method: bytes) -> None:
    """Answer a server's own request (legacy): nothing was offered, so only ``ping`` is granted."""
    outcome = (
        {"result": b"{}"}
        if slices.string(method) == "ping"
        else {"error": slices.encode({"code": -32601, "message": "Not supported by this client"})}
    )
    body = slices.join({"jsonrpc": b'"2.0"', "id": server_id, **outcome})
    with suppress(TransportError, TimeoutError):
        async with asyncio.timeout(1.0), transport.send("POST", channel.headers, body):
            pass


async def _read_message(body: bytes, request_id: int, head: Head) -> Reply | None:
    message = await _parse(body)
    if message is None or "method" in message:
        return None
    if "error" in message and message.get("id", b"null") == b"null":
        return _rpc_error(message["error"], head.status)
    return _answer(message, request_id, head)


async def _parse(data: bytes) -> slices.Members | None:
    if len(data) <= OFF_LOOP:
        return _members(data)
    return await asyncio.to_thread(_members, data)


def _members(data: bytes) -> slices.Members | None:
    try:
        return slices.members(data)
    except ValueError:
        return None


def _answer(message: slices.Members, request_id: int, head: Head) -> Answer | RpcError | None:
    """The reply when this is the response to ``request_id``; never one with another id."""
    if not _is_id(message.get("id"), request_id):
        return None
    if "result" in message:
        return Answer(message["result"], head.headers) if slices.is_object(message["result"]) else None
    return _rpc_error(message["error"], head.status) if "error" in message else None


def _is_id(raw: bytes | None, request_id: int) -> bool:
    if raw is None or raw[:1] not in b"123456789":
        return False
    try:
        return slices.value(raw) == request_id
    except ValueError:
        return False


def _rpc_error(raw: bytes, status: int) -> RpcError:
    found = _members(raw) or {}
    try:
        code = slices.value(found.get("code", b"0"))
    except ValueError:
        code = 0
    return RpcError(
        code if isinstance(code, int) else 0, slices.string(found.get("message")) or "", raw, status
    )
