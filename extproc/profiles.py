"""Everything one settings profile owns while serving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from extproc import embedders
from extproc.catalog.model import Catalogue
from extproc.schema.check import Checker
from extproc.search import ToolIndex
from extproc.search.embedder import Embedder, EmbedderError
from extproc.search.engine import Engine
from extproc.settings import Settings
from extproc.store import CatalogueStore, open_store
from extproc.telemetry import Metrics, fields, logger
from extproc.upstream import Refresher, Targets, UpstreamClient


@dataclass(frozen=True)
class Profile:
    settings: Settings
    store: CatalogueStore
    client: UpstreamClient
    refresher: Refresher
    targets: Targets
    checker: Checker
    passed_headers: frozenset[str] = field(repr=False)

    async def aclose(self) -> None:
        await self.refresher.aclose()
        await self.targets.aclose()
        await self.client.aclose()
        await self.store.aclose()


async def build_profile(
    settings: Settings,
    executor: Executor,
    metrics: Metrics,
    clock: Callable[[], float],
    warn: Callable[[str, str], None],
) -> Profile:
    """Load the embedder and wire the parts; an embedder that cannot be had leaves search by words alone.

    ``warn`` is told a setting and what about it the operator should know.
    """
    loop = asyncio.get_running_loop()
    embedder = await loop.run_in_executor(executor, _embedder, settings, metrics)
    engine = Engine(
        embedder, settings.search, on_failure=lambda _: metrics.warnings.labels("search.embedder").inc()
    )

    def build(catalogue: Catalogue) -> ToolIndex:
        with metrics.catalogue_build_seconds.time():
            index = ToolIndex.build(catalogue, engine)
        metrics.catalogue_builds.labels("built").inc()
        return index

    def build_quickly(catalogue: Catalogue) -> ToolIndex:
        return ToolIndex.build(catalogue, engine.lexical())

    store = CatalogueStore(
        settings, build, clock, executor, remote=open_store(settings), quick_index=build_quickly
    )
    client = UpstreamClient(settings, executor, clock)
    targets = Targets(settings, executor, clock, warn)
    refresher = Refresher(store, client, settings, clock, targets.learned)
    checker = Checker(settings.limits.schema_depth, settings.limits.schema_nodes)
    names = (*settings.caller.headers, *settings.catalog.headers)
    passed = frozenset(name.lower() for name in names)
    return Profile(settings, store, client, refresher, targets, checker, passed)


def _embedder(settings: Settings, metrics: Metrics) -> Embedder | None:
    try:
        return embedders.load(settings.search.embedder)
    except EmbedderError as error:
        metrics.warnings.labels("search.embedder").inc()
        logger.warning(
            "search by words alone: the embedder cannot be loaded", extra=fields(reason=str(error))
        )
        return None
