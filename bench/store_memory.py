"""What many callers cost in memory: equal lists, and different parts of one list.

    python bench/store_memory.py [--tools 1500] [--callers 10000] [--parts 1000] [--json]

Resident memory is read from the operating system after a garbage collection.  Each number is the growth
above one caller of the same catalogue, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extproc import embedders
from extproc.catalog.model import Catalogue, Tool
from extproc.catalog.parse import parse_tool
from extproc.search import Embedder, Engine, ToolIndex
from extproc.settings import Settings, Tools
from extproc.store import CatalogueStore, Warm

CATALOGUE = Path(__file__).parent.parent / "tests" / "data" / "catalogue.jsonl"
FRESH = 300
"""How many callers get a list parsed anew; parsing it for all would only take longer."""


class Counting:
    """Counts the texts that an embedder is given."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.texts = 0

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return self._inner.embed(texts)


def definitions(count: int) -> list[bytes]:
    """``count`` different definitions: the repository's catalogue, repeated under other server names."""
    lines = CATALOGUE.read_text().splitlines()
    made = []
    for number in range(count):
        tool = json.loads(lines[number % len(lines)])
        turn = number // len(lines)
        if turn:
            tool["name"] = f"site{turn}_{tool['name']}"
            tool["description"] = f"{tool.get('description', '')} (site {turn})"
        made.append(json.dumps(tool).encode())
    return made


def parse(raw: Sequence[bytes]) -> list[Tool]:
    found = (parse_tool(bytes(line), Tools(), modern=True) for line in raw)
    return [tool for tool in found if tool is not None]


def resident() -> float:
    """Resident memory in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def store_and_embedder() -> tuple[CatalogueStore, Counting | None]:
    inner = embedders.load("default")
    embedder = None if inner is None else Counting(inner)
    engine = Engine(embedder)
    store = CatalogueStore(
        Settings(), lambda wanted: ToolIndex.build(wanted, engine), time.monotonic, ThreadPoolExecutor(1)
    )
    return store, embedder


async def equal_lists(tools: int, callers: int) -> dict[str, Any]:
    raw = definitions(tools)
    store, _ = store_and_embedder()
    await store.learn(b"first", Catalogue.of(parse(raw)))
    before = resident()
    for number in range(callers):
        key = number.to_bytes(16, "big")
        if number < FRESH:
            await store.learn(key, Catalogue.of(parse(raw)))
        else:
            view = store.view(b"first")
            assert isinstance(view, Warm)
            await store.learn(key, view.catalogue)
    return {
        "callers": store.callers,
        "catalogues": store.catalogues,
        "above_one_caller_mb": round(resident() - before, 1),
    }


async def different_parts(tools: int, parts: int) -> dict[str, Any]:
    raw = definitions(tools)
    store, embedder = store_and_embedder()
    await store.learn(b"first", Catalogue.of(parse(raw)[: tools // 2]))
    before = resident()
    choose = random.Random(1)
    started = time.perf_counter()
    for number in range(parts):
        chosen = [line for line in raw if choose.random() < 0.5]
        await store.learn(number.to_bytes(16, "big"), Catalogue.of(parse(chosen)))
    seconds = time.perf_counter() - started
    return {
        "callers": store.callers,
        "catalogues": store.catalogues,
        "tools_held": store.tools,
        "texts_embedded": 0 if embedder is None else embedder.texts,
        "indexes_built": store.counters.built,
        "counted_mb": round(store.size / 1e6, 1),
        "above_one_caller_mb": round(resident() - before, 1),
        "ms_per_list_parsing_included": round(1000 * seconds / parts, 1),
    }


def _run(work: str, arguments: tuple[int, int], results: Any) -> None:
    function = {"equal_lists": equal_lists, "different_parts": different_parts}[work]
    results.put(asyncio.run(function(*arguments)))


def apart(work: str, *arguments: int) -> Any:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_run, args=(work, arguments, results))
    process.start()
    found = results.get()
    process.join()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tools", type=int, default=1500)
    options.add_argument("--callers", type=int, default=10_000)
    options.add_argument("--parts", type=int, default=1000)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    report = {
        "equal_lists": apart("equal_lists", given.tools, given.callers),
        "different_parts": apart("different_parts", given.tools, given.parts),
    }
    if given.json:
        print(json.dumps(report))
        return
    for title, numbers in report.items():
        print(title.replace("_", " "))
        for name, value in numbers.items():
            print(f"  {name.replace('_', ' '):32} {value}")


if __name__ == "__main__":
    main()
