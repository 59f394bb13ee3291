"""One planted fault for every row of the rule table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Dialect,
    Event,
    HeadersArrived,
    ModeOverride,
    Side,
    TrailersArrived,
)

from .config import Config
from .rules import AGENTGATEWAY, ENVOY
from .scripted import Script
from .wire import (
    Answer,
    BodyAnswer,
    Broken,
    Cleared,
    Closed,
    HeadersAnswer,
    ImmediateAnswer,
    Mutation,
    Setting,
    Streamed,
    TrailersAnswer,
    Whole,
)

REQ, RES = Side.REQUEST, Side.RESPONSE
BUFFERED = Config()
BOTH_BUFFERED = Config(response_body=BodyMode.BUFFERED)
STREAMED_RESPONSE = Config(response_body=BodyMode.STREAMED)
DUPLEX = Config(
    request_body=BodyMode.FULL_DUPLEX,
    response_body=BodyMode.FULL_DUPLEX,
    request_trailers=True,
    response_trailers=True,
)
TRAILERS = Config(request_trailers=True)
TWO_MESSAGES = Config(dialect=AGENTGATEWAY, empty_end=True)


@dataclass(frozen=True, slots=True)
class Fault:
    """``script`` breaks ``rule`` under ``config`` on each of ``dialects``."""

    rule: str
    script: Script
    config: Config = field(default_factory=Config)
    dialects: tuple[Dialect, ...] = (ENVOY, AGENTGATEWAY)


def on(kind: type[Event], side: Side, *answers: Answer) -> Script:
    def script(event: Event) -> Sequence[Answer] | None:
        return answers if isinstance(event, kind) and event.side is side else None

    return script


def head(*answers: Answer, side: Side = REQ) -> Script:
    return on(HeadersArrived, side, *answers)


def body(*answers: Answer, side: Side = REQ) -> Script:
    return on(BodyArrived, side, *answers)


def sets(name: str, value: str = "x") -> HeadersAnswer:
    return HeadersAnswer(REQ, Mutation((Setting(name, value),)))


def mode(request: BodyMode, response: BodyMode) -> ModeOverride:
    return ModeOverride(request, response)


PLAIN = HeadersAnswer(REQ)
ASKS = mode(BodyMode.BUFFERED, BodyMode.BUFFERED)
SUM = Mutation((Setting("x-sum", "3"),))
SAME = b'{"some":"it"}'

FAULTS: tuple[Fault, ...] = (
    Fault("answer-kind", head(BodyAnswer(REQ))),
    Fault("answer-kind", body(PLAIN), BUFFERED.named(request_headers=False)),
    Fault("answer-side", head(HeadersAnswer(RES))),
    Fault("answer-side", body(PLAIN, side=RES), BOTH_BUFFERED),
    Fault("answer-twice", head(PLAIN, PLAIN)),
    Fault("answer-twice", body(BodyAnswer(REQ), BodyAnswer(REQ))),
    Fault("answer-twice", body(PLAIN)),
    Fault("answer-twice", head(PLAIN, PLAIN), DUPLEX),
    Fault("answer-early", body(BodyAnswer(REQ)), TWO_MESSAGES),
    Fault("answer-missing", head()),
    Fault("answer-missing", body()),
    Fault("answer-missing", head(side=RES)),
    Fault("answer-missing", lambda event: (), DUPLEX),
    Fault("answer-missing", on(TrailersArrived, REQ), TRAILERS),
    Fault("answer-unasked", head(PLAIN, BodyAnswer(REQ))),
    Fault("after-end", head(ImmediateAnswer(200), PLAIN)),
    Fault("after-end", body(BodyAnswer(REQ), Closed(), BodyAnswer(REQ)), BUFFERED, (ENVOY,)),
    Fault("after-end", head(ImmediateAnswer(200), ImmediateAnswer(200))),
    Fault("broken-stream", head(Broken())),
    Fault(
        "content-length", body(BodyAnswer(REQ, Whole(b"new"), Mutation((Setting("content-length", "4"),))))
    ),
    Fault("content-length", body(BodyAnswer(REQ, Whole(b"new")))),
    Fault("content-length", body(BodyAnswer(RES, Whole(b"new")), side=RES), BOTH_BUFFERED),
    Fault("content-length", body(BodyAnswer(REQ, Cleared()))),
    Fault("content-length", head(ImmediateAnswer(200, (("content-length", "9"),), b"short"))),
    Fault("stale-length", body(BodyAnswer(REQ, Streamed(b"new", True))), DUPLEX),
    Fault("stale-length", body(BodyAnswer(RES, Whole(b"new")), side=RES), STREAMED_RESPONSE, (ENVOY,)),
    Fault("headers-outside-buffered", body(BodyAnswer(REQ, Streamed(SAME, True), SUM)), DUPLEX),
    Fault(
        "headers-outside-buffered",
        body(BodyAnswer(REQ, None, Mutation((Setting("mcp-name", "x"),)))),
        BUFFERED.named(request_body=BodyMode.BUFFERED_PARTIAL),
    ),
    Fault(
        "headers-skipped",
        body(BodyAnswer(REQ, None, Mutation((Setting("mcp-name", "x"),)))),
        BUFFERED.named(request_headers=False),
    ),
    Fault("mode-in-body", body(BodyAnswer(REQ, mode=ASKS))),
    Fault("mode-in-body", body(BodyAnswer(REQ, Streamed(SAME, True), mode=ASKS)), DUPLEX),
    Fault("mode-not-allowed", head(HeadersAnswer(REQ, mode=ASKS)), BUFFERED.named(allow_mode_override=False)),
    Fault("mode-in-full-duplex", head(HeadersAnswer(REQ, mode=ASKS)), DUPLEX),
    Fault(
        "mode-streamed", head(HeadersAnswer(RES, mode=mode(BodyMode.BUFFERED, BodyMode.STREAMED)), side=RES)
    ),
    Fault("config-streamed", head(PLAIN), STREAMED_RESPONSE),
    Fault("config-trailers", head(PLAIN), DUPLEX.named(response_trailers=False)),
    Fault("body-before-headers", head(BodyAnswer(REQ, Streamed(b"{}"))), DUPLEX),
    Fault("end-missing", body(BodyAnswer(REQ, Streamed(b"{}"))), DUPLEX),
    Fault("end-missing", body(), DUPLEX),
    Fault("end-missing", body(BodyAnswer(RES, Streamed(b"{}")), side=RES), DUPLEX),
    Fault(
        "body-after-end",
        body(BodyAnswer(REQ, Streamed(b"{}", True)), BodyAnswer(REQ, Streamed(b"", True))),
        DUPLEX,
    ),
    Fault("chunk-limit", body(BodyAnswer(REQ, Streamed(b"x" * 62_001, True))), DUPLEX),
    Fault("plain-body-in-full-duplex", body(BodyAnswer(REQ, Whole(b"{}"))), DUPLEX),
    Fault("plain-body-in-full-duplex", body(BodyAnswer(REQ)), DUPLEX),
    Fault("streamed-in-buffered", body(BodyAnswer(REQ, Streamed(b"{}", True)))),
    Fault("early-close", body(BodyAnswer(REQ), Closed())),
    Fault("early-close", head(Closed())),
    Fault("early-close-full-duplex", head(PLAIN, Closed()), DUPLEX),
    Fault("early-close-full-duplex", body(BodyAnswer(RES, Streamed(b"{")), Closed(), side=RES), DUPLEX),
    Fault("empty-value", head(sets("x-empty", ""))),
    Fault("forbidden-header", head(sets("host"))),
    Fault("forbidden-header", head(sets(":method", "GET"))),
    Fault("forbidden-header", head(sets("x-envoy-retry-on"))),
    Fault("remove-pseudo", head(HeadersAnswer(REQ, Mutation((), (":path",))))),
    Fault("header-syntax", head(sets("Mcp-Name"))),
    Fault("header-syntax", head(sets("mcp-name", "a\r\nx: y"))),
    Fault("header-syntax", head(sets("a b"))),
    Fault("header-syntax", head(ImmediateAnswer(200, (("x", "tëst ✓"),)))),
    Fault("status-zero", head(ImmediateAnswer(0))),
    Fault("immediate-utf8", head(ImmediateAnswer(200, (), b"\xff\xfe"))),
    Fault("immediate-late", body(ImmediateAnswer(500), side=RES), DUPLEX),
    Fault("unsupported-field", head(HeadersAnswer(REQ, extras=frozenset({"clear_route_cache"})))),
    Fault(
        "trailer-mutation",
        on(TrailersArrived, REQ, TrailersAnswer(REQ, Mutation((Setting("grpc-status", "1"),)))),
        TRAILERS,
    ),
)
