"""The external-processing exchange as a sans-IO state machine.

One door in (:meth:`Exchange.receive`), one for decisions (:meth:`Exchange.resume`), one for trouble
(:meth:`Exchange.fail`).  Which event is welcome in which phase is the table ``transitions.TRANSITIONS``.
Source: envoy.service.ext_proc.v3.ExternalProcessor and the ProcessingMode documentation.
"""

from __future__ import annotations

from collections import deque

from extproc.exchange import coding, heads, modes
from extproc.exchange.messages import (
    AnswerBody,
    AnswerHeaders,
    AnswerTrailers,
    BodyArrived,
    BodyMode,
    Close,
    Command,
    Decide,
    Decision,
    Dialect,
    Event,
    Forward,
    Headers,
    HeadersArrived,
    Immediate,
    Keep,
    ModeOverride,
    Observe,
    Opening,
    PassThrough,
    Replace,
    Reply,
    Request,
    ResponsePlan,
    Side,
    StreamBody,
    TrailersArrived,
    Warn,
)
from extproc.exchange.reading import Reading
from extproc.exchange.transitions import Phase, Step, step
from extproc.settings import Limits, Server

_METHODS = {each: f"_{each.value}" for each in Step}
_DECIDING = frozenset((Phase.DECIDING_REQUEST, Phase.DECIDING_RESPONSE))
_JSON = ("content-type", "application/json")
_FAILURE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal error"}}'


class Exchange:
    """One HTTP request and its response.  Receiving never raises on what a peer sends."""

    def __init__(self, opening: Opening, server: Server, limits: Limits) -> None:
        self._opening = opening
        self._limits = limits
        self._rule = modes.REQUEST_RULES[opening.request_mode]
        self._closes_early, self._reading_mode = modes.response_rules(
            opening.request_mode,
            opening.response_mode,
            opening.dialect,
            server.early_close,
            server.response_mode,
        )
        self._phase = Phase.START
        self._queue: deque[Event] = deque()
        self._headers: Headers = ()
        self._body = bytearray()
        self._collected = False
        self._headers_due = False
        self._trailers_due = False
        self._plan: ResponsePlan | None = None
        self._reading: Reading | None = None
        self._chunk = b""
        self._chunk_ends = False
        self._override_due = False

    @property
    def phase(self) -> Phase:
        return self._phase

    def receive(self, event: Event) -> list[Command]:
        """The commands an event leads to.  Events that come while a decision is open wait for it."""
        if self._phase in _DECIDING:
            self._queue.append(event)
            return []
        commands: list[Command] = getattr(self, _METHODS[step(self._phase, event)])(event)
        return commands

    def resume(self, decision: Decision) -> list[Command]:
        """The commands a decision leads to, and those of the events that waited for it."""
        match self._phase, decision:
            case Phase.DECIDING_REQUEST, Forward() as forward:
                commands = self._forward(forward)
            case Phase.DECIDING_REQUEST, PassThrough():
                commands = self._forward(Forward())
            case Phase.DECIDING_REQUEST, Reply() as reply:
                commands = self._reply(reply)
            case Phase.DECIDING_RESPONSE, (Keep() | Replace()) as settled if self._reading is not None:
                self._phase = Phase.READING
                self._reading.settle(settled)
                commands = self._pump()
            case Phase.CLOSED, _:
                return []
            case _:
                raise TypeError(f"{type(decision).__name__} decides nothing in phase {self._phase.name}")
        while self._queue and self._phase not in _DECIDING:
            commands += self.receive(self._queue.popleft())
        return commands

    def fail(self) -> list[Command]:
        """Something on our side broke: whatever answer is due, without any detail."""
        match self._phase:
            case Phase.READING | Phase.DECIDING_RESPONSE if self._reading is not None:
                self._phase = Phase.READING
                self._queue.clear()
                self._reading.fail("internal error")
                return self._pump()
            case Phase.START | Phase.COLLECTING | Phase.DECIDING_REQUEST:
                self._queue.clear()
                return self._immediate(500, (_JSON,), _FAILURE)
            case Phase.FORWARDED:
                self._plan = None
                return [AnswerHeaders(Side.RESPONSE), *self._close()]
            case _:
                return self._close()

    def finish(self) -> list[Command]:
        """The gateway ended the stream; what is worth telling the operator about it."""
        if self._override_due:
            return [
                Warn(
                    "allow_mode_override",
                    "the gateway did not send a response body that was asked for. In Envoy's filter set "
                    "allow_mode_override: true (and list the combination in allowed_override_modes if "
                    "there is one), in agentgateway's processingOptions allowModeOverride: true",
                )
            ]
        return []

    # Request side ------------------------------------------------------------------------------------------

    def _request_headers(self, event: HeadersArrived) -> list[Command]:
        self._headers = event.headers
        self._headers_due = True
        if event.end_of_stream:
            return self._decide_request()
        if not modes.carries_message(event.headers):
            return self._forward(Forward())
        if self._rule.refusal:
            return self._refuse("request_body_mode", self._rule.refusal)
        self._phase = Phase.COLLECTING
        self._collected = True
        if self._rule.holds_headers:
            return []
        self._headers_due = False
        return [AnswerHeaders(Side.REQUEST)]

    def _request_body(self, event: BodyArrived) -> list[Command]:
        self._body += event.chunk
        if len(self._body) > self._limits.request_body:
            return self._immediate(
                413,
                (_JSON,),
                b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request body too large"}}',
            )
        # Envoy sends a buffered body as one message even when trailers follow and end_of_stream is false.
        return (
            self._decide_request()
            if event.end_of_stream or self._comes_whole(self._opening.request_mode)
            else []
        )

    def _request_trailers(self, event: TrailersArrived) -> list[Command]:
        if not self._rule.holds_headers and not self._body:
            # Trailers without a body: no body message came, so none may be answered.
            self._phase = Phase.PASSING
            return [AnswerTrailers(Side.REQUEST)]
        self._trailers_due = True
        return self._decide_request()

    def _decide_request(self) -> list[Command]:
        self._phase = Phase.DECIDING_REQUEST
        return [Decide(Request(self._headers, bytes(self._body), self._opening))]

    def _forward(self, forward: Forward) -> list[Command]:
        self._plan = forward.plan
        remove = forward.remove
        if forward.plan is not None:
            remove = (*remove, "accept-encoding")
        commands = self._request_answer(forward, remove)
        if self._trailers_due:
            # The flag goes on to speak of the response, which may have none.
            self._trailers_due = False
            commands.append(AnswerTrailers(Side.REQUEST))
        if forward.plan is None and self._closes_early:
            return [*commands, *self._close()]
        self._phase = Phase.PASSING if forward.plan is None else Phase.FORWARDED
        return commands

    def _request_answer(self, forward: Forward, remove: tuple[str, ...]) -> list[Command]:
        set_ = forward.set
        duplex = self._opening.request_mode is BodyMode.FULL_DUPLEX
        if forward.body is not None:
            if duplex and self._trailers_due:
                remove = (*remove, "content-length")
            else:
                set_ = (*set_, ("content-length", str(len(forward.body))))
        # Envoy takes it where it repeats requests; agentgateway knows no such thing.
        repeatable = (
            forward.plan is not None and forward.plan.repeatable and self._opening.dialect is Dialect.ENVOY
        )
        commands: list[Command] = []
        if self._headers_due:
            self._headers_due = False
            commands.append(AnswerHeaders(Side.REQUEST, set_, remove, repeatable=repeatable))
            if duplex and self._collected:
                body = bytes(self._body) if forward.body is None else forward.body
                commands += _chunks(Side.REQUEST, body, end=not self._trailers_due)
        else:
            commands.append(AnswerBody(Side.REQUEST, forward.body, set_, remove, repeatable))
        self._body.clear()
        return commands

    def _reply(self, reply: Reply) -> list[Command]:
        typed = any(name == "content-type" for name, _ in reply.headers)
        return self._immediate(reply.status, reply.headers if typed else (_JSON, *reply.headers), reply.body)

    def _immediate(self, status: int, headers: Headers, body: bytes) -> list[Command]:
        return [Immediate(status, headers, body), *self._close()]

    def _refuse(self, setting: str, text: str) -> list[Command]:
        return [Warn(setting, text), *self._immediate(500, (_JSON,), _FAILURE)]

    def _close(self) -> list[Command]:
        self._phase = Phase.CLOSED
        return [Close()]

    # Response side -----------------------------------------------------------------------------------------

    def _response_headers(self, event: HeadersArrived) -> list[Command]:
        if self._plan is None:
            return self._pass_response()
        head = heads.head(event.headers)
        return [Observe(self._plan, head.status), *self._planned_response(self._plan, event, head)]

    def _planned_response(self, plan: ResponsePlan, event: HeadersArrived, head: heads.Head) -> list[Command]:
        if (body := plan.instead(head.status)) is not None:
            return self._immediate(200, (_JSON,), body)
        held = plan.live and self._reading_mode is BodyMode.BUFFERED
        # What would be let go after its first part need not come at all.
        most = None if head.events else plan.gives_up
        spared = most is not None and (head.length or 0) > most
        if event.end_of_stream or held or spared or not plan.reads(head.status, head.media_type):
            return self._pass_response()
        codings = coding.codings(head.encoding)
        decoder = coding.decoder(codings, self._limits.response_body)
        if decoder is None:
            return [
                Warn(
                    "content-encoding",
                    "an answer that had to be read is in a content-encoding nobody asked for",
                ),
                *self._pass_response(),
            ]
        self._reading = Reading(
            plan,
            head.status,
            event.headers,
            events=head.events,
            decoder=decoder if codings else None,
            limit=self._limits.response_body,
        )
        self._phase = Phase.READING
        override = None
        if self._opening.response_mode is BodyMode.NONE:
            # A live stream may well end before its first event.
            self._override_due = not (plan.live and head.events)
            override = ModeOverride(self._opening.request_mode, self._reading_mode)
        remove = head.stale
        if codings:
            remove = (*remove, "content-encoding")
        if head.length is not None and self._reading_mode is not BodyMode.BUFFERED:
            remove = (*remove, "content-length")
        return [AnswerHeaders(Side.RESPONSE, (), remove, override)]

    def _pass_response(self) -> list[Command]:
        answer = AnswerHeaders(Side.RESPONSE)
        if self._closes_early:
            return [answer, *self._close()]
        self._phase = Phase.PASSING
        return [answer]

    def _response_body(self, event: BodyArrived) -> list[Command]:
        assert self._reading is not None
        self._override_due = False
        self._chunk = event.chunk
        self._chunk_ends = event.end_of_stream or self._comes_whole(self._reading_mode)
        self._reading.feed(event.chunk, end=self._chunk_ends)
        return self._pump()

    def _response_trailers(self, event: TrailersArrived) -> list[Command]:
        assert self._reading is not None
        if self._reading_mode is not BodyMode.FULL_DUPLEX:
            return [AnswerTrailers(Side.RESPONSE)]
        self._trailers_due = True
        self._chunk_ends = True
        self._reading.feed(b"", end=True)
        return self._pump()

    def _body_without_headers(self, event: BodyArrived) -> list[Command]:
        why = "response_header_mode is SKIP: answers cannot be told apart without headers"
        text = f"{why}. {modes.mend('response_header_mode', 'SEND')}"
        body = self._plan.failure() if self._plan is not None and event.end_of_stream else b""
        return [Warn("response_header_mode", text), AnswerBody(Side.RESPONSE, body, (), ("content-length",))]

    def _pump(self) -> list[Command]:
        """Ask for the next decision, or send what the current chunk came to."""
        assert self._reading is not None
        message = self._reading.step()
        if message is not None:
            self._phase = Phase.DECIDING_RESPONSE
            return [Decide(message)]
        if self._reading_mode is BodyMode.BUFFERED and not self._chunk_ends:
            return []
        data = self._reading.take()
        commands: list[Command] = []
        if self._reading.broken and self._chunk_ends:
            commands.append(Warn("limits.response_body", self._reading.broken))
        match self._reading_mode:
            case BodyMode.FULL_DUPLEX:
                ends = self._chunk_ends and not self._trailers_due
                commands += _chunks(Side.RESPONSE, data, end=ends) if data or ends else []
                if self._chunk_ends and self._trailers_due:
                    commands.append(AnswerTrailers(Side.RESPONSE))
            case _ if data == self._chunk and not self._reading.decodes:
                commands.append(AnswerBody(Side.RESPONSE))
            case BodyMode.BUFFERED:
                commands.append(AnswerBody(Side.RESPONSE, data, (("content-length", str(len(data))),)))
            case _:
                commands.append(AnswerBody(Side.RESPONSE, data))
        if self._chunk_ends:
            self._phase = Phase.PASSING
        return commands

    # Both sides --------------------------------------------------------------------------------------------

    def _comes_whole(self, mode: BodyMode) -> bool:
        """Whether one message is the whole body; agentgateway may send the data and then an empty end."""
        return mode is BodyMode.BUFFERED and self._opening.dialect is Dialect.ENVOY

    def _pass(self, event: Event) -> list[Command]:
        """The answer that changes nothing."""
        mode = self._opening.request_mode if event.side is Side.REQUEST else self._reading_mode
        match event:
            case HeadersArrived(side):
                return [AnswerHeaders(side)]
            case BodyArrived(side, chunk, end) if mode is BodyMode.FULL_DUPLEX:
                return _chunks(side, chunk, end=end)
            case BodyArrived(side, _, end):
                held = mode is BodyMode.BUFFERED and not end and not self._comes_whole(mode)
                return [] if held else [AnswerBody(side)]
            case TrailersArrived(side):
                return [AnswerTrailers(side)]

    def _headers_skipped(self, event: Event) -> list[Command]:
        why = "request_header_mode is SKIP: headers have to change with the body"
        return self._refuse("request_header_mode", f"{why}. {modes.mend('request_header_mode', 'SEND')}")

    def _local_reply(self, event: Event) -> list[Command]:
        """The gateway answered by itself (413, 503): not ours to change."""
        self._phase = Phase.PASSING
        return self._pass(event)

    def _out_of_order(self, event: Event) -> list[Command]:
        if self._phase is Phase.CLOSED:
            return []
        return self._pass(event)


def _chunks(side: Side, data: bytes, *, end: bool) -> list[Command]:
    """``data`` as full-duplex chunks; an empty one when there is nothing but the end to say."""
    if len(data) <= modes.CHUNK:
        return [StreamBody(side, data, end)]
    starts = range(0, len(data), modes.CHUNK)
    return [
        StreamBody(side, data[at : at + modes.CHUNK], end and at + modes.CHUNK >= len(data)) for at in starts
    ]
