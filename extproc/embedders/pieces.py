"""The best pieces of a word, found by sentencepiece (C++) and with the ids of Hugging Face ``tokenizers``.

Both follow the Viterbi path over piece log-probabilities (Kudo 2018, arXiv:1804.10959) and prefer the longer
last piece where two paths are equal, but sentencepiece adds in single precision.  What that can change is
worked out again in double precision: see ``Pieces.ids``.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from itertools import chain

import numpy as np
import sentencepiece

# What an unknown character costs below the worst piece; sentencepiece's constant.
_UNKNOWN_PENALTY = 10.0
MARK = "\u2581"
"""Begins every word, or every word but the first."""
# A character three times, or two and more of them twice.
_REPEATS = re.compile(r"(.)\1\1|(..+)\2", re.DOTALL).search


class Pieces:
    """A Unigram vocabulary.  Safe to call from any thread.

    Raises ``ValueError`` for a vocabulary that sentencepiece does not take: one with a piece twice, or an
    empty one.
    """

    def __init__(self, vocabulary: Sequence[tuple[str, float]], unknown: int) -> None:
        lengths = [len(piece) for piece, _ in vocabulary]
        self.unknown = unknown
        self.size = len(vocabulary)
        self.median_length = _median(lengths)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(_model(vocabulary))
        except (RuntimeError, UnicodeEncodeError) as error:
            raise ValueError(f"vocabulary that sentencepiece does not take: {error}") from error
        self._encode = self._processor.encode
        self._find = self._processor.piece_to_id
        self._scores = array("d", [score for _, score in vocabulary])
        self._unknown_score = min(self._scores, default=0.0) - _UNKNOWN_PENALTY
        self._longest = max(lengths, default=1)

    def ids(self, word: str) -> tuple[int, ...]:
        """Ids of one word, its word mark included; neighbouring unknown characters count as one piece.

        Equal scores come from the same pieces in another order (``l ll`` and ``ll l``), which a word without
        repetition does not have and a word of two pieces, the first with the mark, neither.  Different pieces
        within 0.00001 of each other may be mistaken too; none were in a million words.
        """
        try:
            ids = self._encode(word)
        except UnicodeEncodeError:
            word = word.encode("utf-8", "replace").decode()
            ids = self._encode(word)
        if len(ids) > (2 if word[0] == MARK else 1) and _REPEATS(word):
            return tuple(self._exact(word))
        if self.size in ids:
            return tuple(self._joined(ids))
        return tuple(ids)

    def _joined(self, ids: Sequence[int]) -> list[int]:
        out: list[int] = []
        for i in ids:
            piece = self.unknown if i == self.size else i
            if piece != self.unknown or not out or out[-1] != piece:
                out.append(piece)
        return out

    def _exact(self, word: str) -> list[int]:
        find, scores, none, size = self._find, self._scores, self.size, len(word)
        best = [0.0] + [-math.inf] * size
        origin, piece_at = [0] * (size + 1), [none] * (size + 1)
        for start in range(size):
            here = best[start]
            for end in range(start + 1, min(start + self._longest, size) + 1):
                piece = find(word[start:end])
                if piece == none and end > start + 1:
                    continue
                score = here + (self._unknown_score if piece == none else scores[piece])
                if score > best[end]:
                    best[end], origin[end], piece_at[end] = score, start, piece
        path: list[int] = []
        end = size
        while end > 0:
            path.append(piece_at[end])
            end = origin[end]
        return self._joined(path[::-1])


def _model(vocabulary: Sequence[tuple[str, float]]) -> bytes:
    """A sentencepiece ``ModelProto`` (sentencepiece_model.proto) that changes nothing in its input.

    Every piece is a plain one, as ``tokenizers`` has them; one more, the last, stands for the unknown.
    """
    known = {piece for piece, _ in vocabulary}
    name = "<unknown>"
    while name in known:
        name += ">"
    texts = [piece.encode() for piece, _ in vocabulary]
    # Fields 1 (text) and 2 (score) of each piece, field 1 of the model.
    heads: dict[int, bytes] = {}
    for size in set(map(len, texts)):
        inner = b"\x0a" + _varint(size)
        heads[size] = b"\x0a" + _varint(len(inner) + size + 5) + inner
    raw = np.array([score for _, score in vocabulary], "<f4").tobytes()
    scores = (b"\x15" + raw[at : at + 4] for at in range(0, len(raw), 4))
    out = list(chain.from_iterable(zip(map(heads.__getitem__, map(len, texts)), texts, scores, strict=True)))
    # Field 3 of the unknown piece: its type, 2.
    last = b"\x0a" + _varint(len(name)) + name.encode() + b"\x18\x02"
    # Field 3 of the model, the normaliser: no prefix, no white space removed or replaced.
    normaliser = b"\x0a\x08identity\x18\x00\x20\x00\x28\x00"
    out += (b"\x0a", _varint(len(last)), last, b"\x1a", _varint(len(normaliser)), normaliser)
    return b"".join(out)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _median(values: list[int]) -> int:
    """As numpy's median rounded down, which is what model2vec cuts by."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return 0
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
