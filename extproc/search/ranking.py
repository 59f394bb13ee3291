"""How much words count against vectors, and the order that follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from extproc.search.fusion import Floats, centred
from extproc.search.match import Match

KNOWN_ENOUGH = 0.7
"""Share of known query words from which words count fully: below it the query may be in another language."""
NAMED_ENOUGH = 0.3
"""Share of the best tool's name that the query mentions from which words count fully."""
UNNAMED = 0.2
"""What is left of the weight of words when the query mentions nothing of that name: a paraphrase."""
ORDINARY, OUTSTANDING = 4.0, 9.0
"""Deviations above the mean of the best tool by words: from the first on words are trusted without its name,
from the second on fully, if the catalogue has all words of the query."""
STRICTNESS = 6
"""Power of the share of known words in that trust: paraphrases have words that no tool has."""
WORDWISE, WORDWISE_FOREIGN = 0.1, 0.1
"""Part of the word-by-word score in the vector side, and what is added for a query of unknown words."""
CANDIDATES = 24
"""Tools that are compared word by word."""
NOISE = 0.22
"""Cosine that the best tool must reach when no tool has any word of the query, else nothing is found."""
NEAR_BEST = 0.4
"""Share of the best cosine that a tool without any word of the query must reach."""
_SPREAD = 1.5

Rows = NDArray[np.intp]


def known_gate(match: Match) -> float:
    """From 0, no query word is known, to 1."""
    return min(1.0, match.known / KNOWN_ENOUGH)


def lexical_weight(match: Match, distance: Floats, scale: float, cover: Floats, most: float) -> float:
    """The weight of words, at most ``most``: lower for unknown words and for paraphrases.

    ``distance`` and ``scale``: the scores by words as ``fusion.centred`` gives them.
    """
    if not len(distance):
        return most
    best = int(distance.argmax())
    trust = min(1.0, float(cover[best]) / NAMED_ENOUGH)
    if trust < 1:
        outstanding = (float(distance[best]) * scale - ORDINARY) / (OUTSTANDING - ORDINARY)
        trust = max(trust, min(1.0, outstanding) * match.known**STRICTNESS)
    return most * known_gate(match) * (UNNAMED + (1 - UNNAMED) * trust)


def refined(scores: Floats, cosine_z: Floats, likeness: Floats, share: float) -> Floats:
    """Fused z-scores of candidates, ``share`` of the vector side taken by word-by-word ``likeness``.

    Over candidates alone, which all lie above the mean, a deviation of one stands for more than over all
    tools: hence the spread.
    """
    distance, scale = centred(likeness)
    if not scale:
        return scores
    distance *= _SPREAD * scale
    distance -= cosine_z
    distance *= share
    distance += scores
    return distance


def wordwise_share(weight: float, known: float) -> float:
    """Part of the whole score that is the word-by-word one."""
    return (1 - weight) * (WORDWISE + WORDWISE_FOREIGN * (1 - known))


def worth_showing(lexical: Floats, cosine: Floats, top: Rows) -> list[bool] | None:
    """Which of the candidates ``top`` are found at all: those with a word of the query, or near enough to it.

    None for all of them.
    The bounds are low on purpose: nonsense and a need in another language overlap between 0.2 and 0.4.
    """
    by_words = lexical[top].tolist()
    if not by_words or min(by_words) > 0:
        return None
    best = max(float(np.maximum.reduce(cosine)), 0.0)
    if best < NOISE and max(by_words) <= 0:
        return [False] * len(by_words)
    enough = max(NEAR_BEST * best, 0.0)
    return [
        score > 0 or nearness > enough for score, nearness in zip(by_words, cosine[top].tolist(), strict=True)
    ]
