"""Vectors of tools and queries: one for each tool, and one for each word where words are cheap to embed.

A tool's vector is that of its whole text; with a static table the name and the first sentence are added with
a weight of their own.  Word vectors give the late-interaction score of ColBERT (Khattab and Zaharia 2020):
each query word counts with the tool word nearest to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
_LEAST = 1e-12
"""Shortest length that rows are brought to 1 from."""
_SMALL, _BLOCK = 300_000, 900_000
"""Multiplications below which BLAS takes operands as they lie: transposed ones, and any."""


class QueryVectors(NamedTuple):
    """``parts``: a row of length 1 for each part, the whole query first.  ``words``: a row of any length for
    each different word worth comparing.  ``shares``: a row for each of these words and a column for each part
    that has some of them: what the square of the word's product counts in the part's mean."""

    parts: Matrix
    words: Matrix
    shares: Matrix


class WordVector(NamedTuple):
    """The sum of a word's pieces and its length."""

    row: Matrix
    length: float

    @classmethod
    def of(cls, row: Matrix) -> WordVector:
        return cls(row, math.sqrt(row.dot(row)))


class QueryWords(NamedTuple):
    """A query read by a table of pieces.  ``words``: the different ones."""

    reading: Reading
    words: tuple[str, ...]
    vectors: Sequence[WordVector]

    def weighed(self, weights: Mapping[str, float]) -> QueryVectors:
        """Vectors of the query's parts, each the weighted sum of its words.

        Rare words of the catalogue tell tools apart and common ones do not (inverse frequency weights for
        sentence vectors: Arora, Liang and Ma 2017), so ``weights`` come from the catalogue.
        """
        compared = [word for word in self.words[:_MOST_WORDS] if len(word) > 1 and word not in FUNCTION_WORDS]
        # Words that are compared lie first, so that one matrix serves both.
        ordered = self.words
        if len(compared) < len(ordered):
            ordered = tuple(dict.fromkeys((*compared, *ordered)))
        known = dict(zip(self.words, self.vectors, strict=True))
        rows = np.concatenate([known[word].row for word in ordered]).reshape(len(ordered), -1)
        weighed = [
            found if (found := weights.get(word)) is not None else _unknown_weight(word) for word in ordered
        ]
        inverse = [
            1 / (length * length) if (length := known[word].length) > _LEAST else 0.0 for word in compared
        ]
        asked = self.reading.words
        if len(self.reading.parts) == 1 and len(asked) == len(ordered) <= _MOST_PART:
            part = np.array(weighed, np.float32).dot(rows)
            part /= max(math.sqrt(part.dot(part)), _LEAST)
            shares = [[each / len(compared)] for each in inverse]
            return QueryVectors(part[None], rows[: len(compared)], np.array(shares, np.float32))
        row_of = {word: row for row, word in enumerate(compared)}
        groups: dict[tuple[int, ...], None] = {}
        mixture: list[list[float]] = []
        for start, end in self.reading.parts:
            count = Counter(asked[start:end])
            mixture.append([weight * count[word] for word, weight in zip(ordered, weighed, strict=True)])
            if group := tuple(row_of[word] for word in count if word in row_of)[:_MOST_PART]:
                groups[group] = None
        part_shares = np.zeros((len(compared), len(groups)), np.float32)
        for column, group in enumerate(groups):
            for row in group:
                part_shares[row, column] = inverse[row] / len(group)
        parts = unit(np.array(mixture, np.float32) @ rows)
        return QueryVectors(parts, rows[: len(compared)], part_shares)


def embed(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Vectors of ``texts``, one a row.  Raises ``EmbedderError``, also for an answer that is none."""
    return _checked(embedder, embedder.embed(texts), len(texts))


def sums(table: PieceTable, texts: Sequence[str]) -> Matrix:
    """The same before rows are brought to length 1."""
    return _checked(table, table.sums(texts), len(texts))


def word_vectors(table: PieceTable, words: Sequence[str]) -> list[WordVector]:
    """Vectors of a few words.  Raises ``EmbedderError`` as ``sums`` does."""
    rows = table.sums(words)
    vectors = list(map(WordVector.of, rows))
    # One test is enough where all lengths are finite.
    if rows.shape != (len(words), table.dimension) or not math.isfinite(sum(v.length for v in vectors)):
        _checked(table, rows, len(words))
    return vectors


def embed_queries(
    embedder: Embedder,
    queries: Sequence[str],
    vectors_of: Callable[[PieceTable, Sequence[str]], Sequence[WordVector]],
) -> list[QueryVectors | QueryWords]:
    """Several queries in one call of the embedder, or in one of ``vectors_of`` where it is a table of pieces.

    Raises ``EmbedderError``.
    """
    queries = [clean(query) for query in queries]
    table = as_table(embedder)
    if table is None:
        return [QueryVectors(row[None], row[:0, None], row[:0, None]) for row in embed(embedder, queries)]
    readings = [Reading.of(query) for query in queries]
    words = tuple(dict.fromkeys(chain.from_iterable(reading.words for reading in readings)))
    vectors = vectors_of(table, words)
    if len(readings) == 1 and words:
        return [QueryWords(readings[0], words, vectors)]
    known = dict(zip(words, vectors, strict=True))
    nothing = np.zeros((1, table.dimension), np.float32)
    out: list[QueryVectors | QueryWords] = []
    for reading in readings:
        mine = tuple(dict.fromkeys(reading.words))
        if mine:
            out.append(QueryWords(reading, mine, [known[word] for word in mine]))
        else:
            out.append(QueryVectors(nothing, nothing[:0], nothing[:0, :0]))
    return out


def nearest_part(vectors: Matrix, parts: Matrix) -> Floats:
    """For each tool its likeness to the part of the query that is most like it."""
    if len(parts) == 1:
        return np.asarray(vectors.dot(parts[0]))
    return np.asarray(np.maximum.reduce(product(vectors, parts), axis=1))


def product(rows: Matrix, few: Matrix) -> Matrix:
    """``rows @ few.T`` in blocks below the size from which BLAS repacks its operands.

    With a handful of columns repacking takes four times as long as the product.
    """
    if few.size * len(rows) < _SMALL:
        return np.asarray(rows.dot(few.T))
    columns = np.ascontiguousarray(few.T)
    step = max(16, _BLOCK // max(1, few.size))
    if step >= len(rows):
        return np.asarray(rows.dot(columns))
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
    return np.asarray(rows / np.maximum(length, _LEAST)[:, None], np.float32)


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
        if not query.shares.size or not all(spans):
            return self._likeness_of_some(query, rows, spans)
        words = np.frombuffer(b"".join(spans), np.int32)
        starts = [0, *accumulate(len(span) // words.itemsize for span in spans[:-1])]
        cosines = product(self._table.take(words, axis=0).astype(np.float32), query.words)
        cosines *= self._scale.take(words, axis=0)
        nearest = np.maximum.reduceat(cosines, starts, axis=0)
        np.maximum(nearest, 0, out=nearest)
        nearest *= nearest
        likeness = nearest.dot(query.shares)
        return np.asarray(likeness[:, 0] if likeness.shape[1] == 1 else np.maximum.reduce(likeness, axis=1))

    def _likeness_of_some(self, query: QueryVectors, rows: NDArray[np.intp], spans: list[bytes]) -> Floats:
        """The same where tools have no words, or the query none: theirs is 0."""
        out = np.zeros(len(rows), np.float32)
        has = np.flatnonzero([len(span) for span in spans])
        if len(has) and query.shares.size:
            out[has] = self.likeness(query, rows[has])
        return out

    @property
    def nbytes(self) -> int:
        words = sum(map(len, self._words)) + 41 * len(self._words)
        return int(self._table.nbytes) + int(self._scale.nbytes) + words
