"""Words of the catalogue that look like an unknown word of a query: typos and inflections.

Likeness is the Dice coefficient over character pairs, the ends of the word included (Dice 1945; Kondrak 2005
for words): 1 for equal words, 0 for words without a common pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import neg

import numpy as np
from numpy.typing import NDArray

SHORTEST = 4
"""Characters a word must have: shorter words look like too many others."""
_BUCKETS = 1 << 16
_ROUNDING = 1e-6


class Near:
    """Finds words by their character pairs.  ``words`` maps each candidate to its term number."""

    def __init__(self, words: dict[str, int]) -> None:
        chosen = [(word, term) for word, term in words.items() if len(word) >= SHORTEST and word.isalpha()]
        self._words = [word for word, _ in chosen]
        self._terms = [term for _, term in chosen]
        lengths = np.fromiter(map(len, self._words), np.int64, len(chosen)) + 1
        owner = np.repeat(np.arange(len(chosen)), lengths)
        key = np.unique(_pairs(self._words) * max(len(chosen), 1) + owner)
        bucket, owner = np.divmod(key, max(len(chosen), 1))
        owner = owner.astype(np.int32)
        start = np.flatnonzero(np.diff(bucket, prepend=-1))
        ends = [*start[1:].tolist(), len(owner)]
        pairs = zip(bucket[start].tolist(), start.tolist(), ends, strict=False)
        self._owners = {pair: owner[a:b] for pair, a, b in pairs}
        self._count = np.bincount(owner, minlength=len(chosen)).astype(np.float64)
        self._halves = 1.0, self._count / 2

    def find(
        self, word: str, alike: float, accept: Callable[[int], bool], most: int = 3
    ) -> tuple[tuple[int, float], ...]:
        """At most ``most`` (term, likeness) with likeness of at least ``alike``, best first.

        Only the best and those within 0.1 of it are given.  ``accept`` says whether a term may be used.
        """
        if len(word) < SHORTEST or not self._words:
            return ()
        points = [10, *map(ord, word), 10]
        buckets = {((a << 8) ^ b) & (_BUCKETS - 1) for a, b in pairwise(points)}
        owners, size = self._owners, len(buckets)
        spans = [owners[bucket] for bucket in buckets if bucket in owners]
        if not spans:
            return ()
        shared = np.bincount(np.concatenate(spans, dtype=np.intp), minlength=len(self._words))
        # Likeness is 2 shared / (count + size); what rounding lets through is looked at again.
        last, halves = self._halves
        if last != alike:
            halves = self._count * (alike / 2)
            self._halves = alike, halves
        some = (shared - halves >= alike * size / 2 - _ROUNDING).nonzero()[0]
        if not len(some):
            return ()
        likeness = [
            2 * pairs / (count + size)
            for pairs, count in zip(shared[some].tolist(), self._count[some].tolist(), strict=True)
        ]
        found: list[tuple[int, float]] = []
        for unlikeness, place in sorted(zip(map(neg, likeness), some.tolist(), strict=True)):
            alikeness = -unlikeness
            if alikeness < alike or (found and (len(found) >= most or alikeness < found[0][1] - 0.1)):
                break
            term = self._terms[place]
            if accept(term):
                found.append((term, alikeness))
        return tuple(found)

    @property
    def nbytes(self) -> int:
        owners = sum(200 + owner.nbytes for owner in self._owners.values())
        return owners + 2 * self._count.nbytes + 16 * len(self._words)


def _pairs(words: Sequence[str]) -> NDArray[np.int64]:
    """Bucket of each pair of neighbours; a line feed stands for both ends of a word."""
    text = "\n" + "".join(f"{word}\n" for word in words)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    return np.asarray(((points[:-1] << 8) ^ points[1:]) & (_BUCKETS - 1))
