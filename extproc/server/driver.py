"""Runs one exchange over one gRPC stream: one read loop, one send site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, TypeVar

from prometheus_client import Counter

from extproc.codec import First, Malformed, decode, decode_first, encode
from extproc.exchange.messages import (
    BodyArrived,
    Close,
    Command,
    Decide,
    Decision,
    Dialect,
    Event,
    Forward,
    Immediate,
    Keep,
    Observe,
    Opening,
    PassThrough,
    Replace,
    Reply,
    Request,
    Response,
    Side,
    Warn,
    Word,
)
from extproc.settings import Limits, Server, Settings
from extproc.telemetry import Metrics, fields, logger, where

PROFILE_KEY = "x-toolsearch-profile"
"""gRPC metadata that chooses a profile."""

_T = TypeVar("_T")


class Exchange(Protocol):
    """The pure side of one exchange."""

    def receive(self, event: Event) -> list[Command]: ...

    def resume(self, decision: Decision) -> list[Command]: ...

    def fail(self) -> list[Command]: ...

    def finish(self) -> list[Command]: ...


class ExchangeFactory(Protocol):
    def __call__(self, opening: Opening, server: Server, limits: Limits) -> Exchange: ...


class Processor(Protocol):
    """Who decides.  ``decide`` may await; it is cancelled when the gateway goes away."""

    def at_once(self, message: Request | Response) -> Decision | None:
        """The decision where nothing has to be waited for; None leaves it to ``decide``."""

    async def decide(self, message: Request | Response) -> Decision: ...

    def observe(self, head: Observe) -> None:
        """The status of the answer to a forwarded request; must not raise."""


class Outcome(Word):
    """How an exchange ended; telemetry.Metrics says what each word means."""

    PASSED = "passed"
    FORWARDED = "forwarded"
    REPLIED = "replied"
    REFUSED = "refused"
    LATE = "late"
    FAILED = "failed"
    MALFORMED = "malformed"
    CANCELLED = "cancelled"


class MalformedMessage(Exception):
    """A message that cannot be answered; ``reason`` holds nothing the peer sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_DECISION_NAMES: Mapping[type[Decision], tuple[str, str]] = {
    PassThrough: ("request", "pass_through"),
    Forward: ("request", "forward"),
    Reply: ("request", "reply"),
    Keep: ("response", "keep"),
    Replace: ("response", "replace"),
}
"""Side and kind, as the metrics name them."""
_AS_IT_IS = Forward()
_DIALECT_NAMES = {dialect: dialect.name.lower() for dialect in Dialect}
_PLAIN = (("content-type", "text/plain; charset=utf-8"),)
_BUSY = Immediate(503, (*_PLAIN, ("retry-after", "1")), b"too many exchanges at once, try again\n", "busy")
_NO_PROFILE = Immediate(500, _PLAIN, b"this route names a tool search profile that is not configured\n")
# Sent when not even Exchange.fail() can say what is due: a gateway takes it in place of any answer.
_LAST_RESORT = Immediate(500, _PLAIN, b"internal error\n")


class Driver:
    """Shared by all streams of a server.

    ``profiles`` holds the complete settings of every profile.  A stream that names another one is refused:
    falling back to the defaults could show tools that the operator meant to hide.
    """

    def __init__(
        self,
        exchange: ExchangeFactory,
        processor: Processor,
        settings: Settings,
        profiles: Mapping[str, Settings],
        metrics: Metrics,
    ) -> None:
        self._exchange = exchange
        self._processor = processor
        self._limit = settings.limits.exchanges
        self._most_held = settings.limits.buffered
        self._held = 0
        self._profiles = {"": settings, **profiles}
        self._metrics = metrics
        self._ended: dict[tuple[str, Outcome], Counter] = {}
        metrics.in_flight.set_function(lambda: self.in_flight)
        self._warned: set[str] = set()
        self.in_flight = 0

    async def run(
        self, messages: AsyncIterator[bytes], send: Callable[[bytes], Awaitable[None]], profile: str = ""
    ) -> None:
        """Send the answers to ``messages`` in their order; returns when the exchange has ended.

        Raises :class:`MalformedMessage` for a message that cannot be answered, so that the gateway fails the
        request rather than waits.
        """
        stream = _Stream(profile)
        self.in_flight += 1
        try:
            async for data in messages:
                # Drained before the next read: a decision that is pending holds the peer back.
                queue = self._accept(stream, data)
                while queue:
                    command = queue.pop(0)
                    match command:
                        case Decide(message=message):
                            queue[:0] = await self._decide(stream, message)
                        case Warn():
                            self._warn(command)
                        case Observe():
                            self._observe(stream, command)
                        case Close():
                            return
                        case _:
                            try:
                                answer = encode(command)
                            except Exception as error:
                                stream.note(error, Outcome.FAILED)
                                queue[:] = [Close()]
                                answer = encode(_LAST_RESORT)
                            if stream.outcome is Outcome.PASSED and isinstance(command, Immediate):
                                stream.outcome = Outcome.REFUSED
                            await send(answer)
            self._finish(stream)
        except asyncio.CancelledError:
            # A gateway that has its answer may drop the stream before this side has ended it.
            if stream.outcome in (Outcome.PASSED, Outcome.FORWARDED):
                stream.outcome = Outcome.CANCELLED
            raise
        except MalformedMessage as error:
            stream.outcome = Outcome.MALFORMED
            self._warn(Warn("gateway", f"the gateway sent a message that cannot be answered: {error.reason}"))
            raise
        finally:
            self._release(stream)
            self.in_flight -= 1
            ended = self._ended.get((stream.dialect, stream.outcome))
            if ended is None:
                ended = self._metrics.exchanges.labels(stream.dialect, stream.outcome.value)
                self._ended[stream.dialect, stream.outcome] = ended
            ended.inc()

    def _accept(self, stream: _Stream, data: bytes) -> list[Command]:
        if stream.exchange is not None:
            match decode(data):
                case Malformed(reason=reason):
                    raise MalformedMessage(reason)
                case BodyArrived(Side.REQUEST, chunk) if not self._hold(stream, len(chunk)):
                    self._metrics.refusals.labels("busy").inc()
                    text = f"more than {self._most_held} bytes of requests at once: some got a 503"
                    return [Warn("limits.buffered", text), _BUSY, Close()]
                case event:
                    return stream.guard(stream.exchange.receive, event)
        match decode_first(data, stream.profile):
            case Malformed(reason=reason):
                raise MalformedMessage(reason)
            case First(opening=opening, event=event):
                return self._open(stream, opening, event)

    def _hold(self, stream: _Stream, size: int) -> bool:
        """Count a part of a request until it is decided on; false when that is more than may be held."""
        stream.held += size
        self._held += size
        return self._held <= self._most_held

    def _release(self, stream: _Stream) -> None:
        self._held -= stream.held
        stream.held = 0

    def _open(self, stream: _Stream, opening: Opening, event: Event) -> list[Command]:
        stream.dialect = _DIALECT_NAMES[opening.dialect]
        if self.in_flight > self._limit:
            self._metrics.refusals.labels("busy").inc()
            text = f"more than {self._limit} exchanges at once: some were refused with 503"
            return [Warn("limits.exchanges", text), _BUSY, Close()]
        settings = self._profiles.get(opening.profile)
        if settings is None:
            self._metrics.refusals.labels("profile").inc()
            text = f"a route names the profile {opening.profile[:64]!r}, which is not under profiles"
            return [Warn("profiles", text), _NO_PROFILE, Close()]
        stream.deadline = settings.server.deadline or None
        try:
            stream.exchange = self._exchange(opening, settings.server, settings.limits)
        except Exception as error:
            stream.note(error, Outcome.FAILED)
            return [_LAST_RESORT, Close()]
        return stream.guard(stream.exchange.receive, event)

    async def _decide(self, stream: _Stream, message: Request | Response) -> list[Command]:
        assert stream.exchange is not None
        began = perf_counter()
        bound: asyncio.Timeout | None = None
        try:
            decision = self._processor.at_once(message)
            if decision is None:
                # Only what really waits pays for a timer.
                async with asyncio.timeout(stream.deadline) as bound:
                    decision = await self._processor.decide(message)
            side, name = _DECISION_NAMES[type(decision)]
        except Exception as error:
            late = bound is not None and bound.expired()
            asked = "request" if isinstance(message, Request) else "response"
            self._metrics.decisions.took(asked, perf_counter() - began)
            return stream.fail(error, Outcome.LATE if late else Outcome.FAILED)
        self._metrics.decisions.made(side, name, perf_counter() - began)
        self._release(stream)
        match decision:
            case Forward() if decision != _AS_IT_IS:
                stream.outcome = Outcome.FORWARDED
            case Reply():
                stream.outcome = Outcome.REPLIED
        return stream.guard(stream.exchange.resume, decision)

    def _finish(self, stream: _Stream) -> None:
        """The gateway ended the stream: nothing can be sent any more, only told."""
        if stream.exchange is None:
            return
        try:
            for command in stream.exchange.finish():
                if isinstance(command, Warn):
                    self._warn(command)
        except Exception as error:
            stream.note(error, Outcome.FAILED)

    def _observe(self, stream: _Stream, head: Observe) -> None:
        try:
            self._processor.observe(head)
        except Exception as error:
            # Nothing waits for it: the exchange itself is not disturbed.
            stream.note(error, Outcome.FAILED)

    def _warn(self, warning: Warn) -> None:
        self._metrics.warnings.labels(warning.setting).inc()
        if warning.setting not in self._warned:
            self._warned.add(warning.setting)
            logger.warning(warning.text, extra=fields(setting=warning.setting))


@dataclass(slots=True)
class _Stream:
    """What is known about one stream beside its exchange."""

    profile: str
    exchange: Exchange | None = None
    deadline: float | None = None
    dialect: str = "unknown"
    outcome: Outcome = Outcome.PASSED
    held: int = 0
    """Bytes of its request that are not decided on yet."""

    def guard(self, step: Callable[[_T], list[Command]], argument: _T) -> list[Command]:
        try:
            return list(step(argument))
        except Exception as error:
            return self.fail(error, Outcome.FAILED)

    def fail(self, error: Exception, outcome: Outcome) -> list[Command]:
        self.note(error, outcome)
        assert self.exchange is not None
        try:
            return list(self.exchange.fail())
        except Exception as second:
            self.note(second, Outcome.FAILED)
            return [_LAST_RESORT, Close()]

    def note(self, error: Exception, outcome: Outcome) -> None:
        self.outcome = outcome
        what = "a decision took longer than server.deadline" if outcome is Outcome.LATE else "internal error"
        logger.error(what, extra=fields(error=where(error)))
