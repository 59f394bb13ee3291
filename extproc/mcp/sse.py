"""Server-sent events as byte frames (WHATWG HTML, section 9.2), independent of how chunks are cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_FRAME_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Frame:
    """One event with the blank line that ends it.

    ``raw`` is every byte as it came.  ``data`` is the joined ``data`` lines, empty for comments and priming
    events.  ``name`` is the event type, ``message`` when the stream names none.
    """

    raw: bytes
    data: bytes
    name: str = "message"

    def with_data(self, data: bytes) -> bytes:
        """The frame with other data; ``id``, ``event`` and ``retry`` lines and comments stay."""
        kept = [line for line in _LINE_END.split(self.raw) if line and not _is_data(line)]
        lines = [*kept, *(b"data: " + line for line in _LINE_END.split(data))]
        return b"\n".join(lines) + b"\n\n"


class FrameSplitter:
    """Cuts a byte stream into frames.  ``feed`` returns whole frames; ``rest`` is what is still open."""

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._scan = 0
        self._limit = limit

    @property
    def rest(self) -> bytes:
        return bytes(self._buffer)

    @property
    def overflown(self) -> bool:
        """Whether the open frame is larger than the limit."""
        return len(self._buffer) > self._limit

    def feed(self, chunk: bytes, *, end: bool = False) -> list[Frame]:
        """The frames completed by ``chunk``.

        A carriage return at the very end may be half a line end, so such a frame waits for the next byte
        unless ``end`` is true.
        """
        self._buffer += chunk
        frames = []
        start = 0
        while found := _FRAME_END.search(self._buffer, max(start, self._scan)):
            stop = found.end()
            # Both "\r\r" and "\n\r" may go on with the "\n" of a CRLF that has not arrived yet.
            if self._buffer[stop - 1] == 0x0D and stop == len(self._buffer) and not end:
                break
            if self._buffer[stop - 1] == 0x0D and self._buffer[stop : stop + 1] == b"\n":
                stop += 1
            frames.append(parse_frame(bytes(self._buffer[start:stop])))
            start = stop
            self._scan = start
        del self._buffer[:start]
        self._scan = max(0, len(self._buffer) - 4)
        return frames


def parse_frame(raw: bytes) -> Frame:
    data: list[bytes] = []
    name = "message"
    for line in _LINE_END.split(raw.removeprefix(_BOM)):
        if _is_data(line):
            field = line[5:]
            data.append(field[1:] if field[:1] == b" " else field)
        elif line.startswith(b"event:"):
            name = line[6:].strip().decode("utf-8", "replace") or "message"
    return Frame(raw, b"\n".join(data), name)


def _is_data(line: bytes) -> bool:
    return line == b"data" or line.startswith(b"data:")
