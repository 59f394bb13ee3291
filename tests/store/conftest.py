from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import pytest
import uvloop

from extproc.catalog.model import Annotations, Catalogue, Tool, ToolClass
from extproc.search import ToolIndex
from extproc.settings import Settings
from extproc.store import CatalogueStore


def tool(name: str, description: str = "does things") -> Tool:
    raw = f'{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}'.encode()
    return Tool(
        name=name,
        title="",
        description=description,
        raw=raw,
        input_schema=b'{"type":"object"}',
        annotations=Annotations(),
        tool_class=ToolClass.DESTRUCTIVE,
        digest=blake2b(raw, digest_size=16).digest(),
    )


def catalogue(names: Iterable[str], *, complete: bool = True) -> Catalogue:
    return Catalogue.of((tool(name) for name in names), complete=complete)


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Builder:
    built: list[Catalogue] = field(default_factory=list)
    hook: Callable[[], object] = lambda: None

    def __call__(self, wanted: Catalogue) -> ToolIndex:
        self.built.append(wanted)
        self.hook()
        return ToolIndex.build(wanted)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def builder() -> Builder:
    return Builder()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production; it takes fewer options than asyncio's own."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def make(clock: Clock, builder: Builder, executor: Executor) -> Callable[..., CatalogueStore]:
    def _make(
        quick: Callable[[Catalogue], ToolIndex] | None = None, **sections: dict[str, Any]
    ) -> CatalogueStore:
        return CatalogueStore(Settings.model_validate(sections), builder, clock, executor, quick_index=quick)

    return _make
