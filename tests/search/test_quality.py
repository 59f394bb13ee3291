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
    "kind plain": (93.0, 93.0),
    "kind question": (59.0, 45.1),
    "kind short": (91.9, 86.2),
    "kind synonym": (46.6, 34.2),
    "kind two-tools": (75.2, 73.3),
    "kind typo": (88.2, 82.7),
    "language de": (64.0, 25.0),
    "language en": (76.8, 70.7),
    "language es": (64.6, 10.9),
    "language fr": (65.8, 33.3),
    "language ja": (68.9, 12.2),
    "language lt": (58.5, 21.3),
    "language pl": (73.8, 13.5),
    "language ru": (71.9, 13.5),
    "language zh": (71.7, 17.0),
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
