"""Vectors of tools and queries: one for each tool, and one for each word where words are cheap to embed.

A tool's vector is that of its whole text; with a static table the name and the first sentence are added with
a weight of their own.  Word vectors give the late-interaction score of ColBERT (Khattab and Zaharia 2020):
each query word counts with the tool word nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extproc.search.embedder import Embedder, EmbedderError
from extproc.search.lexical import Floats
from extproc.search.segments import content_words, segments
from extproc.search.words import clean

Matrix = NDArray[np.float32]

NAME_WEIGHT = 0.3
SENTENCE_WEIGHT = 0.3
_MOST_WORDS = 64


def by_piece(embedder: Embedder) -> bool:
    """Whether queries and tools may be embedded part by part and word by word.

    True for a table of pieces, known by its ``tokenize`` method: many small texts cost it no more than one
    long text.  A transformer or a remote service is given whole texts only.
    """
    return callable(getattr(embedder, "tokenize", None))


@dataclass(frozen=True, slots=True)
class QueryTexts:
    """What of one query is embedded: ``parts`` (the whole query first) and the ``words`` of each part."""

    parts: tuple[str, ...]
    words: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, query: str, pieces: bool) -> QueryTexts:
        query = clean(query)
        if not pieces:
            return cls((query,))
        parts = tuple(segments(query))
        known: dict[str, None] = {}
        words = []
        for part in parts:
            mine = content_words(part, 24)
            for word in mine:
                if len(known) < _MOST_WORDS:
                    known.setdefault(word)
            words.append(tuple(word for word in mine if word in known))
        return cls(parts, tuple(words))


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """``parts``: a row for each part.  ``words``: a row for each different word; ``groups``: the rows of each
    part's words."""

    parts: Matrix
    words: Matrix
    groups: tuple[tuple[int, ...], ...]


def embed(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Vectors of ``texts``, one a row.  Raises ``EmbedderError``, also for an answer that is none."""
    vectors = embedder.embed(texts)
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbedderError(f"{embedder.name} gave vectors of shape {vectors.shape} for {len(texts)} texts")
    if not np.isfinite(vectors).all():
        raise EmbedderError(f"{embedder.name} gave vectors with numbers that are not finite")
    return vectors


def embed_queries(
    embedder: Embedder,
    queries: Sequence[str],
    known: Callable[[Sequence[str]], Sequence[Matrix | None]],
) -> list[QueryVectors]:
    """Vectors of several queries in one call of the embedder.

    ``known`` gives the vectors of words that need no call.  Raises ``EmbedderError``.
    """
    plans = [QueryTexts.of(query, by_piece(embedder)) for query in queries]
    words = list(dict.fromkeys(word for plan in plans for part in plan.words for word in part))
    table = dict(zip(words, known(words), strict=True)) if words else {}
    texts = dict.fromkeys(part for plan in plans for part in plan.parts)
    texts.update(dict.fromkeys(word for word, vector in table.items() if vector is None))
    fresh = dict(zip(texts, embed(embedder, list(texts)), strict=True))
    out = []
    for plan in plans:
        place = {
            word: i for i, word in enumerate(dict.fromkeys(word for part in plan.words for word in part))
        }
        groups = tuple(dict.fromkeys(tuple(place[word] for word in part) for part in plan.words if part))
        mine = [fresh[word] if (found := table[word]) is None else found for word in place]
        parts = np.array([fresh[part] for part in plan.parts])
        out.append(QueryVectors(parts, np.array(mine, np.float32), groups))
    return out


class ToolWords:
    """Word vectors of a catalogue, one byte for each number."""

    def __init__(self, words: Sequence[Sequence[str]], vectors: dict[str, Matrix], dimension: int) -> None:
        vocabulary = {word: i for i, word in enumerate(vectors)}
        table = np.array(list(vectors.values()), np.float32).reshape(len(vectors), dimension)
        top = np.maximum(np.abs(table).max(axis=1, initial=0.0), 1e-9)
        self._table = np.round(table * (127 / top)[:, None]).astype(np.int8)
        self._scale = (top / 127).astype(np.float32)
        lengths = [len(each) for each in words]
        self._start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        flat = (vocabulary[word] for each in words for word in each)
        self._flat = np.fromiter(flat, np.int32, sum(lengths))

    def likeness(self, query: QueryVectors, rows: NDArray[np.intp]) -> Floats:
        """For each tool of ``rows`` the best part's mean over its words of the squared best cosine."""
        best = np.zeros(len(rows), np.float32)
        if not len(query.words):
            return best
        lengths = self._start[rows + 1] - self._start[rows]
        has = np.flatnonzero(lengths)
        if not len(has):
            return best
        ends = np.cumsum(lengths[has])
        starts = ends - lengths[has]
        words = self._flat[np.repeat(self._start[rows[has]] - starts, lengths[has]) + np.arange(ends[-1])]
        cosines = (query.words @ self._table[words].astype(np.float32).T) * self._scale[words]
        nearest = np.maximum.reduceat(cosines, starts, axis=1)
        np.maximum(nearest, 0, out=nearest)
        nearest *= nearest
        if len(query.groups) == 1:
            best[has] = nearest.mean(axis=0)
        else:
            best[has] = np.max([nearest[list(group)].mean(axis=0) for group in query.groups], axis=0)
        return best

    @property
    def nbytes(self) -> int:
        return (
            int(self._table.nbytes)
            + int(self._scale.nbytes)
            + int(self._start.nbytes)
            + int(self._flat.nbytes)
        )
