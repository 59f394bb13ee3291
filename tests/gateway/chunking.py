"""Ways to cut a body into pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Chunker: TypeAlias = Callable[[bytes], tuple[bytes, ...]]
"""Pieces that join to the given bytes; none for an empty body."""


def whole(body: bytes) -> tuple[bytes, ...]:
    return (body,) if body else ()


def sized(size: int) -> Chunker:
    def cut(body: bytes) -> tuple[bytes, ...]:
        return tuple(body[start : start + size] for start in range(0, len(body), size))

    return cut


one_byte = sized(1)
odd = sized(31)
"""Splits multi-byte characters, CRLF pairs and JSON tokens alike."""
