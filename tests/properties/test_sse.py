"""Server-sent events do not depend on where a stream was cut."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.mcp.sse import Frame, FrameSplitter

LINE_ENDS = ("\n", "\r", "\r\n")
lines = st.sampled_from(
    [
        "data: a",
        "data:b",
        "data",
        "data:  c ",
        "id: 1",
        ": note",
        "event: x",
        "retry: 5",
        "",
        "",
        "data: é✓",
        "junk",
    ]
)
loose = st.lists(st.tuples(lines, st.sampled_from(LINE_ENDS)), max_size=14).map(
    lambda parts: "".join(text + end for text, end in parts).encode()
)
streams = loose | st.binary(max_size=40) | st.text("\r\n:d at", max_size=40).map(str.encode)
cuts = st.lists(st.integers(0, 120), max_size=12)


def split(stream: bytes, places: list[int]) -> tuple[list[Frame], bytes]:
    splitter, frames = FrameSplitter(1 << 20), []
    borders = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    for start, stop in pairwise(borders):
        frames += splitter.feed(stream[start:stop], end=stop == len(stream))
    return frames, splitter.rest


@settings(max_examples=200, deadline=None)
@given(streams, cuts)
def test_frames_do_not_depend_on_the_cuts(stream: bytes, places: list[int]) -> None:
    whole, rest = split(stream, [])
    assert split(stream, places) == (whole, rest)
    assert b"".join(frame.raw for frame in whole) + rest == stream


def dispatched(stream: bytes) -> list[str]:
    """The data of every event a browser would dispatch: an independent reading of the standard."""
    found: list[str] = []
    data: list[str] = []
    for line in re.split("\r\n|\n|\r", stream.decode()):
        if line == "":
            if data:
                found.append("\n".join(data))
            data = []
        elif line == "data" or line.startswith("data:"):
            value = line[5:]
            data.append(value.removeprefix(" ") if value[:1] == " " else value)
    return found


@settings(max_examples=200, deadline=None)
@given(loose, cuts)
def test_data_is_what_a_client_would_dispatch(stream: bytes, places: list[int]) -> None:
    ended = stream + b"\n\n"
    frames, rest = split(ended, places)
    assert rest.strip(b"\r\n") == b""
    ours = [frame.data.decode() for frame in frames if frame.data]
    assert ours == [data for data in dispatched(ended) if data]


@settings(max_examples=150, deadline=None)
@given(loose, st.text(max_size=10).map(lambda text: text.encode()))
def test_other_data_keeps_every_other_line(stream: bytes, data: bytes) -> None:
    frames, _ = split(stream + b"\n\n", [])
    for frame in frames:
        changed = split(frame.with_data(data), [])[0]
        fields = {b"id", b"event", b"retry", b""}
        kept = [
            line for line in re.split(rb"\r\n|\n|\r", frame.raw) if line and line.split(b":")[0] in fields
        ]
        assert [line for line in re.split(rb"\r\n|\n|\r", changed[0].raw) if line in kept] == kept
        assert changed[0].data == b"\n".join(re.split(rb"\r\n|\n|\r", data))
