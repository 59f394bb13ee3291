"""Static embeddings from a model2vec folder: a text's vector is the weighted mean of its pieces' rows.

The same vectors as ``model2vec.StaticModel`` without its dependencies; the table stays memory-mapped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from extproc.embedders.safetensors import read_tensors
from extproc.embedders.unigram import UnigramTokenizer, load_tokenizer

_BATCH_PIECES = 16_384
_FEW_TEXTS, _FEW_PIECES = 16, 256


class _Config(msgspec.Struct, gc=False):
    max_length: int | None = 512


class StaticEmbedder:
    """A table of piece vectors.  ``embed`` holds no lock and changes nothing but the word cache."""

    def __init__(
        self,
        name: str,
        tokenizer: UnigramTokenizer,
        rows: NDArray[Any],
        weights: NDArray[Any] | None,
        mapping: NDArray[Any] | None,
        max_length: int | None,
    ) -> None:
        if rows.ndim != 2 or (mapping is None and len(rows) != tokenizer.size):
            raise ValueError(f"{tokenizer.size} pieces do not match a table of shape {rows.shape}")
        for what, values in (("weights", weights), ("mapping", mapping)):
            if values is not None and values.shape != (tokenizer.size,):
                raise ValueError(f"{tokenizer.size} pieces do not match {what} of shape {values.shape}")
        if (
            mapping is not None
            and len(mapping)
            and not 0 <= int(mapping.min()) <= int(mapping.max()) < len(rows)
        ):
            raise ValueError(f"the mapping points outside a table of {len(rows)} rows")
        self._name = name
        self._tokenizer = tokenizer
        # A plain view of the mapped file: indexing through numpy.memmap costs more than the rows themselves.
        self._rows = rows.view(np.ndarray)
        self._weights = None if weights is None else weights.astype(np.float32)
        # Python reads single numbers out of it in a tenth of numpy's time.
        self._weight_of = None if self._weights is None else self._weights.data
        self._mapping = mapping
        self._max_length = max_length

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return int(self._rows.shape[1])

    def tokenize(self, text: str) -> list[int]:
        """Ids of the pieces that count: the unknown piece is left out."""
        if self._max_length is not None:
            text = text[: self._max_length * self._tokenizer.median_length]
        ids = self._tokenizer.encode(text)
        if self._max_length is not None:
            ids = ids[: self._max_length]
        unknown = self._tokenizer.unknown
        return [i for i in ids if i != unknown] if unknown in ids else ids

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape ``(len(texts), dimension)``, rows of length 1, or 0 where no piece is known."""
        out = self.sums(texts)
        norm = np.sqrt(np.einsum("ij,ij->i", out, out))
        out /= np.maximum(norm, 1e-30)[:, None]
        return out

    def sums(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same before rows are brought to length 1: weighted sums of the rows of the pieces."""
        if len(texts) <= _FEW_TEXTS:
            few = [self.tokenize(text) for text in texts]
            if 0 < (pieces := sum(map(len, few))) <= _FEW_PIECES:
                return self._few_sums(few, pieces)
        out = np.zeros((len(texts), self.dimension), np.float32)
        batch: list[list[int]] = []
        rows: list[int] = []
        pending = 0
        for i, text in enumerate(texts):
            ids = self.tokenize(text)
            if ids:
                batch.append(ids)
                rows.append(i)
                pending += len(ids)
            if pending >= _BATCH_PIECES:
                out[rows] = self._sums(batch, pending)
                batch, rows, pending = [], [], 0
        if batch:
            out[rows] = self._sums(batch, pending)
        return out

    def _few_sums(self, batch: list[list[int]], pieces: int) -> NDArray[np.float32]:
        """As ``sums`` in one product, which for a query's new words takes less than adding them up."""
        weights, shares, start = self._weight_of, [], 0
        for ids in batch:
            mine = [1.0] * len(ids) if weights is None else [weights[i] for i in ids]
            shares.append([0.0] * start + mine + [0.0] * (pieces - start - len(ids)))
            start += len(ids)
        every = batch[0] if len(batch) == 1 else list(chain.from_iterable(batch))
        rows = self._rows.take(every if self._mapping is None else self._mapping.take(every), axis=0)
        return np.asarray(np.array(shares, np.float32).dot(rows.astype(np.float32)))

    def _sums(self, batch: list[list[int]], pieces: int) -> NDArray[np.float32]:
        ids = np.fromiter(chain.from_iterable(batch), np.int64, pieces)
        # Pieces repeat: each different row is read from the file, widened and weighed once.
        seen = np.zeros(self._tokenizer.size, np.bool_)
        seen[ids] = True
        different = np.flatnonzero(seen)
        table = self._weighed(different)
        place = np.zeros(self._tokenizer.size, np.int64)
        place[different] = np.arange(len(different))
        ids = place[ids]
        # Text by text, whose rows stay in the processor's cache: reduceat over all takes ten times as long.
        out = np.empty((len(batch), self.dimension), np.float32)
        start = 0
        for row, each in enumerate(batch):
            end = start + len(each)
            if end - start == 1:
                out[row] = table[ids[start]]
            else:
                np.add.reduce(table.take(ids[start:end], axis=0), axis=0, out=out[row])
            start = end
        return out

    def _table(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        ids = ids if self._mapping is None else self._mapping.take(ids)
        return self._rows.take(ids, axis=0).astype(np.float32)

    def _weighed(self, ids: NDArray[Any]) -> NDArray[np.float32]:
        rows = self._table(ids)
        if self._weights is not None:
            rows *= self._weights[ids][:, None]
        return rows


def load_static(folder: Path) -> StaticEmbedder:
    """Read a model2vec folder: ``config.json``, ``model.safetensors``, ``tokenizer.json``.

    Raises ``OSError`` for a missing file, ``ValueError`` for a damaged one and ``UnsupportedTokenizer`` when
    the folder is sound but only model2vec itself can tokenise for it.
    """
    tensors = read_tensors(folder / "model.safetensors")
    if "embeddings" not in tensors:
        raise ValueError("model.safetensors: no tensor named 'embeddings'")
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Config)
    except msgspec.DecodeError as error:
        raise ValueError(f"config.json: {error}") from error
    data = (folder / "tokenizer.json").read_bytes()
    tokenizer = load_tokenizer(data)
    return StaticEmbedder(
        _identity(folder, data, tensors["embeddings"]),
        tokenizer,
        tensors["embeddings"],
        tensors.get("weights"),
        tensors.get("mapping"),
        config.max_length,
    )


def _identity(folder: Path, tokenizer: bytes, rows: NDArray[Any]) -> str:
    """Folder name and a digest of the pieces and of a sample of the table: another training, another name."""
    digest = hashlib.blake2b(tokenizer, digest_size=6)
    digest.update(repr((rows.shape, rows.dtype.str)).encode())
    digest.update(np.ascontiguousarray(rows[:: max(1, len(rows) // 256)]).tobytes())
    return f"{folder.name}@{digest.hexdigest()}"
