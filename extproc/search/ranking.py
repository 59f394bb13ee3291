"""How much words count against vectors, and the order that follows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from extproc.search.fusion import Floats, gated, reciprocal_rank, z_score
from extproc.search.match import Match

KNOWN_ENOUGH = 0.7
"""Share of known query words from which words count fully: below it the query is likely in another language."""
NAMED_ENOUGH = 0.3
"""Share of the best tool's name that the query mentions from which words count fully."""
UNNAMED = 0.2
"""What is left of the weight of words when the query mentions nothing of that name: a paraphrase."""
WORDWISE, WORDWISE_FOREIGN = 0.1, 0.2
"""Part of the word-by-word score in the vector side, and what is added for a query of unknown words."""
CANDIDATES = 64
"""Tools that are compared word by word."""
_SPREAD = 1.5

Rows = NDArray[np.intp]


def known_gate(match: Match) -> float:
    """From 0, no query word is known, to 1."""
    return min(1.0, match.known / KNOWN_ENOUGH)


def lexical_weight(match: Match, lexical: Floats, cover: Floats, most: float) -> float:
    """The weight of words, at most ``most``: lower for unknown words and for paraphrases."""
    if not len(lexical):
        return most
    named = min(1.0, float(cover[int(np.argmax(lexical))]) / NAMED_ENOUGH)
    return most * known_gate(match) * (UNNAMED + (1 - UNNAMED) * named)


def fuse(fusion: Literal["zscore", "rrf"], lexical: Floats, cosine: Floats, weight: float) -> Floats:
    """One score for each tool, higher is better."""
    return (reciprocal_rank if fusion == "rrf" else gated)(lexical, cosine, weight)


def refine(scores: Floats, cosine: Floats, likeness: Floats, top: Rows, share: float) -> Floats:
    """The tools ``top`` with ``share`` of the vector side taken by their word-by-word ``likeness``.

    ``scores`` are fused z-scores; the other tools drop out.  Over candidates alone, which all lie above the
    mean, a deviation of one stands for more than over all tools: hence the spread.
    """
    out = np.full_like(scores, -np.inf)
    out[top] = scores[top]
    deviation = float(likeness.std())
    if deviation > 1e-9:
        alike = (likeness - likeness.mean()) * (_SPREAD / deviation)
        out[top] += share * (alike - z_score(cosine)[top])
    return out


def wordwise_share(weight: float, known: float) -> float:
    """Part of the whole score that is the word-by-word one."""
    return (1 - weight) * (WORDWISE + WORDWISE_FOREIGN * (1 - known))
