"""One side of an exchange: what has come, what the processor was told, what may go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from extproc.exchange.messages import BodyMode, Headers, Side

from .wire import Mutation, Setting, first

Breach = Callable[[str, str], bool]
"""``breach(rule, detail)``: raises where the gateway refuses, True where it drops, False where it allows."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
_CONTROL = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_FORBIDDEN = frozenset({"host", ":authority", ":method", ":scheme"})


@dataclass(slots=True)
class Leg:
    side: Side
    mode: BodyMode
    headers: list[tuple[str, str]]
    source: tuple[bytes, ...]
    trailers: Headers
    headers_sent: bool = False
    headers_answered: bool = False
    waiting: str = ""
    """Kind of message that waits for its answer: ``headers``, ``body``, ``trailers``."""
    body_sent: bool = False
    trailers_sent: bool = False
    trailers_answered: bool = False
    told_end: bool = False
    ended: bool = False
    """The processor said end_of_stream on its own output (full duplex)."""
    out: bytearray = field(default_factory=bytearray)
    read: int = 0
    """Source chunks taken so far."""
    deliveries: list[tuple[int, bytes]] = field(default_factory=list)
    """Pieces passed on, each with the number of source chunks that had been taken by then."""

    def deliver(self, data: bytes) -> None:
        if data:
            self.out += data
            self.deliveries.append((self.read, data))

    def take(self) -> bytes:
        chunk = self.source[self.read]
        self.read += 1
        return chunk

    def value(self, name: str) -> str | None:
        return first(tuple(self.headers), name)


def mutate(headers: list[tuple[str, str]], mutation: Mutation, breach: Breach) -> None:
    """Apply a header mutation in place, removals first."""
    for name in mutation.remove:
        if name.startswith(":") and breach("remove-pseudo", name):
            continue
        if name != name.lower() and breach("header-syntax", name):
            continue
        headers[:] = [item for item in headers if item[0] != name]
    for setting in _accepted(mutation.set, breach):
        present = any(name == setting.name for name, _ in headers)
        pair = (setting.name, setting.value)
        match setting.action:
            case "append":
                headers.append(pair)
            case "add-if-absent":
                if not present:
                    headers.append(pair)
            case "overwrite" | "overwrite-if-exists":
                if present or setting.action == "overwrite":
                    headers[:] = [item for item in headers if item[0] != setting.name]
                    headers.append(pair)


def _accepted(settings: Iterable[Setting], breach: Breach) -> Iterable[Setting]:
    for setting in settings:
        name, value = setting.name, setting.value
        if not _TOKEN.fullmatch(name.removeprefix(":")) and breach("header-syntax", repr(name)):
            continue
        if _CONTROL.search(value) and breach("header-syntax", f"value of {name}"):
            continue
        if (name in _FORBIDDEN or name.startswith("x-envoy-")) and breach("forbidden-header", name):
            continue
        if value == "" and breach("empty-value", name):
            continue
        yield setting


def check_length(leg: Leg, body_length: int, rule: str, breach: Breach) -> None:
    declared = leg.value("content-length")
    if declared is not None and declared != str(body_length):
        breach(rule, f"{leg.side.name.lower()} says {declared}, carries {body_length}")
