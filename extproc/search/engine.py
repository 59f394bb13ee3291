"""How to index: the embedder, the search settings and what is already known about texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from extproc.search.cache import ByteCache
from extproc.search.embedder import Embedder, EmbedderError
from extproc.search.fields import Fields, Named, embedding_text, tool_fields
from extproc.search.words import Analyzer
from extproc.settings import Search

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a catalogue-independent look at one tool gives: tokens by field, digest of the text to embed."""

    fields: Fields
    text_digest: bytes


class Caches:
    """Tokens by tool and vectors by text, both bounded in bytes.  Safe to share between threads."""

    def __init__(self, tokens: int = 64 << 20, vectors: int = 64 << 20) -> None:
        self.analyzer = Analyzer()
        self.prepared: ByteCache[tuple[bytes, str], Prepared] = ByteCache(tokens)
        self.vectors: ByteCache[tuple[str, bytes], Matrix] = ByteCache(vectors)

    @property
    def nbytes(self) -> int:
        return self.prepared.nbytes + self.vectors.nbytes


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

    def prepare(self, tools: Sequence[Named]) -> list[Prepared]:
        """Tokens of every tool, from the cache where known."""
        keys = [(named.tool.digest, named.server) for named in tools]
        known = self.caches.prepared.get_many(keys)
        fresh: list[tuple[tuple[bytes, str], Prepared, int]] = []
        out: list[Prepared] = []
        for key, named, found in zip(keys, tools, known, strict=True):
            if found is None:
                text = embedding_text(named).encode()
                fields = tool_fields(named, self.caches.analyzer)
                found = Prepared(fields, blake2b(text, digest_size=16).digest())
                fresh.append((key, found, 400 + 8 * sum(map(len, fields))))
            out.append(found)
        self.caches.prepared.put_many(fresh)
        return out

    def vectors(self, tools: Sequence[Named], prepared: Sequence[Prepared]) -> Matrix | None:
        """One row for each tool, or None without an embedder or when it failed (``on_failure`` was told)."""
        if self.embedder is None or not tools:
            return None
        name, dimension = self.embedder.name, self.embedder.dimension
        keys = [(name, each.text_digest) for each in prepared]
        known = self.caches.vectors.get_many(keys)
        missing = {
            key: row for row, (key, found) in enumerate(zip(keys, known, strict=True)) if found is None
        }
        fresh: dict[tuple[str, bytes], Matrix] = {}
        if missing:
            texts = [embedding_text(tools[row]) for row in missing.values()]
            made = self.embed(texts)
            if made is None:
                return None
            fresh = dict(zip(missing, made, strict=True))
            self.caches.vectors.put_many((key, row.copy(), row.nbytes + 250) for key, row in fresh.items())
        matrix = np.empty((len(tools), dimension), np.float32)
        for row, (key, found) in enumerate(zip(keys, known, strict=True)):
            matrix[row] = fresh[key] if found is None else found
        return matrix

    def embed(self, texts: Sequence[str]) -> Matrix | None:
        """Vectors of ``texts``, or None without an embedder or when it failed (``on_failure`` was told)."""
        if self.embedder is None:
            return None
        try:
            return self.embedder.embed(texts)
        except EmbedderError as error:
            self.on_failure(error)
            return None
