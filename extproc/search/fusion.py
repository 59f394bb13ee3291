"""One ranking out of two: word scores and vector scores."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def centred(scores: Floats) -> tuple[Floats, float]:
    """Distances from the mean, and what brings them to a deviation of one; 0 where all scores are equal."""
    if not len(scores):
        return scores, 0.0
    # Bare reductions and a dot product: mean() and std() take several times as long for these sizes.
    distance = scores - float(np.add.reduce(scores)) / len(scores)
    deviation = math.sqrt(float(distance.dot(distance)) / len(scores))
    return distance, 1 / deviation if deviation >= 1e-6 else 0.0


def z_score(scores: Floats) -> Floats:
    """Distance from the mean in standard deviations; zeros where all scores are equal."""
    distance, scale = centred(scores)
    return np.asarray(distance * np.float32(scale), np.float32)


def reciprocal_rank(lexical: Floats, dense: Floats, weight: float, k: float = 60.0) -> Floats:
    """Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009) with weights ``weight`` and ``1 - weight``.

    A tool without a matching word has no lexical rank and gains nothing from it.
    """
    fused = (1 - weight) / (k + _ranks(dense))
    return np.asarray(fused + np.where(lexical > 0, weight / (k + _ranks(lexical)), 0.0), np.float32)


def best(scores: Floats, k: int) -> NDArray[np.intp]:
    """Positions of the ``k`` highest scores, best first; equal scores keep catalogue order."""
    part = candidates(scores, k)
    return part[(-scores[part]).argsort(kind="stable")]


def candidates(scores: Floats, k: int) -> NDArray[np.intp]:
    """The same positions in catalogue order."""
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, np.intp)
    if k == len(scores):
        return np.arange(k)
    # Ties at the edge are resolved by position, which argpartition alone does not promise.
    part = (scores >= _edge(scores, k)).nonzero()[0]
    if len(part) > k:
        part = part[(-scores[part]).argsort(kind="stable")[:k]]
        part.sort()
    return part


def _edge(scores: Floats, k: int) -> np.float32:
    """A bound that at least ``k`` scores reach, and not many more.

    Of many scores it is that of the k best of a few hundred columns' maxima: a whole partition takes longer.
    """
    rows = len(scores) // (8 * k)
    if rows > 2:
        columns = len(scores) // rows
        scores = np.maximum.reduce(scores[: rows * columns].reshape(rows, columns), axis=0)
    else:
        scores = scores.copy()
    scores.partition(len(scores) - k)
    return np.float32(scores[len(scores) - k])


def _ranks(scores: Floats) -> NDArray[np.float64]:
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
