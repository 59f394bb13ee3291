"""How a gateway carries out what the processor answers."""

from __future__ import annotations

from extproc.exchange.messages import BodyMode, ModeOverride, Side

from .config import Config
from .leg import Leg, check_length, mutate
from .rules import RULES, Effect, Refusal
from .wire import (
    Answer,
    BodyAnswer,
    Broken,
    Cleared,
    Closed,
    HeadersAnswer,
    ImmediateAnswer,
    Streamed,
    TrailersAnswer,
    Whole,
)

CHUNK_LIMIT = 62_000
"""Bytes of one streamed body answer in known servers."""


class Desk:
    """Takes the answers of one exchange.  ``dropped`` lists what was ignored, by rule."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.dropped: list[str] = []
        self.closed = False
        self.immediate: ImmediateAnswer | None = None
        self.response_mode = config.response_body

    def attentive(self) -> bool:
        """Whether the processor still has a say."""
        return not self.closed and self.immediate is None

    def breach(self, name: str, detail: str) -> bool:
        """Raise where this gateway refuses; True where it ignores the part, False where it allows it."""
        rule = RULES[name]
        match rule.effects.get(self.config.dialect):
            case Effect.REFUSED:
                raise Refusal(rule, detail)
            case Effect.DROPPED:
                self.dropped.append(name)
                return True
            case None:
                return False

    def obey(self, leg: Leg, answer: Answer, held: bool) -> None:
        if not self.attentive() and not isinstance(answer, Closed):
            self.breach("after-end", type(answer).__name__)
            return
        match answer:
            case Closed():
                self._close(leg)
            case Broken():
                self.breach("broken-stream", "status")
            case ImmediateAnswer():
                if leg.side is Side.RESPONSE and leg.headers_answered and leg.headers_sent:
                    begun = leg.deliveries or leg.mode is not BodyMode.BUFFERED
                    if begun:
                        self.breach("immediate-late", "the head of the response went out")
                self.immediate = answer
            case HeadersAnswer() | BodyAnswer() | TrailersAnswer():
                if answer.side is not leg.side:
                    self.breach("answer-side", answer.side.name.lower())
                self._answer(leg, answer, held)

    def _answer(self, leg: Leg, answer: HeadersAnswer | BodyAnswer | TrailersAnswer, held: bool) -> None:
        full_duplex = leg.mode is BodyMode.FULL_DUPLEX
        match answer:
            case HeadersAnswer():
                if leg.headers_answered:
                    self._unexpected(leg, "headers", leg.headers_sent)
                self._take_headers(leg, answer)
            case BodyAnswer() if full_duplex:
                self._take_duplex(leg, answer)
            case BodyAnswer():
                if leg.waiting != "body":
                    self._unexpected(leg, "body", leg.body_sent)
                self._take_body(leg, answer)
                leg.waiting = ""
            case TrailersAnswer():
                if leg.trailers_answered:
                    self.breach("answer-twice", "trailers")
                if not leg.trailers_sent:
                    self._unexpected(leg, "trailers", False)
                if answer.mutation and not self.breach("trailer-mutation", "set"):
                    trailers = list(leg.trailers)
                    mutate(trailers, answer.mutation, self.breach)
                    leg.trailers = tuple(trailers)
                leg.trailers_answered = True
                leg.waiting = ""

    def _unexpected(self, leg: Leg, kind: str, sent: bool) -> None:
        if sent:
            self.breach("answer-twice", kind)
        self.breach("answer-kind" if leg.waiting else "answer-unasked", kind)

    def _take_headers(self, leg: Leg, answer: HeadersAnswer) -> None:
        mutate(leg.headers, answer.mutation, self.breach)
        for extra in sorted(answer.extras):
            self.breach("unsupported-field", extra)
        if answer.mode is not None:
            self._override(leg, answer.mode)
        leg.headers_answered = True
        if leg.waiting == "headers":
            leg.waiting = ""

    def _override(self, leg: Leg, mode: ModeOverride) -> None:
        if BodyMode.FULL_DUPLEX in (leg.mode, self.config.request_body, self.config.response_body):
            self.breach("mode-in-full-duplex", "override")
            return
        if not self.config.allow_mode_override:
            self.breach("mode-not-allowed", "override")
            return
        if BodyMode.STREAMED in (mode.request, mode.response) and self.breach("mode-streamed", "override"):
            return
        if leg.side is Side.REQUEST:
            leg.mode, self.response_mode = mode.request, mode.response
        else:
            leg.mode = mode.response

    def _take_body(self, leg: Leg, answer: BodyAnswer) -> None:
        buffered = leg.mode is BodyMode.BUFFERED
        if answer.mode is not None:
            self.breach("mode-in-body", "override")
        for extra in sorted(answer.extras):
            self.breach("unsupported-field", extra)
        if answer.mutation and not (
            (not buffered and self.breach("headers-outside-buffered", leg.mode.name))
            or (not leg.headers_sent and self.breach("headers-skipped", "mutation"))
        ):
            mutate(leg.headers, answer.mutation, self.breach)
        original = b"".join(leg.source) if leg.mode is not BodyMode.STREAMED else leg.source[leg.read - 1]
        if leg.mode is BodyMode.STREAMED and leg.told_end and self.config.empty_end:
            original = b""
        if leg.mode is BodyMode.BUFFERED_PARTIAL:
            original = original[: self.config.buffer_limit]
        match answer.body:
            case None:
                leg.deliver(original)
            case Whole(data):
                self._replaced(leg, data, buffered)
            case Cleared():
                self._replaced(leg, b"", buffered)
            case Streamed(data):
                self.breach("streamed-in-buffered", leg.mode.name)
                leg.headers[:] = [item for item in leg.headers if item[0] != "content-length"]
                leg.deliver(data)

    def _replaced(self, leg: Leg, data: bytes, buffered: bool) -> None:
        if buffered:
            check_length(leg, len(data), "content-length", self.breach)
        leg.deliver(data)

    def _take_duplex(self, leg: Leg, answer: BodyAnswer) -> None:
        if not isinstance(answer.body, Streamed):
            self.breach("plain-body-in-full-duplex", type(answer.body).__name__)
            return
        if answer.mutation:
            self.breach("headers-outside-buffered", "full duplex")
        if answer.mode is not None:
            self.breach("mode-in-body", "override")
        if not leg.headers_answered:
            self.breach("body-before-headers", "streamed_response")
        if leg.ended or leg.trailers_answered:
            self.breach("body-after-end", f"{len(answer.body.data)} bytes")
        if len(answer.body.data) > CHUNK_LIMIT:
            self.breach("chunk-limit", f"{len(answer.body.data)} bytes")
        leg.deliver(answer.body.data)
        leg.ended = answer.body.end_of_stream
        if leg.waiting == "body":
            leg.waiting = ""

    def _close(self, leg: Leg) -> None:
        if self.closed or self.immediate is not None:
            self.closed = True
            return
        done = leg.side is Side.RESPONSE and (leg.ended or leg.trailers_answered or not leg.waiting)
        due = self.config.response_headers or self.response_mode is not BodyMode.NONE
        inside = leg.mode is BodyMode.FULL_DUPLEX and not (leg.ended or leg.trailers_answered)
        if inside and leg.told_end and leg.headers_answered and not leg.source:
            inside = False
        if leg.side is Side.REQUEST and self.response_mode is BodyMode.FULL_DUPLEX:
            inside = True
        if inside:
            self.breach("early-close-full-duplex", leg.side.name.lower())
        if due and not done:
            self.breach("early-close", leg.side.name.lower())
        self.closed = True
