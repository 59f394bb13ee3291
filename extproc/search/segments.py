"""Parts of texts that are embedded by themselves.

The vector of a long text is a mean in which a need named in passing is lost; the best part decides instead.
"""

from __future__ import annotations

import re

from extproc.search.stopwords import ENGLISH, FOREIGN
from extproc.search.words import split_identifier

MOST_SEGMENTS = 24
_WINDOW, _STEP = 12, 6
_SENTENCE = re.compile(r"[.;!?]+(?:\s+|$)|[。！？；\n]+")
_FIRST = re.compile(r"(?<=[.!?])\s|[。！？\n]")
_WORD = re.compile(r"[^\W_]+")


def segments(query: str) -> list[str]:
    """The query, its sentences, and overlapping windows of 12 words where it is longer than 18 words.

    A sentence counts from three words on; the whole query always comes first.
    """
    sentences = [s for part in _SENTENCE.split(query) if _says_enough(s := part.strip())]
    out = [query, *(sentences if len(sentences) > 1 else ())]
    words = query.split(None, _STEP * MOST_SEGMENTS + _WINDOW)[: _STEP * MOST_SEGMENTS + _WINDOW]
    if len(words) > 1.5 * _WINDOW:
        out += [" ".join(words[i : i + _WINDOW]) for i in range(0, len(words) - _WINDOW // 2, _STEP)]
    return list(dict.fromkeys(out))[:MOST_SEGMENTS]


def first_sentence(text: str, limit: int = 200) -> str:
    """Up to the end of the first sentence, at most ``limit`` characters."""
    return _FIRST.split(text.strip()[: 4 * limit], maxsplit=1)[0][:limit]


def content_words(text: str, most: int) -> tuple[str, ...]:
    """The first ``most`` different words, lower case, function words left out."""
    found = (word for word in _WORD.findall(split_identifier(text).lower()) if len(word) > 1)
    kept = dict.fromkeys(word[:48] for word in found if word not in ENGLISH and word not in FOREIGN)
    return tuple(kept)[:most]


def _says_enough(sentence: str) -> bool:
    return len(sentence.split(None, 3)) >= 3 or (not sentence.isascii() and len(sentence) > 6)
