"""Lists that are indexed while their answer has already gone out."""

from __future__ import annotations

import asyncio

from extproc.catalog.caller import CallerContext, CallerKey
from extproc.catalog.model import Catalogue
from extproc.profiles import Profile
from extproc.telemetry import fields, logger, where


class Learning:
    """What is being learned now, by caller."""

    def __init__(self) -> None:
        self._tasks: dict[CallerKey, asyncio.Future[None]] = {}

    def __contains__(self, key: CallerKey | None) -> bool:
        return key in self._tasks

    async def settled(self, key: CallerKey) -> None:
        """Wait until nothing is being learned for this caller."""
        if (task := self._tasks.get(key)) is not None:
            await asyncio.wait((task,))

    def mark_stale(self, profile: Profile, caller: CallerContext) -> None:
        """Also when the list that is out of date is still being indexed."""
        profile.store.mark_stale(caller.key)
        if caller.key is not None and (learning := self._tasks.get(caller.key)) is not None:
            learning.add_done_callback(lambda _: profile.store.mark_stale(caller.key))

    def learn(self, profile: Profile, caller: CallerContext, catalogue: Catalogue, ttl: float | None) -> None:
        """The six are known without an index, so a client that only lists does not wait for one."""
        key = caller.key
        if key is None:
            return
        task = asyncio.ensure_future(self._learn(profile, caller, catalogue, ttl))
        self._tasks[key] = task

        def learned(done: asyncio.Future[None]) -> None:
            if self._tasks.get(key) is done:
                del self._tasks[key]

        task.add_done_callback(learned)

    async def _learn(
        self, profile: Profile, caller: CallerContext, catalogue: Catalogue, ttl: float | None
    ) -> None:
        try:
            await profile.store.learn(caller.key, catalogue, ttl, asked=caller.asked)
        except Exception as error:
            logger.error("a catalogue could not be indexed", extra=fields(error=where(error)))
            return
        if not catalogue.complete:
            profile.refresher.complete(caller)
