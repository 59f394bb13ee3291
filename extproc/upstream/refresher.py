"""Keeping catalogues right in the background: warm-up, further pages, refresh before the end of a life."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cachetools import LRUCache

from extproc.catalog.caller import CallerContext, CallerKey
from extproc.catalog.model import Catalogue
from extproc.settings import Settings
from extproc.store import CatalogueStore, Warm
from extproc.upstream.client import UpstreamClient
from extproc.upstream.outcomes import Failed, Fetched, Reason, Unauthorized

MAX_WAITING = 2_000
"""Background fetches scheduled at once; more are left to the next use of the caller."""
SETTLE = 0.25
"""Seconds before a warm-up, so that a client's ``notifications/initialized`` goes first."""
SPREAD = 1.0
"""Seconds over which refreshes are spread."""
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 120.0
INCOMPLETE_PAUSE = 60.0
"""Seconds before a list whose pages never end is read again."""

Obtained: TypeAlias = Warm | Unauthorized | Failed


@dataclass(slots=True)
class RefreshCounters:
    """Counts since the start."""

    refreshed: int = 0
    reread: int = 0
    """Fetches because a client's own list was answered from the held one."""
    warmed_up: int = 0
    failed: int = 0
    refused: int = 0
    """Callers dropped because the route answered 401 or 403."""
    overflown: int = 0
    """Background fetches not scheduled because too many were waiting."""


@dataclass(frozen=True, slots=True)
class _Pause:
    failures: int
    until: float


@dataclass(slots=True)
class _Reread:
    """``now`` ends with the fetch at hand; ``then`` with the next, for what came after the first began."""

    now: asyncio.Future[None]
    then: asyncio.Future[None] | None = None
    begun: bool = False


class Refresher:
    """Fetches and learns, one fetch for a caller at a time.

    ``clock`` is the store's clock, ``learned`` is told of every list, ``warn`` of a setting and what the
    operator should know about it.  One for each route, beside its :class:`UpstreamClient`.
    """

    def __init__(
        self,
        store: CatalogueStore,
        client: UpstreamClient,
        settings: Settings,
        clock: Callable[[], float],
        learned: Callable[[CallerContext, Catalogue], None] = lambda *_: None,
        warn: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._store = store
        self._client = client
        self.available = client.available
        """Whether there is a route; without one nothing here does anything."""
        self._settings = settings
        self._clock = clock
        self._learned = learned
        self._warn = warn
        self._running: dict[CallerKey, asyncio.Task[Obtained]] = {}
        self._waiting: dict[CallerKey, asyncio.Task[None]] = {}
        self._rereading: dict[CallerKey, _Reread] = {}
        self._rereads: set[asyncio.Task[None]] = set()
        self._pauses: LRUCache[CallerKey, _Pause] = LRUCache(10_000)
        self.counters = RefreshCounters()

    def used(self, caller: CallerContext) -> None:
        """The caller's catalogue has just served or was just learned: refresh it if that is due.

        Constant time and never waits, for the path of every search.
        """
        if self.available and caller.key is not None and self._store.stale(caller.key):
            self._schedule(caller, random.uniform(0, SPREAD))

    def complete(self, caller: CallerContext) -> None:
        """Only the first page was learned in passing: read the others now."""
        if self.available and caller.key is not None and self._store.stale(caller.key):
            self._schedule(caller, random.uniform(0, SPREAD / 20))

    def warm_up(self, caller: CallerContext) -> None:
        """The caller has just been let in (``initialize``, ``server/discover``): learn its list ahead."""
        if self.available and caller.key is not None and self._store.stale(caller.key):
            self._schedule(caller, SETTLE + random.uniform(0, SETTLE))

    def listed(self, caller: CallerContext) -> None:
        """The client's own ``tools/list`` was answered from the held list: read it again, at once.

        Lists that come while one is being read for the same caller share the next fetch, so that each is
        followed by a fetch that began after it.  A route that fails is left alone as ever.  Without a route
        the caller's next search asks the server.  Never waits.
        """
        key = caller.key
        if key is None or not self._store.knows(key):
            return
        if not self.available:
            self._store.doubt(key)
            return
        if (state := self._rereading.get(key)) is not None:
            if state.begun and state.then is None:
                state.then = asyncio.get_running_loop().create_future()
            return
        if self._paused(key):
            return
        if len(self._rereading) >= MAX_WAITING:
            self.counters.overflown += 1
            return
        loop = asyncio.get_running_loop()
        state = self._rereading[key] = _Reread(loop.create_future())
        task = loop.create_task(self._reread(caller, key, state))
        self._rereads.add(task)
        task.add_done_callback(self._rereads.discard)

    def rereads(self, key: CallerKey | None) -> bool:
        """Whether :meth:`settled` would wait.  Constant time, for the path of every search."""
        return key in self._rereading

    async def settled(self, key: CallerKey, timeout: float | None) -> None:  # noqa: ASYNC109
        """Wait until every own list of this caller so far was followed by a fetch, at most ``timeout`` s."""
        if (state := self._rereading.get(key)) is not None:
            await asyncio.wait((state.then or state.now,), timeout=timeout)

    async def obtain(self, caller: CallerContext) -> Obtained:
        """Fetch and learn for a request that waits, within ``catalog.timeout``.

        However many requests of one caller wait, there is one fetch; one of them going away does not end
        it.  A refusal drops the caller from the store.
        """
        key = caller.key
        if key is None:
            return await self._fetch(caller)
        task = self._running.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(caller))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Stop what is scheduled and what runs."""
        tasks = [*self._waiting.values(), *self._running.values(), *self._rereads]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _schedule(self, caller: CallerContext, delay: float) -> None:
        key = caller.key
        assert key is not None
        if key in self._waiting or key in self._running:
            return
        if self._paused(key):
            return
        if len(self._waiting) >= MAX_WAITING:
            self.counters.overflown += 1
            return
        task = asyncio.get_running_loop().create_task(self._later(caller, delay))
        self._waiting[key] = task
        task.add_done_callback(lambda _: self._waiting.pop(key, None))

    def _paused(self, key: CallerKey) -> bool:
        pause = self._pauses.get(key)
        return self._client.backing_off or (pause is not None and self._clock() < pause.until)

    async def _reread(self, caller: CallerContext, key: CallerKey, state: _Reread) -> None:
        try:
            while True:
                if (running := self._running.get(key)) is not None:
                    # It asked before the client did, so what it brings may be older than the question.
                    await asyncio.wait((running,))
                state.begun = True
                outcome = await self.obtain(caller)
                if isinstance(outcome, Warm):
                    self.counters.reread += 1
                if state.then is None or not isinstance(outcome, Warm):
                    return
                state.now.set_result(None)
                state.now, state.then, state.begun = state.then, None, False
        finally:
            del self._rereading[key]
            for each in (state.now, state.then):
                if each is not None and not each.done():
                    each.set_result(None)

    async def _later(self, caller: CallerContext, delay: float) -> None:
        await asyncio.sleep(delay)
        if not self._store.stale(caller.key):
            return
        cold = not self._store.knows(caller.key)
        if isinstance(await self.obtain(caller), Warm):
            if cold:
                self.counters.warmed_up += 1
            else:
                self.counters.refreshed += 1

    async def _fetch(self, caller: CallerContext) -> Obtained:
        asked = self._clock()
        match await self._client.fetch(caller):
            case Fetched(catalogue, ttl, cut):
                try:
                    warm = await self._store.learn(caller.key, catalogue, ttl, asked=asked)
                except Exception as error:  # an index that cannot be built is no reason to end the exchange
                    return self._failed(caller, Failed(Reason.INTERNAL, type(error).__name__))
                self._learned(caller, catalogue)
                if caller.key is not None:
                    self._pauses.pop(caller.key, None)
                    if cut is not None:
                        self._pauses[caller.key] = _Pause(0, self._clock() + INCOMPLETE_PAUSE)
                return warm
            case Unauthorized() as refused:
                self._store.drop(caller.key)
                self.counters.refused += 1
                return refused
            case Failed() as failed:
                return self._failed(caller, failed)

    def _failed(self, caller: CallerContext, failed: Failed) -> Failed:
        self.counters.failed += 1
        if failed.reason is Reason.FILTERED:
            self._warn(
                "catalog.url",
                "catalog.url leads back into the filtered route: it lists search_tools and the others. Let "
                "it lead to a route of the same gateway without the filter",
            )
        if caller.key is not None:
            before = self._pauses.get(caller.key)
            failures = 1 if before is None else before.failures + 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(10, failures - 1)) * random.uniform(0.5, 1.0)
            self._pauses[caller.key] = _Pause(failures, self._clock() + pause)
        return failed
