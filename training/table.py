"""The table: one vector a piece, a text is the mean of its pieces' vectors.

Each step sees pairs of texts of one meaning and lowers (1) the symmetric in-batch contrastive loss between
the two sides (van den Oord 2018, arXiv:1807.03748) and (2) the distance of both to the English teacher; lone
English texts add to (2).  A share of the texts is drawn from noisy copies.  The gradient of a mean of rows is
sparse, so it is written out here; the optimiser is Adam on the touched rows (Kingma 2014, arXiv:1412.6980).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix  # type: ignore[import-untyped,unused-ignore]

from training.vocabulary import SPECIALS, Bags

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sides:
    """Texts and their noisy copies, row by row."""

    clean: Bags
    noisy: Bags


@dataclass(frozen=True, slots=True)
class Task:
    """``pairs[k] = (i, j)``: ``english`` row i and ``other`` row j mean the same; drawn with ``weight[k]``.

    ``own[k]`` is the English row of the other side when that is English too, else -1.
    """

    english: Sides
    other: Sides
    pairs: NDArray[np.int64]
    own: NDArray[np.int64]
    weight: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Plan:
    steps: int = 2200
    batch: int = 1024
    solo: int = 1024
    """Lone English texts in a step."""
    rate: float = 3e-3
    scale: float = 20.0
    """Inverse temperature of the contrastive loss."""
    teacher: float = 5.0
    """Weight of the teacher loss."""
    noise: float = 0.5
    """Share of texts replaced by their noisy copy, where they have one."""
    seed: int = 0


@dataclass(slots=True)
class _Adam:
    table: Matrix
    step: int = 0
    first: Matrix = field(init=False)
    second: Matrix = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.zeros_like(self.table)
        self.second = np.zeros_like(self.table)

    def update(self, rows: NDArray[np.int32], gradient: Matrix, rate: float) -> None:
        self.step += 1
        first = self.first[rows]
        first += 0.1 * (gradient - first)
        self.first[rows] = first
        second = self.second[rows]
        second += 0.001 * (gradient * gradient - second)
        self.second[rows] = second
        size = rate * np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
        self.table[rows] -= np.float32(size) * first / (np.sqrt(second) + 1e-8)


@dataclass(slots=True)
class _Batch:
    """Mean vectors of a group of texts, and how their gradient falls on the pieces."""

    mean: csr_matrix
    length: Matrix
    rows: Matrix

    @classmethod
    def of(cls, matrix: csr_matrix, pieces: Matrix) -> _Batch:
        raw = matrix @ pieces
        length = np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-6)
        return cls(matrix, length, raw / length)

    def back(self, gradient: Matrix) -> Matrix:
        inner = np.einsum("ij,ij->i", gradient, self.rows)[:, None]
        return np.asarray(self.mean.T @ ((gradient - self.rows * inner) / self.length), np.float32)


def first_table(vectors: Matrix, score: NDArray[np.float32], english: Bags, target: Matrix) -> Matrix:
    """Encoder input vectors mapped linearly so that their means come close to the teacher."""
    vectors = vectors - vectors.mean(0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    probability = np.exp(np.clip(score, -30, 0))
    # Frequent pieces say little: smooth inverse frequency (Arora 2017, "A simple baseline").
    vectors *= (1e-3 / (1e-3 + probability / probability.sum()))[:, None].astype(np.float32)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(english.lengths()))[:30_000]
    ids, bounds = english.take(rows)
    means = csr_matrix((np.ones(len(ids), np.float32), ids, bounds), (len(rows), len(vectors))) @ vectors
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    mapping = np.linalg.solve(means.T @ means + 10 * np.eye(means.shape[1]), means.T @ target[rows])
    table: Matrix = (vectors @ mapping).astype(np.float32)
    table /= np.linalg.norm(table, axis=1).mean()
    table[:SPECIALS] = 0
    return table


def train(table: Matrix, task: Task, taught: Matrix, plan: Plan) -> Matrix:
    """Train ``table`` in place and return it.  The same inputs and seed give the same table.

    ``taught`` has one teacher row for each English text.
    """
    rng = np.random.default_rng(plan.seed)
    usable = np.flatnonzero(
        (task.other.clean.lengths()[task.pairs[:, 1]] > 0)
        & (task.english.clean.lengths()[task.pairs[:, 0]] > 0)
    )
    chance = np.cumsum(task.weight[usable] / task.weight[usable].sum())
    chance /= chance[-1]
    lone = np.flatnonzero(task.english.clean.lengths())
    optimiser = _Adam(table)
    began = time.monotonic()
    for step in range(plan.steps):
        chosen = usable[np.searchsorted(chance, rng.random(plan.batch), side="right")]
        i, j = task.pairs[chosen, 0], task.pairs[chosen, 1]
        target, own = taught[i], task.own[chosen]
        both = own >= 0
        target[both] += taught[own[both]]
        target /= np.maximum(np.linalg.norm(target, axis=1, keepdims=True), 1e-6)
        solo = rng.choice(lone, plan.solo)
        groups = [
            _draw(task.other, j, plan.noise, rng),
            _draw(task.english, i, plan.noise, rng),
            _draw(task.english, solo, plan.noise, rng),
        ]
        touched, flat = np.unique(np.concatenate([ids for ids, _ in groups]), return_inverse=True)
        pieces = table[touched]
        matrices, at = [], 0
        for ids, bounds in groups:
            share = np.repeat(1 / np.maximum(np.diff(bounds), 1), np.diff(bounds)).astype(np.float32)
            matrices.append(
                csr_matrix((share, flat[at : at + len(ids)], bounds), (len(bounds) - 1, len(touched)))
            )
            at += len(ids)
        other, english, alone = (_Batch.of(matrix, pieces) for matrix in matrices)
        loss, d_other, d_english = _contrast(other.rows, english.rows, target, plan.scale)
        pull = plan.teacher / (2 * plan.batch)
        gradient = other.back(d_other - pull * target) + english.back(d_english - pull * target)
        gradient += alone.back(-plan.teacher / plan.solo * taught[solo])
        rate = plan.rate * min(1.0, 20 * (step + 1) / plan.steps) * (1 - step / plan.steps)
        optimiser.update(touched, gradient, rate)
        if step % 200 == 0 or step == plan.steps - 1:
            fit = float(np.einsum("ij,ij->i", alone.rows, taught[solo]).mean())
            print(f"step {step} loss {loss:.3f} fit {fit:.3f} {time.monotonic() - began:.0f} s", flush=True)
    return table


def _draw(
    sides: Sides, rows: NDArray[np.int64], noise: float, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Ids and boundaries of ``rows``, a share of them from the noisy copies."""
    swap = rng.random(len(rows)) < noise
    order = np.argsort(np.concatenate([np.flatnonzero(~swap), np.flatnonzero(swap)]))
    kept_ids, kept = sides.clean.take(rows[~swap])
    noisy_ids, noisy = sides.noisy.take(rows[swap])
    both = Bags(np.concatenate([kept_ids, noisy_ids]), np.concatenate([kept, kept[-1] + noisy[1:]]))
    return both.take(order)


def _contrast(other: Matrix, english: Matrix, target: Matrix, scale: float) -> tuple[float, Matrix, Matrix]:
    """Symmetric cross-entropy of matching the two sides: the loss and its gradients."""
    size = len(other)
    alike = target @ target.T > 0.9  # the same meaning drawn twice is no negative
    np.fill_diagonal(alike, False)
    scores = scale * (other @ english.T)
    scores[alike] = -1e4
    by_row, by_column = _softmax(scores), _softmax(scores.T).T
    diagonal = np.arange(size)
    right = by_row[diagonal, diagonal], by_column[diagonal, diagonal]
    loss = -float(np.log(np.maximum(right[0], 1e-9)).mean() + np.log(np.maximum(right[1], 1e-9)).mean()) / 2
    slope = by_row + by_column
    slope[diagonal, diagonal] -= 2
    slope *= scale / (2 * size)
    return loss, np.asarray(slope @ english, np.float32), np.asarray(slope.T @ other, np.float32)


def _softmax(scores: Matrix) -> Matrix:
    powers: Matrix = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers
