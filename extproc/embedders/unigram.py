"""Unigram tokenizer without a trie: the same ids as Hugging Face ``tokenizers`` at a sixth of the memory.

A piece is looked up by slicing the word and asking a dictionary; the longest piece known for each first
character bounds the slices.  Words repeat, so their ids are kept.  The best segmentation is the Viterbi
path over piece log-probabilities (Kudo 2018, arXiv:1804.10959).
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec

from extproc.embedders.normalise import (
    Normaliser,
    UnsupportedTokenizer,
    compile_normaliser,
    splits_at_space,
)

# What an unknown character costs below the worst piece; sentencepiece's constant.
_UNKNOWN_PENALTY = 10.0
_CACHED_WORDS = 40_000
_CACHED_WORD_LENGTH = 32
_MARK = "\u2581"
# What the steps of ``splits_at_space`` change in ASCII.
_CHANGES = re.compile(r"[A-Z_\-./:]").search
_SEPARATORS = frozenset("_-./: \t\n\v\f\r")


class _Tokenizer(msgspec.Struct, gc=False):
    model: msgspec.Raw
    normalizer: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None
    added_tokens: list[dict[str, Any]] = []
    truncation: dict[str, Any] | None = None


class _Kind(msgspec.Struct, gc=False):
    type: str | None = None


class _Unigram(msgspec.Struct, gc=False):
    vocab: list[tuple[str, float]]
    unk_id: int | None = None
    byte_fallback: bool = False


class UnigramTokenizer:
    """Text to piece ids.  Safe to call from any thread: the word cache is only ever added to or replaced."""

    def __init__(
        self,
        vocabulary: list[tuple[str, float]],
        unknown: int,
        normalise: Normaliser,
        mark_first: bool,
        added: Mapping[str, int],
        by_chunk: bool = False,
    ) -> None:
        self.unknown = unknown
        self.size = len(vocabulary)
        self.median_length = _median([len(piece) for piece, _ in vocabulary])
        self._ids = {piece: i for i, (piece, _) in enumerate(vocabulary)}
        # Side by side: a word looks at some forty of them, which as objects lie anywhere.
        self._scores = array("d", [score for _, score in vocabulary])
        self._unknown_score = min(self._scores, default=0.0) - _UNKNOWN_PENALTY
        # By first character: the longest piece, the best score, and what the character is by itself.
        self._nothing = (1, self._unknown_score, unknown, self._unknown_score)
        limits: dict[str, tuple[int, float, int, float]] = {}
        for piece, i in self._ids.items():
            if not piece:
                continue
            score = self._scores[i]
            length, highest, alone, alone_score = limits.get(piece[0], self._nothing)
            if len(piece) == 1:
                alone, alone_score = i, score
            if len(piece) > length or score > highest or len(piece) == 1:
                limits[piece[0]] = max(length, len(piece)), max(highest, score), alone, alone_score
        self._limits = limits
        # With scores above 0 a path may get better by getting longer.
        self._bounded = max(self._scores, default=0.0) <= 0
        self._normalise = normalise
        self._mark_first = mark_first
        self._added = dict(added)
        self._added_pattern = (
            re.compile("|".join(re.escape(t) for t in sorted(added, key=len, reverse=True)))
            if added
            else None
        )
        self._words: dict[str, tuple[int, ...]] = {}
        # ``by_chunk``: text may be normalised chunk by chunk (``splits_at_space``), and chunks repeat too.
        self._by_chunk = by_chunk and mark_first and self._added_pattern is None
        self._chunks: dict[bytes, tuple[int, ...]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``, unknown pieces included, no special tokens added."""
        if self._by_chunk and _MARK not in text:
            return self._encode_chunks(text)
        if self._added_pattern is None or not self._added_pattern.search(text):
            return self._encode_plain(text)
        ids: list[int] = []
        position = 0
        for match in self._added_pattern.finditer(text):
            ids += self._encode_plain(text[position : match.start()])
            ids.append(self._added[match[0]])
            position = match.end()
        return ids + self._encode_plain(text[position:])

    def _encode_chunks(self, text: str) -> list[int]:
        # Bytes are split at ASCII white space alone.
        chunks = text.encode("utf-8", "surrogatepass").split()
        known = self._chunks
        try:
            ids = list(chain.from_iterable(map(known.__getitem__, chunks)))
        except KeyError:
            ids = []
            for chunk in chunks:
                ids += known.get(chunk) or self._chunk(chunk)
        # A separator at the end is a word mark with nothing after it.
        last = text[-1:]
        if last in _SEPARATORS or (not last.isascii() and self._normalise(last).endswith(" ")):
            ids += self._word(_MARK)
        return ids

    def _chunk(self, encoded: bytes) -> tuple[int, ...]:
        chunk = encoded.decode("utf-8", "surrogatepass")
        words = self._normalise(chunk).split(" ") if not chunk.isascii() or _CHANGES(chunk) else [chunk]
        ids = tuple(chain.from_iterable(self._word(_MARK + word) for word in words if word))
        if len(chunk) <= _CACHED_WORD_LENGTH:
            if len(self._chunks) >= _CACHED_WORDS:
                self._chunks = {}
            self._chunks[encoded] = ids
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        text = self._normalise(text).replace(" ", _MARK)
        if not text:
            return []
        words = text.split(_MARK)
        ids: list[int] = []
        first = words[0]
        if first:
            ids += self._word(_MARK + first if self._mark_first else first)
        known = self._words
        for word in words[1:]:
            ids += known.get(word) or self._word(_MARK + word)
        return ids

    def _word(self, word: str) -> tuple[int, ...]:
        """Ids of one word, its mark included.  Kept under the word without its mark."""
        if word[0] != _MARK:
            return self._best_path(word)
        key = word[1:]
        ids = self._words.get(key)
        if ids is None:
            ids = self._best_path(word)
            if len(key) <= _CACHED_WORD_LENGTH:
                if len(self._words) >= _CACHED_WORDS:
                    self._words = {}
                self._words[key] = ids
        return ids

    def _best_path(self, word: str) -> tuple[int, ...]:
        find, scores, limits, nothing = self._ids.get, self._scores, self._limits.get, self._nothing
        unknown = self.unknown
        size = len(word)
        best = [-math.inf] * (size + 1)
        best[0] = 0.0
        origin = [0] * (size + 1)
        piece_at = [unknown] * (size + 1)
        # Branch and bound: the whole word as one piece is a path, and no worse one need be followed.
        whole = find(word) if self._bounded else None
        reach = -math.inf if whole is None else scores[whole]
        for start, first in enumerate(word):
            longest, highest, piece, score = limits(first, nothing)
            here = best[start]
            if here + highest < reach:
                continue
            score += here
            end = start + 1
            if score > best[end]:
                best[end], origin[end], piece_at[end] = score, start, piece
            last = start + longest
            for end in range(start + 2, (last if last < size else size) + 1):
                found = find(word[start:end])
                if found is not None:
                    score = scores[found] + here
                    if score > best[end]:
                        best[end], origin[end], piece_at[end] = score, start, found
        path: list[int] = []
        end = size
        while end > 0:
            piece = piece_at[end]
            # Neighbouring unknown characters count as one unknown piece.
            if piece != unknown or not path or path[-1] != unknown:
                path.append(piece)
            end = origin[end]
        path.reverse()
        return tuple(path)


def load_tokenizer(data: bytes) -> UnigramTokenizer:
    """Read a ``tokenizer.json``.

    Raises ``UnsupportedTokenizer`` for anything that would not be reproduced exactly (another model type,
    another pre-tokenizer) and ``ValueError`` for a file that is not a tokenizer.
    """
    try:
        outer = msgspec.json.decode(data, type=_Tokenizer)
        kind = msgspec.json.decode(outer.model, type=_Kind).type
        if kind not in (None, "Unigram"):
            raise UnsupportedTokenizer(f"model {kind}")
        model = msgspec.json.decode(outer.model, type=_Unigram)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a tokenizer.json: {error}") from error
    if model.unk_id is None or not 0 <= model.unk_id < len(model.vocab):
        raise UnsupportedTokenizer("model Unigram without an unknown piece")
    if model.byte_fallback:
        raise UnsupportedTokenizer("model Unigram with byte fallback")
    return UnigramTokenizer(
        model.vocab,
        model.unk_id,
        compile_normaliser(outer.normalizer),
        _mark_first(outer.pre_tokenizer),
        _added_tokens(outer.added_tokens, model.vocab),
        splits_at_space(outer.normalizer),
    )


def _mark_first(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Whether the first word of a text gets a word mark too."""
    if not pre_tokenizer or pre_tokenizer.get("type") != "Metaspace":
        raise UnsupportedTokenizer(f"pre-tokenizer {(pre_tokenizer or {}).get('type', 'none')}")
    if pre_tokenizer.get("replacement") != _MARK or not pre_tokenizer.get("split", True):
        raise UnsupportedTokenizer("pre-tokenizer Metaspace that does not split at the word mark")
    scheme = pre_tokenizer.get("prepend_scheme", "always")
    if scheme not in ("always", "never"):
        raise UnsupportedTokenizer(f"pre-tokenizer Metaspace with the scheme {scheme}")
    return bool(scheme == "always")


def _added_tokens(tokens: list[dict[str, Any]], vocabulary: list[tuple[str, float]]) -> dict[str, int]:
    out: dict[str, int] = {}
    for token in tokens:
        plain = not any(token.get(flag) for flag in ("single_word", "lstrip", "rstrip", "normalized"))
        if not plain or not token.get("content") or not 0 <= token.get("id", -1) < len(vocabulary):
            raise UnsupportedTokenizer(f"added token {token.get('content')!r}")
        out[token["content"]] = token["id"]
    return out


def _median(values: list[int]) -> int:
    """As numpy's median rounded down, which is what model2vec cuts by."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return 0
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
