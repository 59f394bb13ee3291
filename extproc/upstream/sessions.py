"""Our own legacy sessions for side requests: opened when a caller has none, pooled per caller, bounded."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from extproc.catalog.caller import CallerContext, CallerKey
from extproc.exchange.messages import Headers
from extproc.mcp import revisions, slices
from extproc.upstream import rpc
from extproc.upstream.channel import CLIENT_INFO, Channel, Ids, legacy, opening
from extproc.upstream.outcomes import Failed, Reason, Unauthorized
from extproc.upstream.transport import Transport

IDLE = 300.0
"""Seconds after which an unused session is ended."""
CLOSING = 2.0
"""Seconds given to the DELETEs of a shutdown."""

_Key = tuple[CallerKey, str, int]


class Sessions:
    """At most ``limit`` sessions over all callers; the least recently used is ended first.

    ``deadline`` in seconds bounds each ``initialize``, whoever still waits for it.
    """

    def __init__(
        self, transport: Transport, ids: Ids, limit: int, deadline: float, clock: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._ids = ids
        self._limit = limit
        self._deadline = deadline
        self._clock = clock
        self._open: OrderedDict[_Key, tuple[Channel, float]] = OrderedDict()
        self._opening: dict[_Key, asyncio.Task[Channel | Unauthorized | Failed]] = {}
        self._background: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def obtain(self, caller: CallerContext, passed: Headers) -> Channel | Unauthorized | Failed:
        """The caller's pooled session, or a new one.  One ``initialize`` at a time for each caller."""
        self._end_idle()
        key = _key(caller, passed)
        if key is None:
            return await self._initialize(caller, passed)
        held = self._open.get(key)
        if held is not None:
            self._open[key] = held[0], self._clock()
            self._open.move_to_end(key)
            return held[0]
        task = self._opening.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._initialize(caller, passed, key))
            self._opening[key] = task
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(task)

    def release(self, caller: CallerContext, channel: Channel) -> None:
        """The request is over: sessions of callers without a key are ended, others kept."""
        if caller.key is None:
            self._end(channel)

    def forget(self, caller: CallerContext, passed: Headers, channel: Channel) -> None:
        """The server no longer knows the session."""
        key = _key(caller, passed)
        if key is not None and (held := self._open.get(key)) is not None and held[0] is channel:
            del self._open[key]

    async def aclose(self) -> None:
        """End every session, as far as the server answers in time."""
        for channel, _ in self._open.values():
            self._end(channel)
        self._open.clear()
        if self._background:
            _, late = await asyncio.wait(tuple(self._background), timeout=CLOSING)
            for task in late:
                task.cancel()

    async def _initialize(
        self, caller: CallerContext, passed: Headers, key: _Key | None = None
    ) -> Channel | Unauthorized | Failed:
        try:
            async with asyncio.timeout(self._deadline):
                opened = await self._handshake(caller, passed)
        except TimeoutError:
            return Failed(Reason.TIMEOUT, "initialize")
        if key is not None and isinstance(opened, Channel):
            self._open[key] = opened, self._clock()
            while len(self._open) > self._limit:
                _, (oldest, _) = self._open.popitem(last=False)
                self._end(oldest)
        return opened

    async def _handshake(self, caller: CallerContext, passed: Headers) -> Channel | Unauthorized | Failed:
        offered = caller.revision if caller.revision in revisions.LEGACY else revisions.LEGACY[-1]
        params = {
            "protocolVersion": slices.quote(offered),
            "capabilities": b"{}",
            "clientInfo": CLIENT_INFO,
        }
        channel = opening(passed)
        reply = await rpc.request(
            self._transport, channel, "initialize", params, self._ids.next(), repeat=True
        )
        match reply:
            case rpc.HttpError(status=401 | 403):
                return Unauthorized(reply.status, reply.headers, reply.body)
            case rpc.HttpError():
                return Failed(Reason.STATUS, str(reply.status))
            case rpc.RpcError():
                return Failed(Reason.RPC_ERROR, f"initialize {reply.code}")
            case Failed():
                return reply
        try:
            chosen = slices.string(slices.members(reply.result).get("protocolVersion")) or offered
        except ValueError:
            return Failed(Reason.MALFORMED, "initialize")
        session = next((value for name, value in reply.headers if name == "mcp-session-id"), None)
        channel = legacy(chosen, passed, session, live=False)
        await rpc.notify(self._transport, channel, "notifications/initialized", {})
        return channel

    def _end_idle(self) -> None:
        now = self._clock()
        while self._open:
            key, (channel, used) = next(iter(self._open.items()))
            if now - used < IDLE:
                return
            del self._open[key]
            self._end(channel)

    def _end(self, channel: Channel) -> None:
        if channel.session is not None:
            self._spawn(self._delete(channel))

    async def _delete(self, channel: Channel) -> None:
        try:
            async with asyncio.timeout(CLOSING):
                await rpc.end_session(self._transport, channel)
        except TimeoutError:
            pass

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _key(caller: CallerContext, passed: Headers) -> _Key | None:
    # A session may be bound to the very token it was opened with, so another token is another session.
    return None if caller.key is None else (caller.key, caller.revision, hash(passed))
