"""Side requests through the catalogue route, on behalf of one caller at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Catalogue, Tool
from extproc.catalog.parse import NotAToolList, Page, parse_page
from extproc.mcp import revisions, slices
from extproc.rewriter.meta_tools import Meta
from extproc.settings import Settings
from extproc.upstream import rpc
from extproc.upstream.batch import Batch, Call
from extproc.upstream.channel import Channel, Ids, legacy, modern, passed_headers
from extproc.upstream.circuit import Circuit
from extproc.upstream.outcomes import (
    CallOutcome,
    Failed,
    Fetched,
    FetchOutcome,
    Reason,
    SessionLost,
    Unauthorized,
)
from extproc.upstream.sessions import Sessions
from extproc.upstream.transport import Transport

CALLS_PER_FETCH = 4
"""Places for single calls of batches, for each of the ``catalog.max_fetches`` places for lists."""
_BAD_CURSOR = -32602
_NO_METHOD = -32601

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Unusable:
    """The caller's live or our pooled session does not do; ``why`` is what to say if nothing else does."""

    why: Failed


@dataclass(slots=True)
class _Reading:
    """Pages so far."""

    tools: list[Tool] = field(default_factory=list)
    cursors: set[str] = field(default_factory=set)
    ttl: float | None = None
    pages: int = 0
    bytes: int = 0

    def add(self, page: Page, size: int) -> None:
        self.tools.extend(page.tools)
        self.pages += 1
        self.bytes += size
        if page.ttl is not None:
            self.ttl = page.ttl if self.ttl is None else min(self.ttl, page.ttl)


_OURS = (Meta.SEARCH, Meta.DESCRIBE, Meta.CALL_READ, Meta.CALL_WRITE)


class UpstreamClient:
    """Reads lists and makes calls at ``catalog.url``, with the caller's credentials and nothing else.

    One for each distinct route; ``executor`` takes large lists apart.  ``counts`` has the number of outcomes
    by name (``fetched``, ``unauthorized``, or the :class:`Reason` of a failure).
    """

    def __init__(
        self, settings: Settings, executor: Executor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._executor = executor
        catalog = settings.catalog
        calls = catalog.max_fetches * CALLS_PER_FETCH
        self._transport = (
            Transport(
                catalog.url,
                connections=catalog.max_fetches + calls + 8,
                limit=settings.limits.response_body,
            )
            if catalog.url
            else None
        )
        self.available = self._transport is not None
        """Whether there is a route at all."""
        self._ids = Ids()
        self._sessions = (
            None
            if self._transport is None
            else Sessions(self._transport, self._ids, catalog.max_sessions, catalog.timeout, clock)
        )
        self._fetches = asyncio.Semaphore(catalog.max_fetches)
        self._calls = asyncio.Semaphore(calls)
        self._circuit = Circuit(clock)
        self._cancels: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()

    @property
    def backing_off(self) -> bool:
        return self._circuit.resting

    @property
    def sessions(self) -> int:
        """Own sessions open now."""
        return 0 if self._sessions is None else len(self._sessions)

    # Lists ------------------------------------------------------------------------------------------------

    async def fetch(self, caller: CallerContext, *, timeout: float | None = None) -> FetchOutcome:  # noqa: ASYNC109
        """All pages of the caller's tool list within ``timeout`` seconds (default ``catalog.timeout``).

        Never raises because of a peer.  Several calls for one caller make several fetches: the
        :class:`~extproc.upstream.refresher.Refresher` sees to one at a time.
        """
        outcome = await self._guarded(
            self._fetches,
            self._settings.catalog.timeout if timeout is None else timeout,
            lambda transport, sessions: self._fetch(transport, sessions, caller),
        )
        self.counts[_label(outcome)] += 1
        return outcome

    async def _guarded(
        self,
        places: asyncio.Semaphore,
        timeout: float,  # noqa: ASYNC109
        work: Callable[[Transport, Sessions], Awaitable[_T]],
    ) -> _T | Failed:
        if self._transport is None or self._sessions is None:
            return Failed(Reason.NO_ROUTE)
        if not self._circuit.admits():
            return Failed(Reason.BACKING_OFF)
        outcome: _T | Failed
        loop = asyncio.get_running_loop()
        # A request that got its place late and then too little time says nothing about the upstream.
        late = loop.time() + timeout / 2
        started = float("inf")
        try:
            async with asyncio.timeout(timeout):
                async with places:
                    started = loop.time()
                    outcome = await work(self._transport, self._sessions)
        except TimeoutError:
            outcome = Failed(Reason.TIMEOUT if started <= late else Reason.BUSY)
        except asyncio.CancelledError:
            self._circuit.abandon()
            raise
        except Exception as error:  # a fault of ours must not take the exchange with it
            outcome = Failed(Reason.INTERNAL, type(error).__name__)
        self._circuit.report(outcome)
        return outcome

    async def _fetch(self, transport: Transport, sessions: Sessions, caller: CallerContext) -> FetchOutcome:
        passed = passed_headers(caller, self._settings)
        if revisions.is_modern(caller.revision):
            outcome = await self._pages(transport, modern(caller, passed))
            return outcome.why if isinstance(outcome, _Unusable) else outcome
        if caller.session is not None:
            channel = legacy(caller.revision, passed, caller.session, live=True)
            outcome = await self._pages(transport, channel)
            if not isinstance(outcome, _Unusable):
                return outcome
        # A pooled session may have ended on the server's side: one more try with a new one.
        outcome = _Unusable(Failed(Reason.INTERNAL))
        for _ in range(2):
            own = await sessions.obtain(caller, passed)
            if not isinstance(own, Channel):
                return own
            try:
                outcome = await self._pages(transport, own)
            finally:
                sessions.release(caller, own)
            if not isinstance(outcome, _Unusable):
                return outcome
            if outcome.why.reason is Reason.RPC_ERROR:
                break
            sessions.forget(caller, passed, own)
        return outcome.why

    async def _pages(self, transport: Transport, channel: Channel) -> FetchOutcome | _Unusable:
        limits, catalog = self._settings.limits, self._settings.catalog
        reading, cursor, restarted = _Reading(), None, False
        while True:
            params: slices.Members = {} if cursor is None else {"cursor": slices.quote(cursor)}
            left = limits.response_body - reading.bytes
            reply = await rpc.request(
                transport, channel, "tools/list", params, self._ids.next(), limit=max(1, left), repeat=True
            )
            match reply:
                case rpc.Answer():
                    pass
                case rpc.RpcError(code=code) if code == _BAD_CURSOR and cursor is not None and not restarted:
                    reading, cursor, restarted = _Reading(pages=reading.pages), None, True
                    continue
                case _:
                    return _refusal(reply, first=cursor is None, session=channel.session is not None)
            page = await self._page(reply.result, modern=channel.meta is not None)
            if page is None:
                return Failed(Reason.MALFORMED, "no tool list")
            reading.add(page, len(reply.result))
            cursor = page.next_cursor
            if cursor is None:
                cut = None
            elif len(reading.tools) > limits.tools:
                cut = Reason.TOO_MANY_TOOLS
            elif cursor in reading.cursors:
                cut = Reason.CURSOR_CYCLE
            elif reading.pages >= catalog.max_pages:
                cut = Reason.TOO_MANY_PAGES
            else:
                reading.cursors.add(cursor)
                continue
            if len(reading.tools) > limits.tools:
                cut = Reason.TOO_MANY_TOOLS
            catalogue = Catalogue.of(reading.tools[: limits.tools], complete=cut is None)
            if all(name in catalogue.by_name for name in _OURS):
                return Failed(Reason.FILTERED)
            return Fetched(catalogue, reading.ttl, cut)

    async def _page(self, result: bytes, *, modern: bool) -> Page | None:
        policy, limit = self._settings.tools, self._settings.limits.tools

        def parse() -> Page | None:
            try:
                return parse_page(result, policy, modern=modern, limit=limit)
            except NotAToolList:
                return None

        if len(result) <= rpc.OFF_LOOP:
            return parse()
        return await asyncio.get_running_loop().run_in_executor(self._executor, parse)

    # Calls ------------------------------------------------------------------------------------------------

    async def call_many(
        self,
        caller: CallerContext,
        calls: Sequence[Call],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> tuple[CallOutcome, ...] | Unauthorized | SessionLost:
        """Make the calls at once and return an outcome for each, in order.

        ``timeout`` in seconds is each call's own (default ``catalog.timeout``), waiting for a place
        included.  A 401 or 403 to any of them, or a 404 for the caller's live session, ends all and is
        returned alone.  Cancelling the task cancels every call, with ``notifications/cancelled`` in legacy
        sessions.  Nothing is sent twice.
        """
        limit = self._settings.catalog.timeout if timeout is None else timeout
        if self._transport is None or self._sessions is None:
            return tuple(Failed(Reason.NO_ROUTE) for _ in calls)
        passed = passed_headers(caller, self._settings)
        own: Channel | None = None
        if revisions.is_modern(caller.revision):
            channel = modern(caller, passed)
        elif caller.session is not None:
            channel = legacy(caller.revision, passed, caller.session, live=True)
        else:
            obtained = await self._guarded(
                self._fetches, limit, lambda _, sessions: sessions.obtain(caller, passed)
            )
            if isinstance(obtained, Failed):
                return tuple(obtained for _ in calls)
            if isinstance(obtained, Unauthorized):
                return obtained
            channel = own = obtained
        batch = Batch(
            self._transport,
            channel,
            self._ids,
            self._calls,
            self._circuit,
            size_limit=max(1, self._settings.limits.response_body // max(1, len(calls))),
            timeout=limit,
            cancels=self._cancels,
        )
        try:
            outcome = await batch.run(calls)
        finally:
            if own is not None:
                self._sessions.release(caller, own)
        if isinstance(outcome, SessionLost) and own is not None:
            self._sessions.forget(caller, passed, own)
            return tuple(Failed(Reason.STATUS, "404") for _ in calls)
        return outcome

    async def aclose(self) -> None:
        """End own sessions and close every connection."""
        if self._cancels:
            await asyncio.wait(tuple(self._cancels), timeout=1.0)
        if self._sessions is not None:
            await self._sessions.aclose()
        if self._transport is not None:
            await self._transport.aclose()


def _refusal(reply: rpc.Reply, *, first: bool, session: bool) -> Unauthorized | Failed | _Unusable:
    """What a page that is no page means.  A session is at fault only when its first page is refused."""
    match reply:
        case rpc.HttpError(status=401 | 403):
            return Unauthorized(reply.status, reply.headers, reply.body)
        case rpc.HttpError(status=status):
            failed = Failed(Reason.STATUS, str(status))
            return _Unusable(failed) if first and session and status in (400, 404) else failed
        case rpc.RpcError(status=status) if status >= 500:
            return Failed(Reason.STATUS, str(status))
        case rpc.RpcError(code=code):
            failed = Failed(Reason.RPC_ERROR, str(code))
            return _Unusable(failed) if first and session and code != _NO_METHOD else failed
        case Failed():
            return reply
        case _:
            return Failed(Reason.MALFORMED)


def _label(outcome: FetchOutcome) -> str:
    match outcome:
        case Fetched(cut=cut):
            return "fetched" if cut is None else cut.value
        case Unauthorized():
            return "unauthorized"
        case Failed(reason=reason):
            return reason.value
