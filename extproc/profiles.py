"""Everything one settings profile owns while serving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from extproc import embedders
from extproc.catalog.model import Catalogue
from extproc.schema.check import Checker
from extproc.search import ToolIndex
from extproc.search.embedder import Embedder, EmbedderError
from extproc.search.engine import Caches, Engine
from extproc.settings import Search, Settings
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
    waits_to_search: bool = False
    """True when a query is embedded by a remote service or a transformer: then searches run in a thread."""

    async def aclose(self) -> None:
        await self.refresher.aclose()
        await self.targets.aclose()
        await self.client.aclose()
        await self.store.aclose()


@dataclass(frozen=True)
class Shared:
    """What all profiles of a process have in common.

    ``clock`` gives monotonic seconds.  ``warn`` is told a setting and what the operator should know about it.
    Tokens, vectors and loaded models are kept once, however many profiles use them.
    """

    executor: Executor
    builders: Executor
    """Threads in which indexes are built."""
    metrics: Metrics
    clock: Callable[[], float]
    warn: Callable[[str, str], None]
    caches: Caches = field(default_factory=Caches, repr=False)
    embedders: dict[tuple[object, ...], Embedder | None] = field(default_factory=dict, repr=False)


async def build_profile(settings: Settings, shared: Shared) -> Profile:
    """Load the embedder and wire the parts; an embedder that cannot be had leaves search by words alone."""
    executor, metrics, clock = shared.executor, shared.metrics, shared.clock
    embedder = await asyncio.get_running_loop().run_in_executor(executor, _embedder, settings.search, shared)
    engine = Engine(
        embedder,
        settings.search,
        shared.caches,
        on_failure=lambda _: metrics.warnings.labels("search.embedder").inc(),
    )

    def build(catalogue: Catalogue) -> ToolIndex:
        with metrics.catalogue_build_seconds.time():
            index = ToolIndex.build(catalogue, engine)
        metrics.catalogue_builds.labels("built").inc()
        return index

    def build_quickly(catalogue: Catalogue) -> ToolIndex:
        return ToolIndex.build(catalogue, engine.lexical())

    store = CatalogueStore(
        settings, build, clock, shared.builders, remote=open_store(settings), quick_index=build_quickly
    )
    client = UpstreamClient(settings, executor, clock)
    targets = Targets(settings, executor, clock, shared.warn)
    refresher = Refresher(store, client, settings, clock, targets.learned, shared.warn)
    checker = Checker(settings.limits.schema_depth, settings.limits.schema_nodes)
    names = (*settings.caller.headers, *settings.catalog.headers)
    passed = frozenset(name.lower() for name in names)
    slow = settings.search.embedder.startswith(("openai:", "onnx:"))
    return Profile(settings, store, client, refresher, targets, checker, passed, waits_to_search=slow)


def _embedder(settings: Search, shared: Shared) -> Embedder | None:
    wanted = (settings.embedder, settings.embedder_cache, settings.embedder_timeout)
    if wanted not in shared.embedders:
        shared.embedders[wanted] = _load(settings, shared.metrics)
    return shared.embedders[wanted]


def _load(settings: Search, metrics: Metrics) -> Embedder | None:
    cache = Path(settings.embedder_cache).expanduser() if settings.embedder_cache else None
    try:
        options = embedders.Options(cache=cache, query_timeout=settings.embedder_timeout)
        return embedders.load(settings.embedder, options)
    except EmbedderError as error:
        metrics.warnings.labels("search.embedder").inc()
        logger.warning(
            "search by words alone: the embedder cannot be loaded", extra=fields(reason=str(error))
        )
        return None
