"""Search quality on the repository's own needs, held by floors a little below what was measured.

A change to ranking that loses more than the margin fails here.  When a better model or ranking is recorded in
docs/search-quality.md, the floors go up with it: ``python -m extproc eval`` prints the same numbers.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from extproc.cli.catalogue_files import read_needs, read_tools, to_catalogue
from extproc.embedders import load
from extproc.search import Engine, ToolIndex
from extproc.search.measure import measure

DATA = Path(__file__).resolve().parent.parent / "data"

RECALL_AT_5 = {
    # group: (default embedder, words alone), measured in percent over all needs of the set
    "kind exact-name": (100.0, 100.0),
    "kind plain": (94.9, 93.0),
    "kind question": (61.4, 45.0),
    "kind short": (93.5, 86.2),
    "kind synonym": (44.3, 34.2),
    "kind two-tools": (78.4, 73.3),
    "kind typo": (87.2, 82.7),
    "language de": (60.5, 25.0),
    "language en": (77.5, 70.6),
    "language es": (64.5, 10.9),
    "language fr": (72.0, 33.3),
    "language ja": (74.4, 12.2),
    "language lt": (69.1, 21.2),
    "language pl": (71.7, 13.5),
    "language ru": (71.8, 13.5),
    "language zh": (77.6, 17.0),
}
MARGIN = 2.5
"""Points a group may lose: about one need in a group of fifty."""


@cache
def recalls(embedder: str) -> dict[str, float]:
    """Mean recall at 5 in percent by kind (English needs) and by language (all kinds)."""
    catalogue, dropped = to_catalogue(read_tools(DATA / "catalogue.jsonl"))
    assert dropped == 0
    index = ToolIndex.build(catalogue, Engine(load(embedder)))
    groups: dict[str, list[float]] = defaultdict(list)
    for need in read_needs(DATA / "needs.jsonl"):
        found = [hit.tool.name for hit in index.search(need.query, 5)]
        value = measure(found, need.relevant)["recall@5"]
        groups[f"language {need.lang}"].append(value)
        if need.lang == "en":
            groups[f"kind {need.kind}"].append(value)
    return {name: 100 * sum(values) / len(values) for name, values in groups.items()}


@pytest.mark.parametrize("group", RECALL_AT_5)
def test_recall_does_not_fall(group: str) -> None:
    default, words = RECALL_AT_5[group]
    assert recalls("default")[group] >= default - MARGIN
    assert recalls("none")[group] >= words - MARGIN


def test_every_group_has_a_floor() -> None:
    assert set(recalls("none")) == set(RECALL_AT_5)
