"""Callers with equal lists cost an entry each, not a list each."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

from extproc.store import CatalogueStore

from .conftest import catalogue

CALLERS = 200
PER_CALLER = 3_000
"""Bytes: 10,000 callers then stay within 30 MB."""


async def test_many_callers_of_one_list_cost_little_more_than_one(
    make: Callable[..., CatalogueStore],
) -> None:
    names = [f"server__tool_{n}" for n in range(100)]
    store = make()
    await store.learn(b"first", catalogue(names))
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(CALLERS):
            await store.learn(n.to_bytes(16, "big"), catalogue(names))
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert store.callers == CALLERS + 1
    assert grown < CALLERS * PER_CALLER
