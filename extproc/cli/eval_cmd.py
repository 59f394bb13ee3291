"""``eval``: measures search quality on a catalogue and the queries written for it."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from extproc.cli import FINE, PROBLEM, UsageError
from extproc.cli.catalogue_files import TOOL_FILE, FileProblem, Need, read_needs, read_tools, to_catalogue
from extproc.embedders import EmbedderError, load
from extproc.search import Engine, ToolIndex
from extproc.search.measure import MEASURES, interval, mean, measure
from extproc.settings import Search

_SHOWN = ("recall@1", "recall@5", "recall@10", "hit@1", "mrr@10", "ndcg@10")


@dataclass(frozen=True, slots=True)
class Row:
    """What one query got; ``ms`` is the time of its search."""

    need: Need
    ranking: tuple[str, ...]
    measures: dict[str, float]
    ms: float


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "eval",
        help="measure search quality on a catalogue and its queries",
        description="Measure search quality: recall, hits, MRR and nDCG of the queries in a file.",
        epilog="Catalogue lines are MCP tool definitions; query lines are "
        '{"query": ..., "relevant": [tool names], "lang"?, "kind"?, "split"?}.',
    )
    parser.add_argument("--catalog", type=Path, required=True, metavar="FILE", help=TOOL_FILE)
    parser.add_argument(
        "--queries", type=Path, required=True, metavar="FILE.jsonl", help="queries, one a line"
    )
    parser.add_argument(
        "--embedder",
        default="default",
        metavar="none|default|NAME|PATH",
        help="source of vectors (default: default)",
    )
    parser.add_argument(
        "--fusion", choices=("zscore", "rrf"), default="zscore", help="how rankings are joined"
    )
    parser.add_argument(
        "--lexical-weight", type=_weight, default=None, metavar="W", help="weight of words, 0 to 1"
    )
    parser.add_argument("--split", default="", metavar="NAME", help="only queries of this split (dev, test)")
    parser.add_argument(
        "--misses", action="store_true", help="print the queries without a relevant tool in the first 5"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when measured, 1 when the embedder failed; ``UsageError`` (2) for files that cannot be used."""
    try:
        catalogue, dropped = to_catalogue(read_tools(args.catalog))
        needs = [need for need in read_needs(args.queries) if not args.split or need.split == args.split]
        if not needs:
            raise FileProblem(f"{args.queries}: no queries of split {args.split!r}")
        unknown = sorted({name for need in needs for name in need.relevant if catalogue.get(name) is None})
        if unknown:
            shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            raise FileProblem(
                f"{args.queries}: {len(unknown)} relevant tools are not in the catalogue: {shown}"
            )
        embedder = load(args.embedder)
    except EmbedderError as problem:
        raise UsageError(f"eval: {problem}") from None
    if dropped:
        print(f"eval: {dropped} lines are no usable tools and were left out", file=sys.stderr)
    weight = {} if args.lexical_weight is None else {"lexical_weight": args.lexical_weight}
    failures: list[str] = []
    settings = Search(fusion=args.fusion, **weight)
    engine = Engine(embedder, settings, on_failure=lambda error: failures.append(str(error)))
    start = perf_counter()
    index = ToolIndex.build(catalogue, engine)
    build_ms = 1e3 * (perf_counter() - start)
    rows = [_row(index, need) for need in needs]
    if failures:
        print(f"eval: the embedder failed, words alone were used: {failures[0]}", file=sys.stderr)
    summary = summarise(rows, build_ms)
    if args.json:
        print(json.dumps(summary))
    else:
        _tables(rows, summary, len(catalogue))
    if args.misses:
        _misses(rows)
    return PROBLEM if failures else FINE


def summarise(rows: Sequence[Row], build_ms: float) -> dict[str, float]:
    """The JSON object of ``eval --json``: fractions, milliseconds."""
    out: dict[str, float] = {"n": len(rows)}
    out |= {key: round(value, 6) for key, value in mean([row.measures for row in rows]).items()}
    out["p50_ms"] = round(statistics.median(row.ms for row in rows), 4)
    out["build_ms"] = round(build_ms, 2)
    return out


def _row(index: ToolIndex, need: Need) -> Row:
    start = perf_counter()
    hits = index.search(need.query, 10)
    ms = 1e3 * (perf_counter() - start)
    ranking = tuple(hit.tool.name for hit in hits)
    return Row(need, ranking, measure(ranking, need.relevant), ms)


def _tables(rows: Sequence[Row], summary: dict[str, float], tools: int) -> None:
    by_kind: dict[str, list[Row]] = defaultdict(list)
    by_language: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_kind[row.need.kind or "-"].append(row)
        by_language[row.need.lang or "-"].append(row)
    print(f"{'':22}{'n':>5}" + "".join(f"{key:>11}" for key in _SHOWN) + "   95 % of recall@5")
    _line("all", rows)
    for title, groups in (("kind", by_kind), ("language", by_language)):
        if set(groups) != {"-"}:
            print(title)
            for name in sorted(groups):
                _line(f"  {name}", groups[name])
    print(
        f"\n{tools} tools, built in {summary['build_ms']:.0f} ms; {summary['p50_ms']:.2f} ms a query (median)"
    )


def _line(name: str, rows: Sequence[Row]) -> None:
    means = mean([row.measures for row in rows])
    spread = interval([row.measures["recall@5"] for row in rows])
    cells = "".join(f"{100 * means[key]:>11.1f}" for key in _SHOWN)
    print(f"{name:22}{len(rows):>5}{cells}   ±{100 * spread:.1f}")


def _misses(rows: Sequence[Row]) -> None:
    for row in rows:
        if not row.measures["hit@5"]:
            print(
                f"\n{row.need.query}\n  wanted {', '.join(row.need.relevant)}"
                f"\n  got    {', '.join(row.ranking[:5])}"
            )


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("a number from 0 to 1 is needed")
    return value


__all__ = ["MEASURES", "add_parser", "run", "summarise"]
