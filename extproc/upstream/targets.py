"""Compares what a gateway passed on with what its servers list by themselves (``catalog.targets``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

from cachetools import LRUCache
from msgspec.structs import replace

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Catalogue
from extproc.rewriter import shortfall
from extproc.rewriter.shortfall import Shortfall
from extproc.settings import Settings
from extproc.upstream.client import UpstreamClient
from extproc.upstream.outcomes import Fetched

REMEMBERED = 1_000
"""Different lists whose comparison is kept."""
MAX_WAITING = 32
"""Comparisons waiting or running; further lists go uncompared until they are learned again."""
_AT_ONCE = 2


@dataclass(slots=True)
class TargetCounters:
    """Lists seen since the start that look cut, and lists compared with those of single servers."""

    round: int = 0
    """Lists with exactly a page's number of tools of one server."""
    more: int = 0
    """Servers that list more than the gateway passed on."""
    same: int = 0
    failed: int = 0
    """Servers whose own route gave no list."""
    skipped: int = 0
    """Lists not compared because too many were waiting."""


class Targets:
    """Says which servers' lists are cut.  One for each profile.

    ``warn`` is told a setting and a text when a list is found to be cut.
    """

    def __init__(
        self,
        settings: Settings,
        executor: Executor,
        clock: Callable[[], float],
        warn: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._warn = warn
        self._clients = {
            name: UpstreamClient(_towards(settings, url), executor, clock)
            for name, url in settings.catalog.targets.items()
        }
        self._found: LRUCache[bytes, tuple[Shortfall, ...]] = LRUCache(REMEMBERED)
        self._seen: LRUCache[bytes, None] = LRUCache(REMEMBERED)
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._running: set[asyncio.Task[None]] = set()
        self.counters = TargetCounters()

    def learned(self, caller: CallerContext, catalogue: Catalogue) -> None:
        """A list was learned: count it and compare it, each different list once.  Never waits."""
        if catalogue.digest in self._seen or not catalogue.complete:
            return
        if self._clients and len(self._running) >= MAX_WAITING:
            self.counters.skipped += 1
            return
        if shortfall.looks_cut(catalogue, caller.dialect):
            self.counters.round += 1
            self._warn(
                "catalog.targets",
                "a tool list has exactly a page's number of tools of one server: agentgateway passes on "
                "first pages only. Let the server list all tools on one page; catalog.targets tells for sure",
            )
        self._seen[catalogue.digest] = None
        if self._clients:
            task = asyncio.get_running_loop().create_task(self._compare(caller, catalogue))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def note(self, caller: CallerContext, catalogue: Catalogue) -> str:
        """What a search answer from this catalogue has to add; empty for most."""
        if (compared := self._found.get(catalogue.digest)) is None:
            return shortfall.note(shortfall.looks_cut(catalogue, caller.dialect))
        settled = {each.server for each in compared}
        suspected = [
            each
            for each in shortfall.looks_cut(catalogue, caller.dialect)
            if each.server and each.server not in settled
        ]
        return shortfall.note([*(each for each in compared if each.missing), *suspected])

    async def aclose(self) -> None:
        tasks = tuple(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients.values():
            with suppress(Exception):
                await client.aclose()

    async def _compare(self, caller: CallerContext, catalogue: Catalogue) -> None:
        # The caller's session is the gateway's: each server gets one of its own, ended with the fetch.
        alone = replace(caller, session=None, key=None)
        async with self._places:
            found = [
                await self._one(name, client, alone, catalogue) for name, client in self._clients.items()
            ]
        compared = tuple(each for each in found if each is not None)
        if compared:
            self._found[catalogue.digest] = compared
        if cut := sorted(each.server for each in compared if each.missing):
            self._warn(
                "catalog.targets",
                f"the gateway passes on only a part of the tools of {', '.join(cut)}: it reads first pages "
                "only. Let these servers list all tools on one page",
            )

    async def _one(
        self, name: str, client: UpstreamClient, caller: CallerContext, catalogue: Catalogue
    ) -> Shortfall | None:
        outcome = await client.fetch(caller)
        if not isinstance(outcome, Fetched):
            self.counters.failed += 1
            return None
        policy = self._settings.tools
        count = shortfall.missing(name, outcome.catalogue.by_name, catalogue, policy)
        if count:
            self.counters.more += 1
        else:
            self.counters.same += 1
        return Shortfall(name, shortfall.listed_of(name, catalogue), count)


def _towards(settings: Settings, url: str) -> Settings:
    catalog = settings.catalog.model_copy(update={"url": url, "targets": {}})
    return settings.model_copy(update={"catalog": catalog})
