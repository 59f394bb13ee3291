"""Words of the catalogue that look like an unknown word of a query: typos and inflections.

Likeness is the Dice coefficient over character pairs, the ends of the word included (Dice 1945; Kondrak 2005
for words): 1 for equal words, 0 for words without a common pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

SHORTEST = 4
"""Characters a word must have: shorter words look like too many others."""
_BUCKETS = 1 << 16


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
        self._owner = owner.astype(np.int32)
        self._start = np.searchsorted(bucket, np.arange(_BUCKETS + 1)).astype(np.int32)
        self._count = np.bincount(owner, minlength=len(chosen)).astype(np.float32)

    def find(
        self, word: str, alike: float, accept: Callable[[int], bool], most: int = 3
    ) -> tuple[tuple[int, float], ...]:
        """At most ``most`` (term, likeness) with likeness of at least ``alike``, best first.

        Only the best and those within 0.1 of it are given.  ``accept`` says whether a term may be used.
        """
        if len(word) < SHORTEST or not self._words:
            return ()
        buckets = set(_pairs([word]).tolist())
        owners = np.concatenate([self._owner[self._start[b] : self._start[b + 1]] for b in buckets])
        shared = np.bincount(owners, minlength=len(self._words))
        likeness = 2 * shared / (self._count + len(buckets))
        candidates = (likeness >= alike).nonzero()[0]
        order = candidates[np.argsort(-likeness[candidates], kind="stable")]
        found: list[tuple[int, float]] = []
        for i in order.tolist():
            if found and (len(found) >= most or likeness[i] < found[0][1] - 0.1):
                break
            if accept(self._terms[i]):
                found.append((self._terms[i], float(likeness[i])))
        return tuple(found)

    @property
    def nbytes(self) -> int:
        return self._owner.nbytes + self._start.nbytes + self._count.nbytes + 16 * len(self._words)


def _pairs(words: Sequence[str]) -> NDArray[np.int64]:
    """Bucket of each pair of neighbours; a line feed stands for both ends of a word."""
    text = "\n" + "".join(f"{word}\n" for word in words)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    return np.asarray(((points[:-1] << 8) ^ points[1:]) & (_BUCKETS - 1))
