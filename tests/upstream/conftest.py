from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest
import uvloop

from extproc.catalog.caller import CallerContext
from extproc.settings import Settings
from extproc.upstream import UpstreamClient

MODERN = "2026-07-28"
LEGACY = "2025-06-18"


def caller(
    revision: str = MODERN,
    *,
    name: str = "ann",
    session: str | None = None,
    key: bytes | None = b"",
    headers: tuple[tuple[str, str], ...] = (),
) -> CallerContext:
    own = name.encode().ljust(16, b".") if key == b"" else key
    return CallerContext(
        key=own,
        session=session,
        revision=revision,
        headers=(("authorization", f"Bearer {name}"), *headers),
    )


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production; it takes fewer options than asyncio's own."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
async def make_client(executor: Executor) -> AsyncIterator[Callable[..., UpstreamClient]]:
    made: list[UpstreamClient] = []

    def make(url: str, clock: Callable[[], float] | None = None, **sections: Any) -> UpstreamClient:
        catalog = {"url": url, **sections.pop("catalog", {})}
        settings = Settings.model_validate({"catalog": catalog, **sections})
        client = UpstreamClient(settings, executor, **({"clock": clock} if clock else {}))
        made.append(client)
        return client

    yield make
    for client in made:
        await client.aclose()
