"""Unigram tokenizers of Hugging Face ``tokenizers``: the same ids at a quarter of the memory.

Text is normalised, cut into words and looked up by ``Pieces``.  Words repeat, so their ids are kept.
"""

from __future__ import annotations

import re
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
from extproc.embedders.pieces import MARK, Pieces

_CACHED_WORDS = 40_000
_CACHED_WORD_LENGTH = 32
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
        pieces: Pieces,
        normalise: Normaliser,
        mark_first: bool,
        added: Mapping[str, int],
        by_chunk: bool = False,
    ) -> None:
        self.unknown = pieces.unknown
        self.size = pieces.size
        self.median_length = pieces.median_length
        self._pieces = pieces.ids
        self._normalise = normalise
        self._mark_first = mark_first
        self._added = dict(added)
        self._added_pattern = (
            re.compile("|".join(re.escape(t) for t in sorted(added, key=len, reverse=True)))
            if added
            else None
        )
        # ``by_chunk``: text may be normalised chunk by chunk (``splits_at_space``), and chunks repeat.
        self._by_chunk = by_chunk and mark_first and self._added_pattern is None
        self._chunks: dict[bytes, tuple[int, ...]] = {}
        self._words: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``, unknown pieces included, no special tokens added."""
        if self._by_chunk and MARK not in text:
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
        if len(chunks) == 1:
            ids = list(known.get(chunks[0]) or self._chunk(chunks[0]))
        else:
            try:
                ids = list(chain.from_iterable(map(known.__getitem__, chunks)))
            except KeyError:
                ids = []
                for chunk in chunks:
                    ids += known.get(chunk) or self._chunk(chunk)
        # A separator at the end is a word mark with nothing after it.
        last = text[-1:]
        if last in _SEPARATORS or (not last.isascii() and self._normalise(last).endswith(" ")):
            ids += self._pieces(MARK)
        return ids

    def _chunk(self, encoded: bytes) -> tuple[int, ...]:
        chunk = encoded.decode("utf-8", "surrogatepass")
        if chunk.isascii() and not _CHANGES(chunk):
            ids = self._pieces(MARK + chunk)
        else:
            words = self._normalise(chunk).split(" ")
            ids = tuple(chain.from_iterable(self._pieces(MARK + word) for word in words if word))
        if len(chunk) <= _CACHED_WORD_LENGTH:
            if len(self._chunks) >= _CACHED_WORDS:
                self._chunks = {}
            self._chunks[encoded] = ids
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        text = self._normalise(text).replace(" ", MARK)
        if not text:
            return []
        words = text.split(MARK)
        ids: list[int] = []
        first = words[0]
        if first:
            ids += self._word(first) if self._mark_first else self._pieces(first)
        known = self._words
        for word in words[1:]:
            ids += known.get(word) or self._word(word)
        return ids

    def _word(self, word: str) -> tuple[int, ...]:
        """Ids of one word that is given without its mark."""
        ids = self._words.get(word) or self._pieces(MARK + word)
        if len(word) <= _CACHED_WORD_LENGTH:
            if len(self._words) >= _CACHED_WORDS:
                self._words = {}
            self._words[word] = ids
        return ids


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
    normalise = compile_normaliser(outer.normalizer)
    mark_first = _mark_first(outer.pre_tokenizer)
    added = _added_tokens(outer.added_tokens, model.vocab)
    try:
        pieces = Pieces(model.vocab, model.unk_id)
    except ValueError as error:
        raise UnsupportedTokenizer(str(error)) from error
    return UnigramTokenizer(pieces, normalise, mark_first, added, splits_at_space(outer.normalizer))


def _mark_first(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Whether the first word of a text gets a word mark too."""
    if not pre_tokenizer or pre_tokenizer.get("type") != "Metaspace":
        raise UnsupportedTokenizer(f"pre-tokenizer {(pre_tokenizer or {}).get('type', 'none')}")
    if pre_tokenizer.get("replacement") != MARK or not pre_tokenizer.get("split", True):
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
