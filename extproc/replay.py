"""Record exchanges to a file with credentials blanked, and run a recording against the core again.

A recording is JSON lines: ``{"exchange": n, "opening": {…}}``, then ``{"exchange": n, "event": {…}}`` for
each message of the gateway and ``{"exchange": n, "answers": […]}`` for what was answered.  Bodies are kept,
because they are what a fault depends on: a recording holds the tool names, arguments and results of callers.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from extproc.exchange.machine import Exchange
from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Command,
    Decide,
    Decision,
    Dialect,
    Event,
    Headers,
    HeadersArrived,
    ModeOverride,
    Observe,
    Opening,
    Request,
    Response,
    Side,
    TrailersArrived,
)
from extproc.settings import Limits, Server, Settings
from extproc.telemetry import fields as log_fields
from extproc.telemetry import logger

Json: TypeAlias = dict[str, Any]

_SECRET = ("auth", "cookie", "key", "token", "secret", "session", "cert", "credential", "password")
"""A header whose name holds one of these is blanked, configured as a credential or not."""


class NotARecording(ValueError):
    """A line of the file cannot be understood; the text names the line and holds nothing of it."""


# Blanking -------------------------------------------------------------------------------------------------


class Blanks:
    """Stand-ins for secret values: equal values get equal stand-ins, so callers can still be told apart."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._known: dict[str, str] = {}

    def value(self, value: str) -> str:
        return self._known.setdefault(value, f"blanked-{len(self._known) + 1}")

    def headers(self, headers: Headers) -> Headers:
        return tuple((name, self._header(name, value)) for name, value in headers)

    def _header(self, name: str, value: str) -> str:
        if name == ":path":
            path, mark, query = value.partition("?")
            return path + mark + (self.value(query) if query else "")
        if name in self._names or any(word in name for word in _SECRET):
            return self.value(value)
        return value


# Lines ----------------------------------------------------------------------------------------------------


def _bytes_out(data: bytes) -> Json:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _bytes_in(found: Json) -> bytes:
    return (
        str(found["text"]).encode() if "text" in found else base64.b64decode(found["base64"], validate=True)
    )


def _opening_out(opening: Opening, blanks: Blanks) -> Json:
    return {
        "request_mode": opening.request_mode.name,
        "response_mode": opening.response_mode.name,
        "dialect": opening.dialect.name,
        "attributes": {name: blanks.value(value) for name, value in opening.attributes.items()},
        "profile": opening.profile,
    }


def _opening_in(found: Json) -> Opening:
    return Opening(
        BodyMode[found["request_mode"]],
        BodyMode[found["response_mode"]],
        Dialect[found["dialect"]],
        {str(name): str(value) for name, value in found["attributes"].items()},
        str(found["profile"]),
    )


def _event_out(event: Event, blanks: Blanks) -> Json:
    side = event.side.name
    match event:
        case HeadersArrived(_, headers, end):
            return {"kind": "headers", "side": side, "headers": blanks.headers(headers), "end": end}
        case BodyArrived(_, chunk, end):
            return {"kind": "body", "side": side, "body": _bytes_out(chunk), "end": end}
        case TrailersArrived(_, headers):
            return {"kind": "trailers", "side": side, "headers": blanks.headers(headers)}


def _event_in(found: Json) -> Event:
    side = Side[found["side"]]
    match found["kind"]:
        case "headers":
            return HeadersArrived(side, _headers_in(found["headers"]), bool(found["end"]))
        case "body":
            return BodyArrived(side, _bytes_in(found["body"]), bool(found["end"]))
        case "trailers":
            return TrailersArrived(side, _headers_in(found["headers"]))
        case _:
            raise KeyError("kind")


def _headers_in(found: Any) -> Headers:
    return tuple((str(name), str(value)) for name, value in found)


def _answer_out(command: Command) -> Json:
    """A command as JSON: its kind and its fields."""
    found: Json = {"kind": type(command).__name__}
    for name in command.__struct_fields__:
        match getattr(command, name):
            case bytes() as data:
                found[name] = _bytes_out(data)
            case Side() as side:
                found[name] = side.name
            case ModeOverride(request, response):
                found[name] = [request.name, response.name]
            case value:
                found[name] = value
    return found


def _answers(commands: Iterable[Command]) -> list[Json]:
    """What leaves the core, in the form a file gives back."""
    sent = [_answer_out(command) for command in commands if not isinstance(command, Decide | Observe)]
    found: list[Json] = json.loads(json.dumps(sent))
    return found


# Recording ------------------------------------------------------------------------------------------------


class Recorder:
    """Makes exchanges that are written down: pass it where a server takes the class ``Exchange``.

    ``names`` are further headers to blank.  Recording ends for good at ``limit`` bytes or when the file
    cannot be written; exchanges are never disturbed.  An older recording at ``path`` is replaced.  Raises
    ``OSError`` when the file cannot be opened.
    """

    def __init__(self, path: Path, names: Iterable[str] = (), limit: int = 64 * 1024 * 1024) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.fchmod(descriptor, 0o600)
        self._file: IO[str] | None = os.fdopen(descriptor, "w", encoding="utf-8")
        self._left = limit
        self._numbers = count(1)
        self.blanks = Blanks(names)

    def __call__(self, opening: Opening, server: Server, limits: Limits) -> Recorded:
        number = next(self._numbers)
        self.write({"exchange": number, "opening": _opening_out(opening, self.blanks)})
        return Recorded(self, number, Exchange(opening, server, limits))

    def write(self, line: Json) -> None:
        if self._file is None:
            return
        text = json.dumps(line, separators=(",", ":")) + "\n"
        self._left -= len(text)
        if self._left < 0:
            self._end("the recording is full: it has reached telemetry.record_limit")
            return
        try:
            self._file.write(text)
            self._file.flush()
        except OSError:
            self._end("the recording cannot be written any more")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _end(self, text: str) -> None:
        logger.warning(text, extra=log_fields(setting="telemetry.record"))
        try:
            self.close()
        except OSError:
            self._file = None


class Recorded:
    """An exchange that writes down its events and answers."""

    def __init__(self, recorder: Recorder, number: int, inner: Exchange) -> None:
        self._recorder, self._number, self._inner = recorder, number, inner

    def receive(self, event: Event) -> list[Command]:
        self._recorder.write({"exchange": self._number, "event": _event_out(event, self._recorder.blanks)})
        return self._noted(self._inner.receive(event))

    def resume(self, decision: Decision) -> list[Command]:
        return self._noted(self._inner.resume(decision))

    def fail(self) -> list[Command]:
        return self._noted(self._inner.fail())

    def finish(self) -> list[Command]:
        return self._noted(self._inner.finish())

    def _noted(self, commands: list[Command]) -> list[Command]:
        if answers := _answers(commands):
            self._recorder.write({"exchange": self._number, "answers": answers})
        return commands


# Replaying ------------------------------------------------------------------------------------------------


class Decider(Protocol):
    """The part of the processor that a replay needs."""

    async def decide(self, message: Request | Response) -> Decision: ...

    def observe(self, head: Observe) -> None: ...


@dataclass(slots=True)
class Replayed:
    """One exchange: what was answered when it was recorded, and what is answered now."""

    number: int
    exchange: Exchange = field(repr=False)
    recorded: list[Json] = field(default_factory=list)
    now: list[Json] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return self.recorded == self.now

    @property
    def same_shape(self) -> bool:
        """Whether the same kinds of answers come in the same order, whatever they say."""
        return [one["kind"] for one in self.recorded] == [one["kind"] for one in self.now]

    @property
    def first_difference(self) -> tuple[Json | None, Json | None]:
        """The first answers that differ: recorded, now.  None where one side has no more."""
        for place in range(max(len(self.recorded), len(self.now))):
            before = self.recorded[place] if place < len(self.recorded) else None
            after = self.now[place] if place < len(self.now) else None
            if before != after:
                return before, after
        return None, None


def offline(settings: Settings) -> Settings:
    """The settings with everything switched off that would leave this process."""
    catalog = settings.catalog.model_copy(update={"url": "", "store": "", "targets": {}})
    return settings.model_copy(update={"catalog": catalog})


async def replay(
    lines: Iterable[str], settings: Callable[[str], Settings | None], decider: Decider
) -> list[Replayed]:
    """Run a recording against the core, message by message in its order.

    ``settings`` are those of a profile, None for one that is not known.  Raises :class:`NotARecording`.
    """
    found: dict[int, Replayed] = {}
    for place, line in _parsed(lines):
        number = line.get("exchange")
        try:
            if "opening" in line:
                opening = _opening_in(line["opening"])
                policy = settings(opening.profile)
                if policy is None:
                    raise NotARecording(f"line {place}: names a profile that is not configured")
                found[line["exchange"]] = Replayed(
                    line["exchange"], Exchange(opening, policy.server, policy.limits)
                )
            elif "answers" in line:
                found[line["exchange"]].recorded += line["answers"]
            else:
                one = found[line["exchange"]]
                one.now += _answers(await _carry_out(one.exchange, _event_in(line["event"]), decider))
        except NotARecording:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise NotARecording(f"line {place}: not a line of a recording ({number!r:.20})") from None
    return [found[number] for number in sorted(found)]


async def _carry_out(exchange: Exchange, event: Event, decider: Decider) -> list[Command]:
    queue = exchange.receive(event)
    done: list[Command] = []
    while queue:
        command = queue.pop(0)
        done.append(command)
        match command:
            case Decide(message):
                queue[:0] = exchange.resume(await decider.decide(message))
            case Observe():
                decider.observe(command)
    return done


def _parsed(lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise NotARecording(f"line {place}: not JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("exchange"), int):
            raise NotARecording(f"line {place}: not a line of a recording")
        yield place, found
