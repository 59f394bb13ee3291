"""Words of tool definitions and of queries: the tokens the lexical ranking counts.

An identifier is split at snake, camel, dash, dot and digits and also kept whole; every word is lower case;
a word with diacritics is known by its folded form too; English and Lithuanian words are stemmed (Snowball);
scripts written without spaces become character bigrams.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from typing import Any, NamedTuple

import snowballstemmer

from extproc.search.stopwords import ENGLISH, FOREIGN

MAX_WORD = 48
"""Characters of one word that count: what is longer is data, not language."""
_MEMO = 1 << 17

# Python's \w leaves out combining marks, which would cut Indic, Thai and Khmer words at their vowels.
LETTER = r"\w\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e00-\u0eff\u0f71-\u0fbc\u1000-\u109f\u1780-\u17d3"
_CHUNK = re.compile(rf"[{LETTER}]+(?:[-.][{LETTER}]+)*")
_NO_SPACES = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17d3\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003134f"
)
_RUN = re.compile(
    rf"[{_NO_SPACES}]+|[0-9]+|[^\W0-9{_NO_SPACES}_]+(?:[^\w{_NO_SPACES}.\-]+[^\W0-9{_NO_SPACES}_]*)*"
)
_BARE = re.compile(rf"[{_NO_SPACES}]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INNER_CAPITAL = re.compile("[a-zA-Z0-9][A-Z]")
_SEPARATOR = re.compile(r"[_\-./:]+")
_AROUND = ",.;:!?()[]{}<>\"'`/-"
_LITHUANIAN = re.compile("[ėįųūĖĮŲŪ]")
_FOLD = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "þ": "th"}
)


def clean(text: str) -> str:
    """Text that every encoder accepts: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def fold(word: str) -> str:
    """``word`` without diacritics: ``paieška`` becomes ``paieska``."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFKD", word.translate(_FOLD))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def split_identifier(text: str) -> str:
    """Identifiers as words: ``getUserByID_v2`` becomes ``get User By ID v2``."""
    if _INNER_CAPITAL.search(text):
        text = _CAMEL.sub(" ", text)
    return _SEPARATOR.sub(" ", text).strip()


class Asked(NamedTuple):
    """One word of a query.

    ``forms``: what it may be called in the index, best first.  ``whole``: the identifier it is a part of, or
    empty.  ``near`` is true when an unknown word may stand for one that looks like it.
    """

    text: str
    forms: tuple[str, ...]
    whole: str = ""
    near: bool = True


class Analyzer:
    """Text to tokens, with a bounded memo of words already seen.  Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._english = _stemmer("english")
        self._lithuanian = _stemmer("lithuanian")
        self._plain: dict[str, tuple[str, ...]] = {}
        self._stems: dict[tuple[str, bool], tuple[str, ...]] = {}
        self._asked: dict[tuple[str, bool], tuple[Asked, ...]] = {}
        self._with_lithuanian: dict[str, tuple[str, ...]] = {}

    def tokens(self, text: str, lithuanian: bool | None = None) -> list[str]:
        """Tokens of a document in order, duplicates kept.

        ``lithuanian``: whether Lithuanian stems are added; None looks for the letters of that language.
        """
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
            if lithuanian is None:
                lithuanian = bool(_LITHUANIAN.search(text))
        memo = self._with_lithuanian if lithuanian else self._plain
        out: list[str] = []
        # No token spans white space, and what stands between two spaces repeats.
        for span in text.split():
            found = memo.get(span)
            if found is None:
                found = self._learn(memo, span, bool(lithuanian))
            out += found
        return out

    def looks_lithuanian(self, text: str) -> bool:
        return not text.isascii() and bool(_LITHUANIAN.search(text))

    def asked(self, query: str, lithuanian: bool = True, limit: int = 256) -> list[Asked]:
        """The first ``limit`` different words of a query; ``lithuanian``: with the stems of that language."""
        out: dict[str, Asked] = {}
        memo = self._asked
        if not query.isascii():
            query = unicodedata.normalize("NFKC", query)
        for span in query.split():
            found = memo.get((span, lithuanian))
            for word in self._asked_span(span, lithuanian) if found is None else found:
                out.setdefault(word.text, word)
            if len(out) >= limit:
                break
        return list(out.values())[:limit]

    def _asked_span(self, span: str, lithuanian: bool) -> tuple[Asked, ...]:
        keep = len(span) <= MAX_WORD
        if keep and span.isascii() and span.isalpha() and span.islower():
            # Most words: nothing to split and nothing to fold.
            found: tuple[Asked, ...] = ()
            if span not in ENGLISH:
                near = len(span) > 3 and span not in FOREIGN
                found = (Asked(span, self._forms(span, lithuanian, keep), "", near),)
        else:
            words: list[Asked] = []
            for chunk in _CHUNK.findall(span):
                parts = _parts(chunk)
                whole = _whole(parts)
                for part in parts:
                    words += self._asked_part(part, whole, lithuanian, keep)
            found = tuple(words)
        # Only words of ordinary length are remembered, and nothing of the query they came from.
        if keep:
            if len(self._asked) >= _MEMO // 8:
                self._asked.clear()
            self._asked[span, lithuanian] = found
        return found

    def _asked_part(self, part: str, whole: str, lithuanian: bool, keep: bool) -> list[Asked]:
        if part in ENGLISH:
            return []
        if not part.isascii() and _BARE.match(part):
            return [Asked(pair, (pair,), whole, near=False) for pair in _pairs(part)]
        folded = fold(part)
        forms = self._forms(part, lithuanian, keep)
        near = len(part) > 3 and not part.isdigit() and part not in FOREIGN and folded not in FOREIGN
        return [Asked(part, forms, whole, near)]

    def _learn(self, memo: dict[str, tuple[str, ...]], span: str, lithuanian: bool) -> tuple[str, ...]:
        out: list[str] = []
        keep = len(span) <= MAX_WORD
        # No chunk begins or ends with one of these, and a word occurs with several of them.
        bare = span.strip(_AROUND)
        chunks: list[str] = []
        if bare != span and (known := memo.get(bare)) is not None:
            out += known
        else:
            chunks = [bare] if bare.isascii() and bare.isalpha() else _CHUNK.findall(bare)
        for chunk in chunks:
            parts = _parts(chunk)
            for part in parts:
                if not part.isascii() and _BARE.match(part):
                    out += _pairs(part)
                elif part not in ENGLISH:
                    out += self._forms(part, lithuanian, keep)
            whole = _whole(parts)
            if whole:
                out.append(whole)
        found = tuple(out)
        if keep:
            if len(memo) >= _MEMO:
                memo.clear()
            memo[span] = found
        return found

    def _forms(self, part: str, lithuanian: bool, keep: bool) -> tuple[str, ...]:
        found = self._stems.get((part, lithuanian))
        if found is None:
            folded = fold(part)
            alike = folded == part
            number = part.isdigit()
            with self._lock:
                stem = self._english.stemWord
                forms = [part if len(part) < 3 or number else stem(part)]
                if not alike:
                    forms.append(folded if len(folded) < 3 or folded.isdigit() else stem(folded))
                if lithuanian and len(part) > 3 and not number:
                    # The mark keeps Lithuanian stems apart from English ones that happen to be spelt alike.
                    stem = self._lithuanian.stemWord
                    first = stem(part)
                    forms.append("~" + fold(first))
                    forms.append("~" + (first if alike else stem(folded)))
            found = tuple(dict.fromkeys(forms)) if len(forms) > 1 else (forms[0],)
            if keep:
                if len(self._stems) >= _MEMO:
                    self._stems.clear()
                self._stems[part, lithuanian] = found
        return found


def _stemmer(language: str) -> Any:
    stemmer = snowballstemmer.stemmer(language)
    # PyStemmer's own memo takes longer than a stem, and ours comes before it.
    stemmer.maxCacheSize = 0
    return stemmer


def _parts(chunk: str) -> list[str]:
    """Lower-case words of one chunk, at most ``MAX_WORD`` characters each."""
    if chunk.isascii() and chunk.isalpha() and chunk[1:].islower():
        return [chunk[:MAX_WORD].lower()]
    return [run.lower()[:MAX_WORD] for piece in _CAMEL.sub(" ", chunk).split() for run in _RUN.findall(piece)]


def _whole(parts: list[str]) -> str:
    """The identifier as one word, or nothing when it has one part or is long enough to be data."""
    if len(parts) < 2:
        return ""
    whole = "".join(parts)
    return whole if len(whole) <= MAX_WORD and not whole.isdigit() and not _BARE.search(whole) else ""


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]
