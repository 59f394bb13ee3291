"""Parts of texts that are embedded by themselves.

The vector of a long text is a mean in which a need named in passing is lost; the best part decides instead.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from extproc.search.stopwords import FUNCTION_WORDS
from extproc.search.words import LETTER, split_identifier

MOST_SEGMENTS = 24
MOST_WORDS = 512
_WINDOW, _STEP = 12, 6
_LONGEST_KEPT = 48
_SENTENCE = re.compile(r"[.;!?]+(?:\s+|$)|[。！？；\n]+")
_STOPS = ".;!?"
_STOP = re.compile(r"[.;!?。！？；\n]")
_FIRST = re.compile(r"(?<=[.!?])\s|[。！？\n]")
_WORD = re.compile(rf"(?:(?!_)[{LETTER}])+")


class Reading(NamedTuple):
    """A query in words, lower case.  ``parts`` are ranges of them, the whole query first."""

    words: tuple[str, ...]
    parts: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, query: str) -> Reading:
        """The query, its sentences, and overlapping windows of 12 words where it is longer than 18 words.

        A sentence counts from three words on.
        """
        # Most queries are one short sentence.
        if not _STOP.search(query.rstrip(_STOPS)):
            words = words_of(query)
            if len(words) <= 1.5 * _WINDOW:
                return cls(tuple([word[:48] for word in words]), ((0, len(words)),))
        words = []
        sentences: list[tuple[int, int]] = []
        for sentence in _SENTENCE.split(query):
            start = len(words)
            words += words_of(sentence)
            if len(words) - start >= 3 or (not sentence.isascii() and len(sentence.strip()) > 6):
                sentences.append((start, len(words)))
            if len(words) >= MOST_WORDS:
                break
        size = min(len(words), MOST_WORDS)
        parts = [(0, size), *(sentences if len(sentences) > 1 else ())]
        if size > 1.5 * _WINDOW:
            parts += [(i, min(i + _WINDOW, size)) for i in range(0, size - _WINDOW // 2, _STEP)]
        bounded = ((start, min(end, size)) for start, end in parts if start < size or not start)
        return cls(tuple(word[:48] for word in words[:size]), tuple(dict.fromkeys(bounded))[:MOST_SEGMENTS])


def first_sentence(text: str, limit: int = 200) -> str:
    """Up to the end of the first sentence, at most ``limit`` characters."""
    return _FIRST.split(text.strip()[: 4 * limit], maxsplit=1)[0][:limit]


def content_words(text: str, most: int) -> tuple[str, ...]:
    """The first ``most`` different words, lower case, function words left out."""
    kept: dict[str, None] = {}
    for word in words_of(text):
        if len(word) > 1 and word not in FUNCTION_WORDS:
            kept[word[:48]] = None
            if len(kept) >= most:
                break
    return tuple(kept)


def words_of(text: str) -> list[str]:
    """All words in order, lower case, identifiers split."""
    # No word spans white space, and what stands between two spaces repeats.
    out: list[str] = []
    for span in text.split():
        out += _known_words(span) if len(span) <= _LONGEST_KEPT else _words(span)
    return out


def _words(span: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(split_identifier(span).lower()))


_known_words = lru_cache(1 << 15)(_words)
