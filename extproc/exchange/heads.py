"""What the head of a response says to the exchange."""

from __future__ import annotations

import sys

import msgspec

from extproc.exchange.messages import Headers

_STALE = frozenset(("etag", "digest", "content-digest", "repr-digest", "content-md5", "accept-ranges"))
_MAX_DIGITS = 19


class Head(msgspec.Struct, frozen=True):
    """``status`` 0 and an empty media type stand for what is not there; ``length`` in bytes."""

    status: int
    media_type: str
    encoding: str | None
    length: int | None
    stale: tuple[str, ...]
    """Those of its headers that speak of a body as it was."""

    @property
    def events(self) -> bool:
        return self.media_type == "text/event-stream"


def head(headers: Headers) -> Head:
    """Several ``content-encoding`` headers count as one list (RFC 9110, section 5.3)."""
    status, media_type = 0, ""
    length: int | None = None
    encoding: str | None = None
    stale: list[str] = []
    for name, value in headers:
        if name == ":status":
            status = _number(value)
        elif name == "content-type":
            media_type = value.partition(";")[0].strip().lower()
        elif name == "content-encoding":
            encoding = value if encoding is None else f"{encoding},{value}"
        elif name == "content-length":
            length = _number(value)
        elif name in _STALE:
            stale.append(name)
    return Head(status, media_type, encoding, length, tuple(stale))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        return 0
    return int(text) if len(text) < _MAX_DIGITS else sys.maxsize
