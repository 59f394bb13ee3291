"""How to index: the embedder, the search settings and what is already known about texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import cast

import numpy as np

from extproc.search.cache import ByteCache, Memo
from extproc.search.dense import (
    NAME_WEIGHT,
    SENTENCE_WEIGHT,
    Matrix,
    QueryVectors,
    QueryWords,
    ToolWords,
    WordVector,
    embed,
    embed_queries,
    stack,
    sums,
    unit,
    word_vectors,
)
from extproc.search.embedder import Embedder, EmbedderError, PieceTable, as_table
from extproc.search.fields import Fields, Readings, Texts
from extproc.search.stopwords import FUNCTION_WORDS
from extproc.search.words import Analyzer
from extproc.settings import Search

_LONGEST_ASKED = 32
_FUNCTION_WORDS = tuple(sorted(FUNCTION_WORDS))


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a look at one tool gives: tokens by field, words to embed one by one, digest of its texts."""

    fields: Fields
    words: tuple[str, ...]
    text_digest: bytes


@dataclass(frozen=True, slots=True)
class Dense:
    """``vectors``: a row for each tool.  ``words``: None where the embedder does not embed word by word."""

    vectors: Matrix
    words: ToolWords | None

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + (self.words.nbytes if self.words is not None else 0)


class Caches:
    """Tokens by tool and vectors by text, both bounded in bytes.  Safe to share between threads.

    Of the bytes for vectors a twelfth is for words of queries.
    """

    def __init__(self, tokens: int = 64 << 20, vectors: int = 64 << 20) -> None:
        self.analyzer = Analyzer()
        self.prepared: ByteCache[tuple[bytes, str], Prepared] = ByteCache(tokens)
        self.asked: Memo[tuple[str, str], WordVector] = Memo(vectors // 12)
        self.vectors: ByteCache[tuple[str, bytes], Matrix] = ByteCache(vectors - vectors // 12)

    @property
    def nbytes(self) -> int:
        return self.prepared.nbytes + self.vectors.nbytes + self.asked.nbytes


def _ignore(error: EmbedderError) -> None:
    del error


@dataclass(frozen=True, slots=True)
class Engine:
    """``embedder`` None ranks by words alone.

    ``on_failure`` is told when the embedder failed and words alone had to serve; it may be called from any
    thread and must not raise.
    """

    embedder: Embedder | None = None
    settings: Search = field(default_factory=Search)
    caches: Caches = field(default_factory=Caches)
    on_failure: Callable[[EmbedderError], None] = _ignore

    def lexical(self) -> Engine:
        """The same engine without its embedder: for an index that must be there at once."""
        return replace(self, embedder=None)

    def prepare(self, tools: Readings) -> list[Prepared]:
        """Tokens of every tool, from the cache where known."""
        keys = [(named.tool.digest, named.server) for named in tools.named]
        known = self.caches.prepared.get_many(keys)
        fresh: list[tuple[tuple[bytes, str], Prepared, int]] = []
        out: list[Prepared] = []
        for row, (key, found) in enumerate(zip(keys, known, strict=True)):
            if found is None:
                texts = tools[row]
                digest = blake2b(
                    "\\0".join((texts.text, texts.name, texts.sentence)).encode(), digest_size=16
                )
                found = Prepared(texts.fields(self.caches.analyzer), texts.words(), digest.digest())
                size = 500 + 8 * (sum(map(len, found.fields)) + len(found.words))
                fresh.append((key, found, size))
            out.append(found)
        self.caches.prepared.put_many(fresh)
        return out

    def dense(self, tools: Readings, prepared: Sequence[Prepared]) -> Dense | None:
        """Vectors of every tool, or None without an embedder or when it failed (``on_failure`` was told)."""
        embedder = self.embedder
        if embedder is None or not len(tools):
            return None
        keys = [(embedder.name, each.text_digest) for each in prepared]
        try:
            vectors = self._vectors(keys, lambda rows: _tool_vectors(embedder, [tools[row] for row in rows]))
            matrix = stack(vectors, embedder.dimension)
            table = as_table(embedder)
            if table is None:
                return Dense(matrix, None)
            words = list(dict.fromkeys(word for each in prepared for word in each.words))
            known = dict(zip(words, self._words(table, words), strict=True))
            # Every second word of a query is one of these.
            self._words(table, _FUNCTION_WORDS)
        except EmbedderError as error:
            self.on_failure(error)
            return None
        return Dense(matrix, ToolWords([each.words for each in prepared], known, embedder.dimension))

    def _words(self, table: PieceTable, words: Sequence[str]) -> list[Matrix]:
        keys = [(table.name, word.encode()) for word in words]
        return self._vectors(keys, lambda rows: sums(table, [words[row] for row in rows]))

    def queries(self, queries: Sequence[str]) -> list[QueryVectors | QueryWords] | None:
        """Queries read by the embedder; None without one or when it failed (``on_failure`` was told)."""
        if self.embedder is None:
            return None
        try:
            return embed_queries(self.embedder, queries, self._asked)
        except EmbedderError as error:
            self.on_failure(error)
            return None

    def _asked(self, table: PieceTable, words: Sequence[str]) -> list[WordVector]:
        """Vectors of a query's words, those that no catalogue and no earlier query has from the table."""
        name, asked = table.name, self.caches.asked
        known = asked.get
        found = [known((name, word)) for word in words]
        missing = [place for place, vector in enumerate(found) if vector is None]
        if missing:
            unseen: list[int] = []
            for place in missing:
                row = self.caches.vectors.peek((name, words[place].encode()))
                if row is None:
                    unseen.append(place)
                else:
                    found[place] = WordVector.of(row)
            if unseen:
                fresh = word_vectors(table, [words[place] for place in unseen])
                for place, vector in zip(unseen, fresh, strict=True):
                    found[place] = vector
            for place in missing:
                # Single words of ordinary length, and nothing of the query they came from.
                if len(words[place]) <= _LONGEST_ASKED and (learnt := found[place]) is not None:
                    # A copy: a view would keep the rows of all other words of its query in memory, uncounted.
                    kept = WordVector(learnt.row.copy(), learnt.length)
                    asked.put((name, words[place]), kept, kept.row.nbytes + 400)
        return cast(list[WordVector], found)

    def _vectors(
        self, keys: Sequence[tuple[str, bytes]], make: Callable[[Sequence[int]], Matrix]
    ) -> list[Matrix]:
        known = self.caches.vectors.get_many(keys)
        missing: dict[tuple[str, bytes], int] = {}
        for row, (key, found) in enumerate(zip(keys, known, strict=True)):
            if found is None:
                missing.setdefault(key, row)
        fresh: dict[tuple[str, bytes], Matrix] = {}
        if missing:
            made = make(list(missing.values()))
            fresh = dict(zip(missing, (row.copy() for row in made), strict=True))
            self.caches.vectors.put_many((key, row, row.nbytes + 250) for key, row in fresh.items())
        return [fresh[key] if found is None else found for key, found in zip(keys, known, strict=True)]


def _tool_vectors(embedder: Embedder, texts: Sequence[Texts]) -> Matrix:
    whole = [each.text for each in texts]
    if as_table(embedder) is None:
        return embed(embedder, whole)
    # Tools of several servers share names and first sentences.
    parts = [*whole, *(each.name for each in texts), *(each.sentence for each in texts)]
    place = {text: row for row, text in enumerate(dict.fromkeys(parts))}
    rows = embed(embedder, list(place))
    whole_rows, names, sentences = np.array([place[text] for text in parts], np.intp).reshape(3, len(texts))
    out = rows[whole_rows]
    out += NAME_WEIGHT * rows[names]
    out += SENTENCE_WEIGHT * rows[sentences]
    return unit(out)
