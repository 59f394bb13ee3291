"""Vectors of remote models on disk: one append-only file a model, found by text digest."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"TSVEC1\n\0"
_DIGEST = 16


class VectorCache:
    """Records of a 16-byte text digest and the vector, after a header with the dimension.

    Texts themselves are not written.  A damaged or foreign file is started anew; a record cut short by a
    crash is dropped.  Without a folder everything stays in memory.  Safe to call from any thread.
    """

    def __init__(self, model: str, folder: Path | None) -> None:
        self._rows: dict[bytes, NDArray[np.float32]] = {}
        self._lock = threading.Lock()
        self.dimension: int | None = None
        self._path: Path | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / f"{hashlib.blake2b(model.encode(), digest_size=10).hexdigest()}.vectors"
            self._read(self._path)

    def get(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The known ones among ``texts``."""
        with self._lock:
            return {text: self._rows[key] for text in texts if (key := _key(text)) in self._rows}

    def put(self, texts: Sequence[str], rows: NDArray[np.float32], *, keep: bool) -> None:
        """Remember ``rows`` of ``texts`` on disk when ``keep``; queries are not worth it."""
        if not keep or not len(rows):
            return
        with self._lock:
            fresh = [
                (key, row)
                for text, row in zip(texts, rows, strict=True)
                if (key := _key(text)) not in self._rows
            ]
            self._rows.update(fresh)
            self.dimension = self.dimension or rows.shape[1]
            if self._path is None or not fresh:
                return
            new = not self._path.exists()
            with self._path.open("ab") as file:
                if new:
                    file.write(_MAGIC + rows.shape[1].to_bytes(8, "little"))
                file.write(b"".join(key + row.astype("<f4").tobytes() for key, row in fresh))

    def _read(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        dimension = int.from_bytes(data[8:16], "little")
        if data[:8] != _MAGIC or not 0 < dimension <= 65_536:
            path.unlink()
            return
        size = _DIGEST + 4 * dimension
        count = (len(data) - 16) // size
        whole = 16 + count * size
        if whole != len(data):
            with path.open("r+b") as file:
                file.truncate(whole)
        records = np.frombuffer(data, np.uint8, count * size, 16).reshape(count, size)
        rows = np.ascontiguousarray(records[:, _DIGEST:]).view("<f4").astype(np.float32)
        self._rows = {records[i, :_DIGEST].tobytes(): rows[i] for i in range(count)}
        self.dimension = dimension


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
