"""One ranking out of two: word scores and vector scores."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def z_score(scores: Floats) -> Floats:
    """Distance from the mean in standard deviations; zeros where all scores are equal."""
    if not len(scores):
        return scores
    centred = scores - scores.mean()
    # A dot product is several times faster than std() for a few thousand numbers.
    deviation = math.sqrt(float(centred @ centred) / len(scores))
    if deviation < 1e-6:
        return np.zeros_like(scores)
    centred *= 1 / deviation
    return np.asarray(centred, np.float32)


def reciprocal_rank(lexical: Floats, dense: Floats, weight: float, k: float = 60.0) -> Floats:
    """Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009) with weights ``weight`` and ``1 - weight``.

    A tool without a matching word has no lexical rank and gains nothing from it.
    """
    fused = (1 - weight) / (k + _ranks(dense))
    return np.asarray(fused + np.where(lexical > 0, weight / (k + _ranks(lexical)), 0.0), np.float32)


def best(scores: Floats, k: int) -> NDArray[np.intp]:
    """Positions of the ``k`` highest scores, best first; equal scores keep catalogue order."""
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, np.intp)
    if k < len(scores):
        # Ties at the edge are resolved by position, which argpartition alone does not promise.
        edge = np.partition(scores, len(scores) - k)[len(scores) - k]
        part = np.flatnonzero(scores >= edge)
    else:
        part = np.arange(k)
    return part[np.argsort(-scores[part], kind="stable")][:k]


def _ranks(scores: Floats) -> NDArray[np.float64]:
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
