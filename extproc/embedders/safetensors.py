"""Reads a safetensors file as memory-mapped numpy arrays.

Format: eight bytes little-endian header length, a JSON header with dtype, shape and byte offsets of each
tensor, then the data (https://huggingface.co/docs/safetensors, "Format").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
}
_LARGEST_HEADER = 100_000_000


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read-only views by tensor name.  Raises ``ValueError`` for a damaged file, ``OSError`` for none."""
    data = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    if len(data) < 8:
        raise ValueError(f"{path.name}: too short for a safetensors file")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > min(_LARGEST_HEADER, len(data) - 8):
        raise ValueError(f"{path.name}: its header is longer than the file")
    try:
        header = msgspec.json.decode(data[8 : 8 + length].tobytes(), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name}: its header is not JSON: {error}") from error
    body = data[8 + length :]
    return {
        name: _view(path.name, name, body, entry) for name, entry in header.items() if name != "__metadata__"
    }


def _view(file: str, name: str, body: NDArray[np.uint8], entry: dict[str, Any]) -> NDArray[Any]:
    try:
        start, end = entry["data_offsets"]
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape = tuple(int(n) for n in entry["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: tensor {name!r} has an unknown type or no shape") from error
    if (
        not 0 <= start <= end <= len(body)
        or end - start != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    ):
        raise ValueError(f"{file}: tensor {name!r} does not fit the file")
    raw = body[start:end]
    # An offset that is no multiple of the item size cannot be viewed in place.
    view = raw.view(dtype) if (8 + start) % dtype.itemsize == 0 else np.frombuffer(raw.tobytes(), dtype)
    return view.reshape(shape)
