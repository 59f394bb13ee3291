"""Speed and size of search, with rank-bm25 and bm25s beside it in the same run.

    python -m bench search_speed [--tools 500 1500 10000] [--embedder default|none] [--json]

Catalogues are made from the evaluation catalogue: every tool again under other server names, its description
joined with that of another tool so that texts differ.  Times are CPU time of one thread, so that a busy
machine does not blur the ratios; queries are the evaluation needs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import gc
import json
import statistics
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

from extproc.catalog.model import Catalogue, Tool
from extproc.catalog.parse import parse_tool
from extproc.embedders import load
from extproc.search import Engine, ToolIndex
from extproc.settings import Tools

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def make_catalogue(size: int) -> Catalogue:
    """``size`` different tools, more than a fixture has, with the word statistics of the fixture."""
    seeds = read("catalogue.jsonl")
    tools: list[Tool] = []
    for i in range(size):
        again, at = divmod(i, len(seeds))
        entry = dict(seeds[at])
        if again:
            server, _, local = entry["name"].partition("__")
            other = seeds[(at * 7 + again * 131) % len(seeds)]
            entry["name"] = f"{server}{again}__{local}"
            entry["description"] = f"{entry.get('description', '')} {other.get('description', '')}"
        tool = parse_tool(json.dumps(entry, ensure_ascii=False).encode(), Tools(), modern=False)
        assert tool is not None
        tools.append(tool)
    return Catalogue.of(tools)


def timed(call: Callable[[], object], *, after_collection: bool = False) -> float:
    """Milliseconds of CPU; ``after_collection``: without the garbage of what came before."""
    if after_collection:
        gc.collect()
    start = thread_time()
    call()
    return 1e3 * (thread_time() - start)


def p50(call: Callable[[str], object], queries: list[str]) -> float:
    return statistics.median(timed(lambda q=query: call(q)) for query in queries)  # type: ignore[misc]


def peers(catalogue: Catalogue, queries: list[str]) -> dict[str, float]:
    """Whole-word BM25 as users of the two packages write it; a package that is missing is left out."""
    texts = [f"{tool.name} {tool.description}".lower().split() for tool in catalogue]
    out: dict[str, float] = {}
    try:
        from rank_bm25 import BM25Okapi

        okapi = BM25Okapi(texts)
        out["rank_bm25_ms"] = p50(lambda q: okapi.get_scores(q.lower().split()), queries[:60])
    except ImportError:
        pass
    try:
        import bm25s  # type: ignore[import-not-found]

        sparse = bm25s.BM25()
        sparse.index(texts, show_progress=False)
        out["bm25s_ms"] = p50(lambda q: sparse.get_scores(q.lower().split()), queries[:200])
    except ImportError:
        pass
    return out


def measure(size: int, embedder: str) -> dict[str, float]:
    catalogue = make_catalogue(size)
    queries = [need["query"] for need in read("needs.jsonl")]
    engine = Engine(load(embedder))
    if engine.embedder is not None:
        engine.embedder.embed(["warm"])
    row: dict[str, float] = {"tools": size}
    row["build_cold_ms"] = timed(lambda: ToolIndex.build(catalogue, engine), after_collection=True)
    row["build_known_ms"] = timed(lambda: ToolIndex.build(catalogue, engine), after_collection=True)
    tracemalloc.start()
    index = ToolIndex.build(catalogue, engine)
    row["traced_mb"] = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    row["index_mb"] = index.nbytes / 1e6
    # Asked once, words that neither the catalogue nor an earlier query has are new; asked again, none is.
    warm, queries = queries[:20], queries[20:]
    for query in warm:
        index.search(query, 5)
    row["query_p50_ms"] = p50(lambda q: index.search(q, 5), queries)
    row["query_known_p50_ms"] = p50(lambda q: index.search(q, 5), queries)
    lexical = ToolIndex.build(catalogue, engine.lexical())
    row["lexical_p50_ms"] = p50(lambda q: lexical.search(q, 5), queries)
    for name, value in peers(catalogue, queries).items():
        row[name] = value
        row[f"{name.removesuffix('_ms')}_ratio"] = value / row["query_p50_ms"]
    return row


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=int, nargs="+", default=[500, 1500, 10_000])
    parser.add_argument("--embedder", default="default")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    for size in args.tools:
        row = measure(size, args.embedder)
        if args.json:
            print(json.dumps(row))
        else:
            print("  ".join(f"{key} {value:.4g}" for key, value in row.items()), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
