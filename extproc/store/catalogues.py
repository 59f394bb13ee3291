"""Caller to catalogue to index: the only state that outlives an exchange.

All methods run on one event loop; only index builds leave it.  Nothing here raises because of a peer.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachetools import TTLCache

from extproc.catalog.caller import CallerKey
from extproc.catalog.model import Catalogue
from extproc.settings import Settings
from extproc.store.counters import Counters
from extproc.store.parts import make
from extproc.store.pool import Pool, Shared
from extproc.store.remote import Record, Remote
from extproc.store.views import Cold, View, Warm

if TYPE_CHECKING:
    from extproc.search import ToolIndex

PATIENCE = 0.3
"""Seconds a full index is waited for: embedding may happen in a service that is slow."""
REMEMBER_REFUSAL = 120.0
"""Seconds for which an answer asked for before a refusal is recognised as older than it."""
RECHECK = 30.0
"""Life in seconds of a list that lost tools: a merged list is short while one of its servers is down."""
EARLY = 0.2
"""Last share of a life in which an entry in use is refreshed; spreads callers that came together."""

_NEVER = float("-inf")


@dataclass(slots=True)
class _Entry:
    digest: bytes
    complete: bool
    asked: float
    learned: float
    expires: float
    refresh_at: float
    stale_since: float = _NEVER
    """When something last said that the list had changed."""
    doubted_since: float = _NEVER
    """When the client last asked for its list and was answered from this one."""

    @property
    def stale(self) -> bool:
        return self.stale_since > _NEVER


class _Callers(OrderedDict[CallerKey, _Entry]):
    """At most ``most``, those first out whose requests are longest ago; counts who is pushed out."""

    def __init__(self, most: int, counters: Counters) -> None:
        super().__init__()
        self._most = most
        self._counters = counters

    def keep(self, key: CallerKey, entry: _Entry) -> None:
        self[key] = entry
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
            self._counters.evicted_callers += 1


class CatalogueStore:
    """Which catalogue each caller was last shown.

    ``clock`` gives monotonic seconds.  ``build_index`` runs in ``executor``.  ``remote`` is the store
    shared with other replicas, when there is one.  ``quick_index`` makes an index in an instant (by words
    alone) for those who would otherwise wait longer than ``PATIENCE`` for the full one, which then takes
    its place.
    """

    def __init__(
        self,
        settings: Settings,
        build_index: Callable[[Catalogue], ToolIndex],
        clock: Callable[[], float],
        executor: Executor,
        remote: Remote | None = None,
        quick_index: Callable[[Catalogue], ToolIndex] | None = None,
    ) -> None:
        self._catalog = settings.catalog
        self._limits = settings.limits
        self._build_index = build_index
        self._quick_index = quick_index
        self._clock = clock
        self._executor = executor
        self._remote = remote
        self.counters = Counters() if remote is None else remote.counters
        self._pool = Pool(settings.limits.cache)
        self._callers = _Callers(settings.limits.callers, self.counters)
        self._refused: TTLCache[CallerKey, float] = TTLCache(10_000, REMEMBER_REFUSAL, timer=clock)
        self._building: dict[bytes, asyncio.Task[Shared]] = {}
        self._recalling: dict[CallerKey, asyncio.Task[View]] = {}
        self._background: set[asyncio.Task[None]] = set()
        if remote is not None:
            remote.on_change = self._changed_elsewhere

    # Reading ----------------------------------------------------------------------------------------------

    def view(self, key: CallerKey | None, *, searches: bool = False) -> View:
        """What may serve this caller now.  Constant time, never waits.

        To one who ``searches`` (or describes or calls) a list that was asked for again is not fresh.
        """
        counters = self.counters
        entry = None if key is None else self._callers.get(key)
        if key is None or entry is None:
            counters.cold += 1
            return _COLD
        self._callers.move_to_end(key)
        now = self._clock()
        if now >= entry.expires + self._catalog.max_stale:
            counters.expired += 1
            counters.cold += 1
            del self._callers[key]
            return _COLD
        shared = self._pool.get(entry.digest)
        if shared is None:
            counters.cold += 1
            del self._callers[key]
            return _COLD
        counters.warm += 1
        fresh = entry.stale_since == _NEVER and now < entry.expires
        if searches and entry.doubted_since > _NEVER:
            fresh = False
        return Warm(shared.catalogue, shared.index, now - entry.learned, fresh)

    def stale(self, key: CallerKey | None) -> bool:
        """Whether a refresh is due: nothing usable, incomplete, near the end of its life, or marked.

        Always false for callers that are never stored.
        """
        if key is None:
            return False
        entry = self._callers.get(key)
        if entry is None or self._pool.peek(entry.digest) is None:
            return True
        return entry.stale or not entry.complete or self._clock() >= entry.refresh_at

    def knows(self, key: CallerKey | None) -> bool:
        """Whether anything is held for the caller; counts as no use and in no counter."""
        return key is not None and key in self._callers

    @property
    def callers(self) -> int:
        return len(self._callers)

    @property
    def catalogues(self) -> int:
        return len(self._pool)

    @property
    def tools(self) -> int:
        """Distinct tools over all catalogues."""
        return self._pool.tools

    @property
    def size(self) -> int:
        """Estimated bytes of catalogues and indexes, held below ``limits.cache``."""
        return self._pool.size

    @property
    def evicted_catalogues(self) -> int:
        return self._pool.evicted

    @property
    def shares(self) -> bool:
        """Whether :meth:`recall` can know more than :meth:`view`."""
        return self._remote is not None

    # Learning ---------------------------------------------------------------------------------------------

    async def learn(
        self,
        key: CallerKey | None,
        catalogue: Catalogue,
        ttl_s: float | None = None,
        *,
        asked: float | None = None,
        replace_complete: bool = False,
    ) -> Warm:
        """Take in a list this caller was shown and return what may answer the exchange at hand.

        ``ttl_s`` is the answer's own life (``ttlMs`` / 1000), None where it has none.  ``asked`` is the
        clock when the list was asked for (default: now): an answer older than a refusal or than the one
        held is used once and not stored.  An incomplete list replaces a complete one that may still serve
        only when ``replace_complete``.  Without a key nothing is stored.  Raises what ``build_index`` raises.
        """
        if asked is None:
            asked = self._clock()
        shared = await self._share(catalogue)
        self.counters.learned += 1
        now = self._clock()
        if key is None:
            return Warm(shared.catalogue, shared.index)
        held = self._callers.get(key)
        if self._refused.get(key, _NEVER) >= asked or (held is not None and held.asked > asked):
            self.counters.superseded += 1
            return Warm(shared.catalogue, shared.index, now - asked)
        known = None if held is None else self._pool.peek(held.digest)
        if held is not None and known is not None and held.complete and not catalogue.complete:
            if now < held.expires and not replace_complete:
                self.counters.kept_complete += 1
                held.stale_since = now
                return Warm(known.catalogue, known.index, now - held.learned, False)
        elif known is not None and _lost_tools(known.catalogue, shared.catalogue):
            self.counters.shrunk += 1
            ttl_s = RECHECK if ttl_s is None else min(ttl_s, RECHECK)
        life = self.life(ttl_s)
        entry = self._entry(catalogue.digest, catalogue.complete, now, life)
        entry.asked = asked
        if held is not None:
            # What was said while this answer was under way, it may not know yet.
            entry.stale_since = held.stale_since if held.stale_since > asked else _NEVER
            entry.doubted_since = held.doubted_since if held.doubted_since > asked else _NEVER
        self._callers.keep(key, entry)
        if self._remote is not None:
            self._spawn(self._remote.publish(key, shared.catalogue, life))
        return Warm(shared.catalogue, shared.index)

    def life(self, ttl_s: float | None) -> float:
        """Seconds a list lives: ``catalog.ttl``, or the answer's own when shorter.

        Never below ``catalog.refresh_after``: many servers send ``ttlMs: 0`` on every list, and the
        operator has accepted lists of that age.
        """
        wanted = self._catalog.ttl if ttl_s is None else min(self._catalog.ttl, max(0.0, ttl_s))
        return max(wanted, min(self._catalog.refresh_after, self._catalog.ttl))

    def mark_stale(self, key: CallerKey | None) -> None:
        """Something said that the list changed; it serves until a refresh has replaced it."""
        entry = None if key is None else self._callers.get(key)
        if entry is not None:
            self.counters.marked_stale += not entry.stale
            entry.stale_since = self._clock()

    def doubt(self, key: CallerKey | None) -> None:
        """The client's own list was answered from the held one; the next list learned ends the doubt."""
        entry = None if key is None else self._callers.get(key)
        if entry is not None:
            entry.doubted_since = self._clock()

    def drop(self, key: CallerKey | None) -> None:
        """The caller was refused (401, 403): forget it, here and in the shared store."""
        if key is None:
            return
        self._refused[key] = self._clock()
        if self._callers.pop(key, None) is not None:
            self.counters.dropped += 1
        if self._remote is not None:
            self._spawn(self._remote.forget(key))

    # Replicas ---------------------------------------------------------------------------------------------

    async def recall(self, key: CallerKey | None) -> View:
        """Like :meth:`view`, asking the shared store about a caller this process does not know.

        Waits at most ``catalog.store_timeout`` for the store, plus the build of an index not yet held.
        """
        view = self.view(key)
        if key is None or self._remote is None or isinstance(view, Warm):
            return view
        task = self._recalling.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._recall(key, self._remote))
            self._recalling[key] = task
            task.add_done_callback(lambda _: self._recalling.pop(key, None))
        return await asyncio.shield(task)

    async def _recall(self, key: CallerKey, remote: Remote) -> View:
        record = await remote.record(key)
        if record is None:
            self.counters.recall_missed += 1
            return _COLD
        shared = self._pool.get(record.digest)
        if shared is None:
            catalogue = await remote.catalogue(record.digest)
            if catalogue is None:
                self.counters.recall_missed += 1
                return _COLD
            shared = await self._share(catalogue)
        return self._adopt(key, record, shared)

    def _adopt(self, key: CallerKey, record: Record, shared: Shared) -> View:
        now = self._clock()
        learned = now - record.age
        over = record.age >= record.life + self._catalog.max_stale
        if over or self._refused.get(key, _NEVER) >= learned:
            return _COLD
        if key not in self._callers:
            found = shared.catalogue
            self._callers.keep(key, self._entry(found.digest, found.complete, learned, record.life))
        self.counters.recalled += 1
        return self.view(key)

    def _changed_elsewhere(self, key: CallerKey, digest: bytes | None, life: float) -> None:
        """Another replica learned a list for this caller, or saw it refused (None)."""
        now = self._clock()
        if digest is None:
            self._refused[key] = now
        entry = self._callers.get(key)
        if entry is None:
            return
        if entry.digest != digest:
            del self._callers[key]
        else:
            # It has just been confirmed, so this replica need not ask again.
            self._callers.keep(key, self._entry(digest, entry.complete, now, life))

    def _entry(self, digest: bytes, complete: bool, learned: float, life: float) -> _Entry:
        return _Entry(
            digest=digest,
            complete=complete,
            asked=learned,
            learned=learned,
            expires=learned + life,
            refresh_at=learned + life * (1 - EARLY * random.random()),
        )

    # Building ---------------------------------------------------------------------------------------------

    async def _share(self, catalogue: Catalogue) -> Shared:
        shared = self._pool.get(catalogue.digest)
        if shared is not None:
            return shared
        task = self._building.get(catalogue.digest)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._build(self._pool.intern(catalogue)))
            self._building[catalogue.digest] = task
            task.add_done_callback(lambda done: self._built(catalogue.digest, done))
        # Waiting like this, one waiter that goes away does not take the build from the others.
        await asyncio.wait((task,), timeout=None if self._quick_index is None else PATIENCE)
        if task.done() or self._quick_index is None:
            return task.result()
        interned = self._pool.intern(catalogue)
        index = await asyncio.to_thread(self._quick_index, interned)
        if task.done():
            return task.result()
        self.counters.quick += 1
        return self._pool.get(catalogue.digest) or self._pool.add(interned, index)

    def _built(self, digest: bytes, task: asyncio.Task[Shared]) -> None:
        del self._building[digest]
        if not task.cancelled() and task.exception() is not None:
            self.counters.failed_builds += 1

    async def _build(self, catalogue: Catalogue) -> Shared:
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(
            self._executor, make, catalogue, self._pool.roots(), self._build_index, self._limits.tools
        )
        if made.built is None:
            self.counters.parts += 1
            return self._pool.add(catalogue, made.index, made.root)
        self.counters.built += 1
        if made.built.digest == catalogue.digest:
            return self._pool.add(catalogue, made.index)
        self.counters.parts += 1
        assert made.built_index is not None
        self._pool.add(self._pool.intern(made.built), made.built_index)
        return self._pool.add(catalogue, made.index, made.root)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def aclose(self) -> None:
        """Let pending writes to the shared store finish, then close it."""
        if self._background:
            await asyncio.wait(tuple(self._background), timeout=1.0)
        if self._remote is not None:
            await self._remote.aclose()


_COLD = Cold()


def _lost_tools(old: Catalogue, new: Catalogue) -> bool:
    if old.digest == new.digest:
        return False
    return bool({tool.name for tool in old.tools} - {tool.name for tool in new.tools})
