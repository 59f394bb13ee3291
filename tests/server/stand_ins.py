"""A trivial exchange, processors that misbehave on demand, and messages to feed a driver with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from extproc.codec.wire_pb2 import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    ProcessingRequest,
    ProcessingResponse,
)
from extproc.exchange.messages import (
    AnswerBody,
    AnswerHeaders,
    AnswerTrailers,
    BodyArrived,
    Close,
    Command,
    Decide,
    Decision,
    Event,
    Forward,
    HeadersArrived,
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
    TrailersArrived,
    Warn,
)
from extproc.server.driver import Driver
from extproc.settings import Limits, Server, Settings
from extproc.telemetry import Metrics

FAILED = Immediate(500, (), b"failed")


@dataclass
class Plain:
    """Asks for a decision about every whole request body; everything else is answered as it is."""

    opening: Opening
    server: Server
    limits: Limits
    raises_on: str = ""
    extra: tuple[Command, ...] = ()

    def receive(self, event: Event) -> list[Command]:
        if self.raises_on == "receive":
            raise ValueError("secret-from-the-peer")
        match event:
            case HeadersArrived(side=side):
                return [*self.extra, AnswerHeaders(side)]
            case BodyArrived(side=Side.REQUEST, chunk=chunk):
                return [Decide(Request((), bytes(chunk), self.opening))]
            case BodyArrived(side=side):
                return [AnswerBody(side)]
            case TrailersArrived(side=side):
                return [AnswerTrailers(side)]

    def resume(self, decision: Decision) -> list[Command]:
        if self.raises_on == "resume":
            raise ValueError("secret-from-the-peer")
        match decision:
            case PassThrough() | Keep():
                return [AnswerBody(Side.REQUEST)]
            case Forward(body=body) | Replace(body=body):
                return [AnswerBody(Side.REQUEST, body), Close()]
            case Reply(body=body, status=status):
                return [Immediate(status, (), body), Close()]

    def fail(self) -> list[Command]:
        if self.raises_on == "fail":
            raise ValueError("secret-from-the-peer")
        return [FAILED, Close()]

    def finish(self) -> list[Command]:
        if self.raises_on == "finish":
            raise ValueError("secret-from-the-peer")
        return [warn("end")]


@dataclass
class Decider:
    """Decides with ``answer``, an exception to raise, or never."""

    answer: Decision | Exception | None = field(default_factory=PassThrough)
    ready: bool = True
    asked: list[Request | Response] = field(default_factory=list)
    observed: list[int] = field(default_factory=list)
    cancelled: int = 0
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    started: int = 0
    closed: int = 0
    _asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _awaited: int = 0

    async def start(self) -> None:
        self.started += 1

    async def close(self) -> None:
        self.closed += 1

    def observe(self, head: Observe) -> None:
        self.observed.append(head.status)
        if isinstance(self.answer, Exception):
            raise self.answer

    async def asked_for(self, times: int) -> None:
        """Return when ``times`` decisions in all have been asked for."""
        for _ in range(times - self._awaited):
            await self._asking.acquire()
        self._awaited = max(times, self._awaited)

    def at_once(self, message: Request | Response) -> Decision | None:
        return None

    async def decide(self, message: Request | Response) -> Decision:
        self.asked.append(message)
        self._asking.release()
        try:
            if self.answer is None:
                await asyncio.Event().wait()
            if isinstance(self.answer, Exception):
                raise self.answer
        except asyncio.CancelledError:
            self.cancelled += 1
            self.dropped.set()
            raise
        assert self.answer is not None
        return self.answer


def head(path: str = "/mcp") -> bytes:
    value = HeaderValue(key=":path", raw_value=path.encode())
    return ProcessingRequest(
        request_headers=HttpHeaders(headers=HeaderMap(headers=[value]))
    ).SerializeToString()


def body(data: bytes = b"{}") -> bytes:
    return ProcessingRequest(request_body=HttpBody(body=data, end_of_stream=True)).SerializeToString()


def response_head() -> bytes:
    value = HeaderValue(key=":status", raw_value=b"200")
    return ProcessingRequest(
        response_headers=HttpHeaders(headers=HeaderMap(headers=[value]))
    ).SerializeToString()


def driver(
    decider: Decider,
    metrics: Metrics,
    settings: Settings | None = None,
    profiles: dict[str, Settings] | None = None,
    make: Callable[[Opening, Server, Limits], Plain] = Plain,
) -> Driver:
    return Driver(make, decider, settings or Settings(), profiles or {}, metrics)


async def run(driver: Driver, *messages: bytes, profile: str = "") -> list[ProcessingResponse]:
    answers: list[ProcessingResponse] = []

    async def send(data: bytes) -> None:
        answers.append(ProcessingResponse.FromString(data))

    await driver.run(feed(*messages), send, profile)
    return answers


async def feed(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


def kinds(answers: list[ProcessingResponse]) -> list[str | None]:
    return [answer.WhichOneof("response") for answer in answers]


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"toolsearch_{name}", labels) or 0.0


def warn(setting: str) -> Warn:
    return Warn(setting, f"mend {setting}")
