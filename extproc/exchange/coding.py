"""Content codings of answers that are read (RFC 9110, section 8.4)."""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli
import zstandard

SUPPORTED = frozenset({"identity", "gzip", "x-gzip", "deflate", "br", "zstd"})


class Undecodable(ValueError):
    """The bytes are not what ``content-encoding`` says, or grow past the limit."""


class Decoder(Protocol):
    def feed(self, chunk: bytes) -> bytes: ...


def codings(value: str | None) -> tuple[str, ...]:
    """The codings of a ``content-encoding`` value in the order they were applied, identity left out."""
    names = (name.strip().lower() for name in (value or "").split(","))
    return tuple(name for name in names if name and name != "identity")


def decoder(names: tuple[str, ...], limit: int) -> Decoder | None:
    """A decoder for the codings, None when one is unknown.  ``limit`` bounds each step, in bytes."""
    if not all(name in SUPPORTED for name in names) or len(names) > 2:
        return None
    return _Chain([_Step(name, limit) for name in reversed(names)])


class _Chain:
    def __init__(self, steps: list[_Step]) -> None:
        self._steps = steps

    def feed(self, chunk: bytes) -> bytes:
        for step in self._steps:
            chunk = step.feed(chunk)
        return chunk


class _Step:
    """One coding, decoded incrementally.  Output past the limit is refused before it is held in memory."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._left = limit
        self._zlib = zlib.decompressobj(31 if name in ("gzip", "x-gzip") else 15)
        self._first = True
        self._brotli = brotli.Decompressor() if name == "br" else None
        self._zstd = (
            zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj() if name == "zstd" else None
        )

    def feed(self, chunk: bytes) -> bytes:
        if not chunk:
            return b""
        try:
            out = self._decode(chunk)
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise Undecodable(f"not valid {self._name}") from error
        self._left -= len(out)
        if self._left < 0:
            raise Undecodable("larger than the limit when decoded")
        return out

    def _decode(self, chunk: bytes) -> bytes:
        if self._brotli is not None:
            return bytes(self._brotli.process(chunk, output_buffer_limit=self._left + 1))
        if self._zstd is not None:
            return b"".join(self._zstd.decompress(chunk[at : at + 4096]) for at in range(0, len(chunk), 4096))
        if self._first and self._name == "deflate" and (chunk[0] & 0x0F) != 8:
            # Some servers send bare deflate data without the zlib wrapper that RFC 9110 asks for.
            self._zlib = zlib.decompressobj(-15)
        self._first = False
        return self._zlib.decompress(chunk, self._left + 1)
