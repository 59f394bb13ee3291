"""Recall against the tokens of a search answer, for several embedders, as an SVG.

    python -m bench.search_plot OUT.svg LABEL=SPEC... [--split test]

SPEC is a ``search.embedder`` value.  A point is one ``search.limit`` (1, 2, 3, 5, 10): across, the mean
tokens (o200k) of the ``search_tools`` answer with default settings; up, the mean recall over the evaluation
needs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from pathlib import Path

import bpe_openai
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from extproc.cli.catalogue_files import Need, read_needs, read_tools, to_catalogue
from extproc.embedders import load
from extproc.rewriter import answers
from extproc.rewriter.arguments import SearchArguments
from extproc.search import Engine, ToolIndex
from extproc.settings import Search

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
LIMITS = (1, 2, 3, 5, 10)


def curve(index: ToolIndex, needs: list[Need]) -> list[tuple[float, float]]:
    """(tokens, recall in percent) for each limit."""
    encoding = bpe_openai.get_encoding("o200k_base")
    points = []
    for limit in LIMITS:
        tokens = recall = 0.0
        for need in needs:
            wanted = set(need.relevant)
            recall += len(wanted & {hit.tool.name for hit in index.search(need.query, limit)}) / len(wanted)
            answer = answers.search(SearchArguments((need.query,), limit, None), index, Search(), 1 << 20)
            tokens += len(encoding.encode_ordinary(answer.decode()))
        points.append((tokens / len(needs), 100 * recall / len(needs)))
    return points


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("embedders", nargs="+", metavar="LABEL=SPEC")
    parser.add_argument("--split", default="test")
    args = parser.parse_args(argv)
    catalogue, _ = to_catalogue(read_tools(DATA / "catalogue.jsonl"))
    needs = [need for need in read_needs(DATA / "needs.jsonl") if need.split == args.split]
    panels = {
        "English needs": [need for need in needs if need.lang == "en"],
        "Needs in eight other languages": [need for need in needs if need.lang != "en"],
    }
    plt.rcParams.update({"svg.hashsalt": "search", "font.size": 9})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for entry in args.embedders:
        label, _, spec = entry.partition("=")
        index = ToolIndex.build(catalogue, Engine(load(spec)))
        for axis, (title, chosen) in zip(axes, panels.items(), strict=True):
            points = curve(index, chosen)
            print(f"{label:20} {title:32}", "  ".join(f"{x:.0f}:{y:.1f}" for x, y in points), flush=True)
            axis.plot(*zip(*points, strict=True), marker="o", markersize=4, label=label)
            axis.set_title(f"{title} (n = {len(chosen)})", fontsize=9)
            axis.set_xlabel("tokens of the answer (limit 1, 2, 3, 5, 10)")
            axis.grid(alpha=0.3)
    axes[0].set_ylabel("recall, percent")
    axes[0].set_ylim(0, 100)
    axes[1].legend(loc="upper left", frameon=False)
    figure.tight_layout()
    figure.savefig(args.out, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
