"""Measures of a ranking against the tools that would have served (Manning et al., *IR*, chapter 8)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

MEASURES = ("recall@1", "recall@5", "recall@10", "hit@1", "hit@5", "mrr@10", "ndcg@10")


def measure(ranking: Sequence[str], relevant: Collection[str]) -> dict[str, float]:
    """Fractions for one query.  ``ranking``: at least ten names where so many were found, best first.

    ``hit@k`` is 1 when any relevant tool is among the first k, ``recall@k`` the share of them that is.
    """
    wanted = set(relevant)
    found = [name in wanted for name in ranking[:10]]
    out = {f"recall@{k}": sum(found[:k]) / len(wanted) for k in (1, 5, 10)}
    out |= {f"hit@{k}": float(any(found[:k])) for k in (1, 5)}
    out["mrr@10"] = next((1 / place for place, hit in enumerate(found, 1) if hit), 0.0)
    gain = sum(1 / math.log2(place + 1) for place, hit in enumerate(found, 1) if hit)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(len(wanted), 10) + 1))
    out["ndcg@10"] = gain / ideal
    return out


def mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure; zeros for no rows."""
    return {key: math.fsum(row[key] for row in rows) / max(len(rows), 1) for key in MEASURES}


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of a mean (normal approximation); 0 below two values."""
    n = len(values)
    if n < 2:
        return 0.0
    centre = math.fsum(values) / n
    variance = math.fsum((value - centre) ** 2 for value in values) / (n - 1)
    return 1.96 * math.sqrt(variance / n)
