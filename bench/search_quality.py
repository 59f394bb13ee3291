"""Recall at 5 on folders of public tool-retrieval data, development and test halves apart.

    python -m bench.search_quality FOLDER... [--embedder default|none|NAME|PATH] [--fusion zscore|rrf]

A folder holds ``catalogue.jsonl`` and one or more ``queries-*.jsonl``, or ``needs.jsonl`` with a split of its
own as ``tests/data`` has.  Without a split a query belongs to the development half when the digest of its
relevant tools is even, so that one need in several languages or spellings stays on one side.  Constants are
chosen on the development half only.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections import defaultdict
from hashlib import md5
from pathlib import Path
from typing import Literal

from extproc.cli.catalogue_files import Need, read_needs, read_tools, to_catalogue
from extproc.embedders import load
from extproc.search import Engine, ToolIndex
from extproc.search.measure import interval, measure
from extproc.settings import Search


def half(need: Need) -> str:
    """``dev`` or ``test``: the file's own split, else by the relevant tools."""
    if need.split:
        return need.split
    digest = md5("|".join(sorted(need.relevant)).encode(), usedforsecurity=False).digest()
    return "dev" if digest[0] % 2 == 0 else "test"


def groups(folder: Path, engine: Engine) -> dict[str, dict[str, list[float]]]:
    """Recall at 5 of every query, by group and half."""
    catalogue, _ = to_catalogue(read_tools(folder / "catalogue.jsonl"))
    index = ToolIndex.build(catalogue, engine)
    out: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    files = sorted(folder.glob("queries-*.jsonl")) or [folder / "needs.jsonl"]
    for file in files:
        for need in read_needs(file):
            found = [hit.tool.name for hit in index.search(need.query, 5)]
            by_language = bool(need.split) and need.lang not in ("en", "")
            label = need.lang if by_language or not need.kind else need.kind
            name = f"{file.stem.removeprefix('queries-')} {label}"
            out[name][half(need)].append(measure(found, need.relevant)["recall@5"])
    return out


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--embedder", default="default")
    parser.add_argument("--fusion", default="zscore", choices=("zscore", "rrf"))
    args = parser.parse_args(argv)
    fusion: Literal["zscore", "rrf"] = args.fusion
    engine = Engine(load(args.embedder), Search(fusion=fusion))
    print(f"{'':44}{'dev':>16}{'test':>20}{'all':>20}")
    for folder in args.folders:
        for name, halves in sorted(groups(folder, engine).items()):
            cells = ""
            for values in (halves["dev"], halves["test"], halves["dev"] + halves["test"]):
                mean = 100 * sum(values) / max(len(values), 1)
                cells += f"{mean:>8.1f} ±{100 * interval(values):<4.1f} n{len(values):<4}"
            print(f"{folder.name + ' ' + name:44}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
