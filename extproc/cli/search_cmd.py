"""``search``: a ranked table for queries over a catalogue, with each ranking's contribution."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from extproc.cli import FINE, PROBLEM, UsageError
from extproc.cli.catalogue_files import TOOL_FILE, read_tools, to_catalogue
from extproc.cli.remote import RemoteError, fetch_tools, parse_headers
from extproc.embedders import EmbedderError, load
from extproc.search import Engine, Explained, ToolIndex, UnknownServer
from extproc.search.present import one_line
from extproc.settings import Search


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "search",
        help="search a catalogue and show how each ranking saw it",
        description="Search a catalogue of tools and show how words and vectors saw each hit.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--catalog", type=Path, metavar="FILE", help=TOOL_FILE)
    source.add_argument("--url", metavar="URL", help="an MCP server or gateway route whose tools are listed")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="request header for --url (repeatable)",
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
    parser.add_argument("--server", default=None, metavar="NAME", help="only tools of this server")
    parser.add_argument("-k", type=int, default=5, metavar="N", help="hits for each query (default: 5)")
    parser.add_argument(
        "--explain", action="store_true", help="show fields, matched words, cosine and weights"
    )
    parser.add_argument("query", nargs="+", metavar="QUERY", help="what the tool should do")
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when every query found something, 1 when one found nothing, 2 for input that cannot be used
    (``UsageError``)."""
    if args.k < 1:
        raise UsageError("search: -k must be at least 1")
    try:
        entries = load_tools(args)
        if not entries:
            raise RemoteError(f"no tools at {args.url}")
        catalogue, dropped = to_catalogue(entries)
        if not catalogue:
            raise UsageError(f"search: no usable tools among the {dropped} in {args.catalog or args.url}")
        failures: list[str] = []
        engine = Engine(
            load(args.embedder), Search(fusion=args.fusion), on_failure=lambda e: failures.append(str(e))
        )
        index = ToolIndex.build(catalogue, engine)
        found = [index.explain(query, args.k, args.server) for query in args.query]
    except RemoteError as problem:
        print(f"search: {problem}", file=sys.stderr)
        return PROBLEM
    except (EmbedderError, UnknownServer) as problem:
        raise UsageError(f"search: {problem}") from None
    if dropped:
        print(f"search: {dropped} entries are no usable tools and were left out", file=sys.stderr)
    if failures:
        print(f"search: the embedder failed, words alone were used: {failures[0]}", file=sys.stderr)
    for query, hits in zip(args.query, found, strict=True):
        _table(query, hits, args.explain)
    return FINE if all(found) else PROBLEM


def load_tools(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Tool definitions from ``--catalog`` or ``--url``.  Raises ``FileProblem`` or ``RemoteError``."""
    if args.catalog is not None:
        return read_tools(args.catalog)
    return fetch_tools(args.url, parse_headers(args.header))


def _table(query: str, hits: list[Explained], explain: bool) -> None:
    print(f"\n{query}")
    if not hits:
        print("  nothing matched: say it in other words, or leave out --server")
        return
    width = min(60, max(len(hit.hit.tool.name) for hit in hits))
    print(f"  {'':>2}  {'tool':{width}}  {'score':>7}  {'words':>7}  {'cosine':>6}")
    for hit in hits:
        tool = hit.hit.tool
        cosine = "-" if hit.cosine is None else f"{hit.cosine:.3f}"
        note = "  named" if hit.hit.exact else ""
        print(
            f"  {hit.rank:>2}  {tool.name:{width}}  {hit.hit.score:>7.3f}"
            f"  {hit.lexical:>7.2f}  {cosine:>6}{note}"
        )
        if not explain:
            continue
        print(f"      {one_line(tool.description, 100)}")
        fields = ", ".join(f"{name} {value:.2f}" for name, value in hit.fields.items() if value)
        words = ", ".join(asked if asked == word else f"{asked}→{word}" for asked, word in hit.words)
        print(f"      fields: {fields or '-'}; words: {words or '-'}")
    if explain:
        print(f"  weight of words: {hits[0].gate:.2f}")
