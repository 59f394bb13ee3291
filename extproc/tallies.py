"""Counts that every request adds to: plain numbers of one event loop, turned into metrics at a scrape.

A counter of prometheus_client takes a lock and four calls for each addition, a histogram more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets that decisions are sorted into."""


class Decisions(Collector):
    """Decisions by side and kind, and how long they took by side.  ``kinds``: side to names of kinds."""

    def __init__(self, kinds: Mapping[str, Iterable[str]]) -> None:
        self._made = {(side, kind): 0 for side, names in kinds.items() for kind in names}
        self._counts = {side: [0] * (len(SECONDS) + 1) for side in kinds}
        self._sums = dict.fromkeys(kinds, 0.0)

    def made(self, side: str, kind: str, seconds: float) -> None:
        """Raises ``KeyError`` for a side or kind that was not named."""
        self._made[side, kind] += 1
        self.took(side, seconds)

    def took(self, side: str, seconds: float) -> None:
        """Time that ended in no decision."""
        self._counts[side][bisect_left(SECONDS, seconds)] += 1
        self._sums[side] += seconds

    def collect(self) -> Iterator[Metric]:
        made = CounterMetricFamily("toolsearch_decisions", "Decisions made.", labels=["side", "decision"])
        for labels, count in self._made.items():
            made.add_metric(list(labels), count)
        yield made
        took = HistogramMetricFamily(
            "toolsearch_decision_seconds", "Time one decision took.", labels=["side"]
        )
        bounds = [*map(floatToGoString, SECONDS), "+Inf"]
        for side, counts in self._counts.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            took.add_metric([side], buckets=buckets, sum_value=self._sums[side])
        yield took
