"""The seam between ranking and the rest: ``ToolIndex.build(catalogue, engine)``, ``.search(query, k)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extproc.catalog.model import Catalogue, Tool
from extproc.search.dense import QueryVectors, QueryWords, nearest_part
from extproc.search.engine import Engine
from extproc.search.fields import FIELDS, Named, Readings
from extproc.search.fusion import Floats, best, candidates, centred, reciprocal_rank
from extproc.search.match import Match, Matcher
from extproc.search.names import Names
from extproc.search.ranking import (
    CANDIDATES,
    known_gate,
    lexical_weight,
    refined,
    wordwise_share,
    worth_showing,
)
from extproc.search.servers import UnknownServer, detect_separator, rows_of_server, server_names, split_name

MAX_QUERY = 10_000
"""Characters of a query that are read."""
Rows = NDArray[np.intp]


class Hit(NamedTuple):
    """One ranked tool.  ``exact`` is true when the query names the tool, with or without its server."""

    tool: Tool
    score: float
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """``rankings``: one for each query.  ``hits``: every tool of them once, best places first."""

    rankings: tuple[tuple[Hit, ...], ...]

    @property
    def hits(self) -> tuple[Hit, ...]:
        merged: dict[str, Hit] = {}
        for place in range(max(map(len, self.rankings), default=0)):
            for ranking in self.rankings:
                if place < len(ranking):
                    merged.setdefault(ranking[place].tool.name, ranking[place])
        return tuple(merged.values())


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a tool is where it is.

    ``lexical`` and ``cosine`` are the two raw scores (``cosine`` None without vectors), ``fields`` the
    part of the lexical score due to each field, ``words`` the query words and what they matched, ``gate`` the
    lexical weight used for the whole query.
    """

    rank: int
    hit: Hit
    lexical: float
    fields: dict[str, float]
    words: tuple[tuple[str, str], ...]
    cosine: float | None
    gate: float


class _Ranked(NamedTuple):
    """``places``: positions of the best in ``lexical`` and ``cosine``; ``rows``: theirs in the catalogue."""

    rows: list[int]
    scores: list[float]
    named: dict[int, int]
    places: list[int]
    lexical: Floats
    cosine: Floats | None
    gate: float
    match: Match


class _Core:
    """Everything that callers with a part of one catalogue share."""

    def __init__(self, catalogue: Catalogue, engine: Engine) -> None:
        self.engine = engine
        self.catalogue = catalogue
        self.names = [tool.name for tool in catalogue]
        self.separator = detect_separator(self.names)
        split = [split_name(name, self.separator) for name in self.names]
        named = [Named(tool, *parts) for tool, parts in zip(catalogue, split, strict=True)]
        readings = Readings(named)
        prepared = engine.prepare(readings)
        self.matcher = Matcher([each.fields for each in prepared])
        self.dense = engine.dense(readings, prepared)
        self.by_name = Names(self.names, [local for _, local in split])
        self.row = {name: row for row, name in enumerate(self.names)}


class ToolIndex:
    """An immutable index of one catalogue.  Safe to share between threads."""

    def __init__(self, core: _Core, catalogue: Catalogue, rows: Rows | None = None) -> None:
        self.catalogue = catalogue
        self._core = core
        self._rows = rows
        self._mask = None
        if rows is not None:
            self._mask = np.zeros(len(core.names), np.bool_)
            self._mask[rows] = True

    @classmethod
    def build(cls, catalogue: Catalogue, engine: Engine | None = None) -> ToolIndex:
        """Index a catalogue; without an engine by words alone.

        An embedder that fails leaves an index by words alone (``dense`` is false) and tells the engine.
        """
        return cls(_Core(catalogue, engine or Engine()), catalogue)

    def subset(self, catalogue: Catalogue) -> ToolIndex | None:
        """An index of ``catalogue`` that shares everything with this one.

        None unless every tool of ``catalogue`` is indexed here with the same definition.
        """
        own = self.catalogue.by_name
        if any((found := own.get(tool.name)) is None or found.digest != tool.digest for tool in catalogue):
            return None
        rows = np.fromiter((self._core.row[tool.name] for tool in catalogue), np.intp, len(catalogue))
        return ToolIndex(self._core, catalogue, rows)

    @property
    def dense(self) -> bool:
        """Whether vectors take part in the ranking."""
        return self._core.dense is not None

    @property
    def nbytes(self) -> int:
        """Bytes held, roughly; an index made by ``subset`` counts only what it adds."""
        if self._rows is not None and self._mask is not None:
            return self._rows.nbytes + self._mask.nbytes + 200
        core = self._core
        vectors = core.dense.nbytes if core.dense is not None else 0
        return vectors + core.matcher.nbytes + core.by_name.nbytes + 300 * len(core.names)

    def servers(self) -> tuple[str, ...]:
        """The caller's server names, sorted; empty when tool names carry no server prefix."""
        return server_names((tool.name for tool in self.catalogue), self._core.separator)

    def search(self, query: str, k: int, server: str | None = None) -> list[Hit]:
        """The at most ``k`` best tools for ``query``, best first; only those of ``server`` when given.

        Empty when nothing matches.  Raises ``UnknownServer`` with the caller's own server names.
        """
        return list(self.search_many([query], k, server).rankings[0])

    def search_many(self, queries: Sequence[str], k: int, server: str | None = None) -> Answers:
        """One ranking for each query; the queries are embedded together.  Raises ``UnknownServer``."""
        rows, mask = self._select(server)
        vectors = self._embed(queries)
        out = []
        for position, query in enumerate(queries):
            ranked = self._rank(query, k, rows, mask, None if vectors is None else vectors[position])
            out.append(tuple(self._hits(ranked)))
        return Answers(tuple(out))

    def explain(self, query: str, k: int, server: str | None = None) -> list[Explained]:
        """The same ranking as ``search`` with what each part contributed.  Raises ``UnknownServer``."""
        rows, mask = self._select(server)
        vectors = self._embed([query])
        ranked = self._rank(query, k, rows, mask, None if vectors is None else vectors[0])
        hits = self._hits(ranked)
        return [self._explain(ranked, place, hit) for place, hit in enumerate(hits)]

    def _select(self, server: str | None) -> tuple[Rows | None, NDArray[np.bool_] | None]:
        if not server:
            return self._rows, self._mask
        core = self._core
        rows = np.array(rows_of_server(core.names, server, core.separator), np.intp)
        if self._mask is not None:
            rows = rows[self._mask[rows]]
        if not len(rows):
            raise UnknownServer(server, self.servers())
        mask = np.zeros(len(core.names), np.bool_)
        mask[rows] = True
        return rows, mask

    def _embed(self, queries: Sequence[str]) -> list[QueryVectors | QueryWords] | None:
        if self._core.dense is None:
            return None
        return self._core.engine.queries([query[:MAX_QUERY] for query in queries])

    def _rank(
        self,
        query: str,
        k: int,
        rows: Rows | None,
        mask: NDArray[np.bool_] | None,
        read: QueryVectors | QueryWords | None,
    ) -> _Ranked:
        core, k = self._core, max(k, 0)
        query = query[:MAX_QUERY]
        match = core.matcher.match(core.engine.caches.analyzer.asked(query, core.matcher.lithuanian), mask)
        lexical, cover = match.lexical, match.cover
        cosine = None
        vectors = read.weighed(core.matcher.weights(match)) if isinstance(read, QueryWords) else read
        if core.dense is not None and vectors is not None:
            cosine = nearest_part(core.dense.vectors, vectors.parts)
        if rows is not None:
            lexical, cover = lexical[rows], cover[rows]
            cosine = None if cosine is None else cosine[rows]
        top, scores, gate = self._order(match, lexical, cover, cosine, vectors, rows, k)
        named = core.by_name.named(query)
        if mask is not None:
            named = {row: rank for row, rank in named.items() if mask[row]}
        if named:
            rows_named = list(named)
            places = rows_named if rows is None else np.searchsorted(rows, rows_named).tolist()
            top, scores = _named_first(top, scores, places, list(named.values()))
        top, scores = top[:k], scores[:k]
        found = top if rows is None else rows[top].tolist()
        return _Ranked(found, scores, named, top, lexical, cosine, gate, match)

    def _order(
        self,
        match: Match,
        lexical: Floats,
        cover: Floats,
        cosine: Floats | None,
        vectors: QueryVectors | None,
        rows: Rows | None,
        k: int,
    ) -> tuple[list[int], list[float], float]:
        """Positions in ``rows``, best first and at least ``k`` if so many match; their scores; the gate."""
        settings = self._core.engine.settings
        if cosine is None or vectors is None:
            top = best(lexical, k)
            top = top[lexical[top] > 0]
            return top.tolist(), lexical[top].tolist(), 1.0
        by_words, word_scale = centred(lexical)
        gate = lexical_weight(match, by_words, word_scale, cover, settings.lexical_weight)
        if settings.fusion == "rrf":
            fused = reciprocal_rank(lexical, cosine, gate)
            top = candidates(fused, max(CANDIDATES, 2 * k))
            scores = fused[top]
        else:
            nearness, scale = centred(cosine)
            fused = nearness * ((1 - gate) * scale)
            if gate > 0:
                by_words *= gate * word_scale
                fused += by_words
            top = candidates(fused, max(CANDIDATES, 2 * k))
            scores = fused[top]
            words = self._core.dense.words if self._core.dense is not None else None
            if words is not None:
                share = wordwise_share(gate, known_gate(match))
                likeness = words.likeness(vectors, top if rows is None else rows[top])
                scores = refined(scores, nearness[top] * scale, likeness, share)
        keep = worth_showing(lexical, cosine, top)
        # Candidates are in catalogue order, which decides between equal scores.
        ranked = zip((-scores).tolist(), top.tolist(), strict=True)
        order = sorted(ranked if keep is None else compress(ranked, keep))
        return [row for _, row in order], [-score for score, _ in order], gate

    def _hits(self, ranked: _Ranked) -> list[Hit]:
        tools = self._core.catalogue.tools
        return [
            Hit(tools[row], score, ranked.named.get(row, 2) < 2)
            for row, score in zip(ranked.rows, ranked.scores, strict=True)
        ]

    def _explain(self, ranked: _Ranked, place: int, hit: Hit) -> Explained:
        core, row, at = self._core, ranked.rows[place], ranked.places[place]
        words = core.matcher.words_of(ranked.match, row)
        named = Named(hit.tool, *split_name(hit.tool.name, core.separator))
        document = core.engine.prepare(Readings([named]))[0].fields
        fields = core.matcher.by_field(words, document)
        cosine = None if ranked.cosine is None else float(ranked.cosine[at])
        shown = tuple((asked, word) for asked, word, _ in words)
        by_field = dict(zip(FIELDS, fields, strict=True))
        return Explained(place + 1, hit, float(ranked.lexical[at]), by_field, shown, cosine, ranked.gate)


def _named_first(
    top: list[int], scores: list[float], named: list[int], ranks: list[int]
) -> tuple[list[int], list[float]]:
    """Tools that the query names before the others; the better-named first, then the better-ranked."""
    score_of = dict(zip(top, scores, strict=True))
    place = {row: i for i, row in enumerate(top)}
    first = sorted((rank, place.get(row, len(top)), row) for row, rank in zip(named, ranks, strict=True))
    lowest = scores[-1] if scores else 0.0
    front = {row: score_of.get(row, lowest) for _, _, row in first}
    both = front | {row: score for row, score in score_of.items() if row not in front}
    return list(both), list(both.values())
