"""The words of one query against one catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extproc.search.lexical import Floats, Lexical, Weights, name_shares
from extproc.search.near import SHORTEST, Near
from extproc.search.words import Asked

ALIKE = 0.6
"""Likeness from which an unknown word may stand for a known one."""
CLOSE = 0.7
"""Likeness from which it counts as known in the gate."""
NAME_BOOST = 0.3
LEAST_IMPORTANT = 0.2
"""Weight of a word that every tool has."""
_MOST_NEAR = 32
_MEMO = 4096

Mask = NDArray[np.bool_]


class Found(NamedTuple):
    """A query word and what it stood for: (term, likeness), likeness 1 for the word itself."""

    asked: Asked
    terms: tuple[tuple[int, float], ...]


class Match(NamedTuple):
    """``lexical``: one score for each tool.  ``known``: share of the query's words that the catalogue knows,
    numbers aside.  ``cover``: the share of each tool's name that the query mentions."""

    lexical: Floats
    known: float
    cover: Floats
    found: tuple[Found, ...]


class Matcher:
    """Words, look-alikes and name shares of one catalogue; immutable but for a bounded memo."""

    def __init__(self, documents: Sequence[Sequence[Sequence[str]]]) -> None:
        self.lexical = Lexical(documents)
        self.shares = name_shares([document[0] for document in documents], self.lexical.vocabulary)
        self._share_rows = self.shares.rows + np.int32(self.lexical.size)
        # Slices by Python numbers cost half of those by numpy ones.
        self._starts: list[int] = self.lexical.postings.start.tolist()
        self._share_starts: list[int] = self.shares.start.tolist()
        self.near = Near(self.lexical.vocabulary)
        self.lithuanian = any(word.startswith("~") for word in self.lexical.vocabulary)
        share = self.lexical.idf / math.log(1 + max(self.lexical.size, 1))
        self._importance = np.sqrt(np.clip(share, LEAST_IMPORTANT**2, 1)).astype(np.float32)
        self._memo: dict[str, tuple[tuple[int, float], ...]] = {}

    def match(self, asked: Sequence[Asked], mask: Mask | None = None) -> Match:
        """Scores over the whole catalogue; with ``mask`` only words of the tools it selects are known."""
        found = self._find(asked, mask)
        terms = [pair for each in found for pair in each.terms]
        score, cover = self._sums(terms)
        # Different words of a name add up to 1 at most.
        if len({term for term, _ in terms}) < len(terms):
            np.minimum(cover, 1, out=cover)
        score *= 1 + NAME_BOOST * cover
        known, total = 0.0, 0
        whole = {each.asked.text for each in found if each.terms}
        for each in found:
            if each.asked.text.isdigit():
                continue
            total += 1
            if each.asked.whole in whole:
                known += 1
            elif each.terms and each.terms[0][1] >= CLOSE:
                known += each.terms[0][1]
        return Match(score, known / max(total, 1), cover, tuple(found))

    def _sums(self, terms: Sequence[tuple[int, float]]) -> tuple[Floats, Floats]:
        """Scores and shares of names, added up over ``terms`` in one pass."""
        size = self.lexical.size
        postings, shares = self.lexical.postings, self.shares
        starts, share_starts, all_rows = self._starts, self._share_starts, self._share_rows
        rows: list[NDArray[np.int32]] = []
        values: list[Floats] = []
        for term, likeness in terms:
            a, b = starts[term], starts[term + 1]
            rows.append(postings.rows[a:b])
            values.append(postings.values[a:b] if likeness == 1 else likeness * postings.values[a:b])
            a, b = share_starts[term], share_starts[term + 1]
            if b > a:
                rows.append(all_rows[a:b])
                values.append(shares.values[a:b] if likeness == 1 else likeness * shares.values[a:b])
        if not rows:
            return np.zeros(size, np.float32), np.zeros(size, np.float32)
        # Joined in the types that bincount would make of them.
        at = np.concatenate(rows, dtype=np.intp)
        both = np.bincount(at, np.concatenate(values, dtype=np.float64), 2 * size).astype(np.float32)
        return both[:size], both[size:]

    def _find(self, asked: Sequence[Asked], mask: Mask | None) -> list[Found]:
        vocabulary = self.lexical.vocabulary
        found: list[Found] = []
        wholes = dict.fromkeys(word.whole for word in asked if word.whole)
        known_wholes = set()
        for whole in wholes:
            term = vocabulary.get(whole)
            if term is not None and self._alive(term, mask):
                known_wholes.add(whole)
                found.append(Found(Asked(whole, (whole,), near=False), ((term, 1.0),)))
        looked = 0
        for word in asked:
            if word.text in known_wholes:
                continue
            terms: tuple[tuple[int, float], ...] = ()
            for form in word.forms:
                term = vocabulary.get(form)
                if term is not None and self._alive(term, mask):
                    terms = ((term, 1.0),)
                    break
            if not terms and word.near and word.whole not in known_wholes and looked < _MOST_NEAR:
                looked += 1
                stem = word.forms[0]
                terms = self._look(stem if len(stem) >= SHORTEST else word.text, mask)
            found.append(Found(word, terms))
        return found

    def _look(self, word: str, mask: Mask | None) -> tuple[tuple[int, float], ...]:
        if mask is not None:
            return self.near.find(word, ALIKE, lambda term: self._alive(term, mask))
        known = self._memo.get(word)
        if known is None:
            known = self.near.find(word, ALIKE, lambda _: True)
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            self._memo[word] = known
        return known

    def _alive(self, term: int, mask: Mask | None) -> bool:
        return mask is None or bool(mask[self.lexical.postings.column(term)[0]].any())

    def weights(self, match: Match) -> dict[str, float]:
        """How much each query word tells tools apart, from 0 to about 1; words of no tool are left out.

        The root of its idf as a share of the highest that is possible in this catalogue.
        """
        importance = self._importance
        return {
            each.asked.text: float(importance[each.terms[0][0]])
            for each in match.found
            if each.terms and each.terms[0][1] == 1
        }

    def words_of(self, match: Match, row: int) -> list[tuple[str, str, float]]:
        """(query word, matched word, its weight) for one tool."""
        out = []
        for found in match.found:
            for term, likeness in found.terms:
                rows, impact = self.lexical.postings.column(term)
                at = int(np.searchsorted(rows, row))
                if at < len(rows) and rows[at] == row:
                    out.append((found.asked.text, self._word(term), likeness * float(impact[at])))
        return out

    def by_field(
        self, words: Sequence[tuple[str, str, float]], document: Sequence[Sequence[str]]
    ) -> list[float]:
        """The weight of the matched words, shared out over the fields that have them."""
        out = [0.0] * len(document)
        for _, word, weight in words:
            parts = [
                share * field.count(word) for share, field in zip(Weights().field, document, strict=True)
            ]
            total = sum(parts) or 1.0
            out = [have + weight * part / total for have, part in zip(out, parts, strict=True)]
        return out

    def _word(self, term: int) -> str:
        return next(word for word, number in self.lexical.vocabulary.items() if number == term)

    @property
    def nbytes(self) -> int:
        return self.lexical.nbytes + self.shares.nbytes + self.near.nbytes
