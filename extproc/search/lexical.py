"""Sparse BM25F with the weight of every word in every tool worked out when the index is built.

Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond* (2009), section 3.4: term
frequencies of the fields are normalised by field length, weighted, added, and saturated once:
``idf * tf * (k1 + 1) / (tf + k1)``.  With one field this is BM25.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int32]


class Idf(Enum):
    """How rare words gain weight, N documents of which n have the word."""

    LUCENE = auto()
    """``log(1 + (N - n + 0.5) / (n + 0.5))``: above zero for every word, also in a catalogue of one tool."""
    OKAPI = auto()
    """``log((N - n + 0.5) / (n + 0.5))``, negative values replaced by a quarter of the mean: rank-bm25's."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One entry for each field: its weight and how much its length counts (BM25's b)."""

    field: tuple[float, ...] = (1.5, 1.0, 0.6, 0.5, 0.5)
    length: tuple[float, ...] = (0.5, 0.6, 0.6, 0.6, 0.5)
    k1: float = 1.2
    idf: Idf = Idf.LUCENE


@dataclass(frozen=True, slots=True)
class Columns:
    """A sparse matrix by column: the rows of column ``c`` are ``rows[start[c]:start[c + 1]]``."""

    start: NDArray[np.int64]
    rows: Rows
    values: Floats

    def column(self, c: int) -> tuple[Rows, Floats]:
        a, b = self.start[c], self.start[c + 1]
        return self.rows[a:b], self.values[a:b]

    @property
    def nbytes(self) -> int:
        return self.start.nbytes + self.rows.nbytes + self.values.nbytes


class Lexical:
    """Word weights of a catalogue.  ``documents[i][f]`` are the tokens of field ``f`` of document ``i``."""

    def __init__(self, documents: Sequence[Sequence[Sequence[str]]], weights: Weights | None = None) -> None:
        weights = weights or Weights()
        self.size = len(documents)
        words = dict.fromkeys(chain.from_iterable(chain.from_iterable(documents)))
        self.vocabulary = vocabulary = {word: term for term, word in enumerate(words)}
        keys, values = [], []
        for field, (weight, b) in enumerate(zip(weights.field, weights.length, strict=True)):
            key, value = _field([document[field] for document in documents], vocabulary, weight, b)
            keys.append(key)
            values.append(value)
        key, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        frequency = np.bincount(inverse, np.concatenate(values), len(key))
        term, row = np.divmod(key, max(self.size, 1))
        count = np.bincount(term, minlength=len(vocabulary))
        self.idf = _idf(count, self.size, weights.idf)
        impact = self.idf[term] * frequency * (weights.k1 + 1) / (frequency + weights.k1)
        start = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        self.postings = Columns(start, row.astype(np.int32), impact.astype(np.float32))

    def scores(self, words: Iterable[str]) -> Floats:
        """The plain sum for each document; a word asked twice counts twice."""
        score = np.zeros(self.size, np.float32)
        for word in words:
            term = self.vocabulary.get(word)
            if term is not None:
                rows, impact = self.postings.column(term)
                score[rows] += impact
        return score

    @property
    def nbytes(self) -> int:
        words = sum(map(len, self.vocabulary)) + 110 * len(self.vocabulary)
        return words + self.postings.nbytes + self.idf.nbytes


def _field(
    field: Sequence[Sequence[str]], vocabulary: dict[str, int], weight: float, b: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    size = len(field)
    lengths = np.fromiter(map(len, field), np.int64, size)
    terms = np.fromiter(map(vocabulary.__getitem__, chain.from_iterable(field)), np.int64, int(lengths.sum()))
    key, count = np.unique(terms * max(size, 1) + np.repeat(np.arange(size), lengths), return_counts=True)
    average = lengths.mean() if size and lengths.any() else 1.0
    norm = weight / (1 - b + b * lengths / average)
    return key, count * norm[key % max(size, 1)] if size else np.zeros(0)


def _idf(count: NDArray[np.int64], size: int, kind: Idf) -> NDArray[np.float64]:
    odds = (size - count + 0.5) / (count + 0.5)
    if kind is Idf.LUCENE:
        return np.asarray(np.log1p(odds))
    idf = np.log(odds)
    floor = 0.25 * idf.mean() if len(idf) else 0.0
    return np.where(idf < 0, floor, idf)


def name_shares(names: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> Columns:
    """For each word the documents whose name has it, each with one part of that name's words."""
    size = len(names)
    lengths = np.fromiter(map(len, names), np.int64, size)
    terms = np.fromiter(map(vocabulary.__getitem__, chain.from_iterable(names)), np.int64, int(lengths.sum()))
    key = np.unique(terms * max(size, 1) + np.repeat(np.arange(size), lengths))
    term, row = np.divmod(key, max(size, 1))
    start = np.concatenate(([0], np.cumsum(np.bincount(term, minlength=len(vocabulary))))).astype(np.int64)
    different = np.bincount(row, minlength=size)
    return Columns(start, row.astype(np.int32), (1 / different[row]).astype(np.float32))
