"""Vectors of tools and queries: one for each tool, and one for each word where words are cheap to embed.

A tool's vector is that of its whole text; with a static table the name and the first sentence are added with
a weight of their own.  Word vectors give the late-interaction score of ColBERT (Khattab and Zaharia 2020):
each query word counts with the tool word nearest to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extproc.search.embedder import Embedder, EmbedderError, PieceTable, as_table
from extproc.search.lexical import Floats
from extproc.search.segments import Reading
from extproc.search.stopwords import FUNCTION_WORDS
from extproc.search.words import clean

Matrix = NDArray[np.float32]

NAME_WEIGHT = 0.3
SENTENCE_WEIGHT = 0.3
FUNCTION_WORD, UNKNOWN_WORD = 0.55, 0.7
"""Weights of words that the catalogue's statistics say nothing about."""
_MOST_WORDS, _MOST_PART = 64, 24
_SMALL, _BLOCK = 300_000, 900_000
"""Multiplications below which BLAS takes operands as they lie: transposed ones, and any."""


class QueryVectors(NamedTuple):
    """``parts``: a row for each part, the whole query first.  ``words``: a row for each different word worth
    comparing; ``groups``: the rows of each part's words."""

    parts: Matrix
    words: Matrix
    groups: tuple[tuple[int, ...], ...] = ()


class QueryWords(NamedTuple):
    """A query read by a table of pieces.  ``sums``: a row for each of the different words."""

    reading: Reading
    words: tuple[str, ...]
    sums: Matrix

    def weighed(self, weights: Mapping[str, float]) -> QueryVectors:
        """Vectors of the query's parts, each the weighted sum of its words.

        Rare words of the catalogue tell tools apart and common ones do not (inverse frequency weights for
        sentence vectors: Arora, Liang and Ma 2017), so ``weights`` come from the catalogue.
        """
        places = [
            place
            for place, word in enumerate(self.words[:_MOST_WORDS])
            if len(word) > 1 and word not in FUNCTION_WORDS
        ]
        row_of = {self.words[place]: row for row, place in enumerate(places)}
        words = self.reading.words
        weighed = [
            found if (found := weights.get(word)) is not None else _unknown_weight(word)
            for word in self.words
        ]
        groups: dict[tuple[int, ...], None] = {}
        mixture: list[list[float]] = []
        for start, end in self.reading.parts:
            part = words if end - start == len(words) else words[start:end]
            if part == self.words:
                count: Collection[str] = part
                mixture.append(weighed)
            else:
                count = Counter(part)
                mixture.append(
                    [weight * count[word] for word, weight in zip(self.words, weighed, strict=True)]
                )
            if group := tuple(row_of[word] for word in count if word in row_of)[:_MOST_PART]:
                groups[group] = None
        few = len(mixture)
        rows = np.empty((few + len(places), self.sums.shape[1]), np.float32)
        np.matmul(np.array(mixture, np.float32), self.sums, out=rows[:few])
        if places:
            self.sums.take(places, axis=0, out=rows[few:], mode="clip")
        # As ``unit``, in the operations that cost least for a handful of rows.
        length = np.sqrt(np.add.reduce(rows * rows, axis=1))
        rows /= np.maximum(length, 1e-12, out=length)[:, None]
        return QueryVectors(rows[:few], rows[few:], tuple(groups))


def embed(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Vectors of ``texts``, one a row.  Raises ``EmbedderError``, also for an answer that is none."""
    return _checked(embedder, embedder.embed(texts), len(texts))


def sums(table: PieceTable, texts: Sequence[str]) -> Matrix:
    """The same before rows are brought to length 1."""
    return _checked(table, table.sums(texts), len(texts))


def embed_queries(
    embedder: Embedder,
    queries: Sequence[str],
    known: Callable[[Sequence[str]], Sequence[Matrix | None]],
    learn: Callable[[Sequence[str], Sequence[Matrix]], None],
) -> list[QueryVectors | QueryWords]:
    """Several queries in one call of the embedder.

    ``known`` gives the sums of words that need no call, ``learn`` is given those that did.
    Raises ``EmbedderError``.
    """
    queries = [clean(query) for query in queries]
    table = as_table(embedder)
    if table is None:
        return [QueryVectors(row[None], row[:0, None]) for row in embed(embedder, queries)]
    readings = [Reading.of(query) for query in queries]
    words = list(dict.fromkeys(chain.from_iterable(reading.words for reading in readings)))
    rows = dict(zip(words, known(words), strict=True))
    missing = [word for word, row in rows.items() if row is None]
    if missing:
        fresh = list(sums(table, missing))
        rows.update(zip(missing, fresh, strict=True))
        learn(missing, fresh)
    out: list[QueryVectors | QueryWords] = []
    for reading in readings:
        mine = tuple(dict.fromkeys(reading.words))
        found = [row for word in mine if (row := rows[word]) is not None]
        out.append(QueryWords(reading, mine, stack(found, table.dimension)))
    return out


def nearest_part(vectors: Matrix, parts: Matrix) -> Floats:
    """For each tool its likeness to the part of the query that is most like it."""
    if len(parts) == 1:
        return np.asarray(vectors @ parts[0])
    return np.asarray(np.maximum.reduce(product(vectors, parts), axis=1))


def product(rows: Matrix, few: Matrix) -> Matrix:
    """``rows @ few.T`` in blocks below the size from which BLAS repacks its operands.

    With a handful of columns repacking takes four times as long as the product.
    """
    if few.size * len(rows) < _SMALL:
        return np.asarray(rows @ few.T)
    columns = np.ascontiguousarray(few.T)
    step = max(16, _BLOCK // max(1, few.size))
    if step >= len(rows):
        return np.asarray(rows @ columns)
    out = np.empty((len(rows), len(few)), np.float32)
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], columns, out=out[start : start + step])
    return out


def stack(rows: Sequence[Matrix], dimension: int) -> Matrix:
    """One matrix of rows."""
    flat = np.concatenate(rows) if rows else np.empty(0, np.float32)
    return np.asarray(flat, np.float32).reshape(len(rows), dimension)


def unit(rows: Matrix) -> Matrix:
    """Rows brought to length 1; rows of zeros stay."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.maximum(length, 1e-12)[:, None], np.float32)


def _checked(embedder: Embedder, vectors: Matrix, count: int) -> Matrix:
    if vectors.shape != (count, embedder.dimension):
        raise EmbedderError(f"{embedder.name} gave vectors of shape {vectors.shape} for {count} texts")
    flat = vectors.ravel()
    # One dot product is enough where it is finite itself.
    if not math.isfinite(flat @ flat) and not np.isfinite(vectors).all():
        raise EmbedderError(f"{embedder.name} gave vectors with numbers that are not finite")
    return vectors


def _unknown_weight(word: str) -> float:
    return FUNCTION_WORD if word in FUNCTION_WORDS else UNKNOWN_WORD


class ToolWords:
    """Word vectors of a catalogue, one byte for each number."""

    def __init__(self, words: Sequence[Sequence[str]], vectors: dict[str, Matrix], dimension: int) -> None:
        vocabulary = {word: i for i, word in enumerate(vectors)}
        table = unit(stack(list(vectors.values()), dimension))
        top = np.maximum(np.abs(table).max(axis=1, initial=0.0), 1e-9)
        self._table = np.round(table * (127 / top)[:, None]).astype(np.int8)
        self._scale = (top / 127).astype(np.float32)[:, None]
        # As bytes, which are joined in a tenth of the time that two dozen arrays take.
        ends = [0, *accumulate(4 * len(each) for each in words)]
        flat = map(vocabulary.__getitem__, chain.from_iterable(words))
        joined = np.fromiter(flat, np.int32, ends[-1] // 4).tobytes()
        self._words = [joined[start:end] for start, end in pairwise(ends)]

    def likeness(self, query: QueryVectors, rows: NDArray[np.intp]) -> Floats:
        """For each tool of ``rows`` the best part's mean over its words of the squared best cosine."""
        spans = [self._words[row] for row in rows.tolist()]
        if not query.groups or not all(spans):
            return self._likeness_of_some(query, rows, spans)
        words = np.frombuffer(b"".join(spans), np.int32)
        starts = [0, *accumulate(len(span) // words.itemsize for span in spans[:-1])]
        cosines = product(self._table.take(words, axis=0).astype(np.float32), query.words)
        cosines *= self._scale.take(words, axis=0)
        nearest = np.maximum.reduceat(cosines, starts, axis=0)
        np.maximum(nearest, 0, out=nearest)
        nearest *= nearest
        if len(query.groups) == 1:
            group = query.groups[0]
            if len(group) < len(query.words):
                nearest = nearest.take(group, axis=1)
            likeness = np.add.reduce(nearest, axis=1)
            likeness /= len(group)
            return np.asarray(likeness)
        share = np.zeros((len(query.words), len(query.groups)), np.float32)
        for column, group in enumerate(query.groups):
            share[list(group), column] = 1 / len(group)
        return np.asarray(np.maximum.reduce(nearest @ share, axis=1))

    def _likeness_of_some(self, query: QueryVectors, rows: NDArray[np.intp], spans: list[bytes]) -> Floats:
        """The same where tools have no words, or the query none: theirs is 0."""
        out = np.zeros(len(rows), np.float32)
        has = np.flatnonzero([len(span) for span in spans])
        if len(has) and query.groups:
            out[has] = self.likeness(query, rows[has])
        return out

    @property
    def nbytes(self) -> int:
        words = sum(map(len, self._words)) + 41 * len(self._words)
        return int(self._table.nbytes) + int(self._scale.nbytes) + words
