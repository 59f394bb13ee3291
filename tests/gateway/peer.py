"""The in-memory gateway: one HTTP exchange through an external processor under a real gateway's rules.

``Gateway.send`` plays a request with its body and trailers, tells the processor what Envoy or agentgateway
would tell it, carries out its answers, calls the upstream, plays the response and returns what either end
saw.  What a real gateway fails is a :class:`Refusal`; what it ignores is listed in ``Outcome.dropped``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Dialect,
    Event,
    HeadersArrived,
    Opening,
    Side,
    TrailersArrived,
)

from .answers import Desk
from .config import Config, Open, Outcome, Stream, Upstream
from .leg import Leg, check_length, mutate
from .wire import Answer, HttpRequest, HttpResponse, ImmediateAnswer, Mutation, first


class Gateway:
    """``open_stream`` is the processor, ``upstream`` the server; dialect and modes come from ``config``."""

    def __init__(self, config: Config, open_stream: Open, upstream: Upstream) -> None:
        self._config, self._open, self._upstream = config, open_stream, upstream

    async def send(self, request: HttpRequest) -> Outcome:
        """Raises :class:`Refusal` where a real gateway fails the exchange."""
        run = _Run(self._config, self._open, self._upstream)
        try:
            return await run.send(request)
        finally:
            if run.stream is not None:
                await run.stream.end()


class _GatewayReply(Exception):
    """The gateway answers by itself."""

    def __init__(self, status: int, text: str) -> None:
        self.response = HttpResponse(status, (("content-type", "text/plain"),), (text.encode(),))


class _Run:
    def __init__(self, config: Config, open_stream: Open, upstream: Upstream) -> None:
        self.config, self.open, self.call = config, open_stream, upstream
        self.desk = Desk(config)
        self.stream: Stream | None = None
        self.events: list[Event] = []
        self.answers: list[Answer] = []
        modes = (config.request_body, config.response_body)
        if BodyMode.STREAMED in modes:
            self.breach("config-streamed", "body mode")
        if (modes[0] is BodyMode.FULL_DUPLEX and not config.request_trailers) or (
            modes[1] is BodyMode.FULL_DUPLEX and not config.response_trailers
        ):
            self.breach("config-trailers", "trailers are SKIP")

    def breach(self, name: str, detail: str) -> bool:
        return self.desk.breach(name, detail)

    # The exchange ------------------------------------------------------------------------------------------

    async def send(self, request: HttpRequest) -> Outcome:
        config = self.config
        pseudo = ((":method", request.method), (":path", request.path), (":scheme", "http"))
        host = first(request.headers, "host") or "gateway.test"
        hidden = {"host", *config.strip}
        headers = [
            *pseudo,
            (":authority", host),
            *(item for item in request.headers if item[0] not in hidden),
        ]
        chunks = config.request_chunks(request.body)
        leg = Leg(Side.REQUEST, config.request_body, headers, chunks, request.trailers)
        self.opening = Opening(
            config.request_body,
            config.response_body,
            config.dialect,
            self._attributes(headers),
            config.profile,
        )
        upstream: HttpRequest | None = None
        try:
            await self._play(leg, config.request_headers, config.request_trailers)
        except _GatewayReply as reply:
            response = reply.response
            processed = config.dialect is Dialect.ENVOY
        else:
            response, processed = HttpResponse(0), True
            if self.desk.immediate is None:
                upstream = HttpRequest(
                    leg.value(":method") or "",
                    leg.value(":path") or "",
                    tuple(item for item in leg.headers if not item[0].startswith(":")),
                    bytes(leg.out),
                    leg.trailers,
                )
                response, processed = self._ask(upstream)
        if self.desk.immediate is not None:
            return self._outcome(self._local(self.desk.immediate), None, ())
        if not processed:
            return self._outcome(response, upstream, ())
        return await self._respond(response, upstream)

    def _ask(self, request: HttpRequest) -> tuple[HttpResponse, bool]:
        """The upstream's response, and whether the processor gets to see it."""
        try:
            return self.call(request), True
        except ConnectionError:
            reply = _GatewayReply(503, "upstream connect error").response
            return reply, self.config.dialect is Dialect.ENVOY

    async def _respond(self, response: HttpResponse, upstream: HttpRequest | None) -> Outcome:
        config = self.config
        chunks = config.response_chunks(response.body) if config.response_chunks else response.chunks
        headers = [(":status", str(response.status)), *response.headers]
        leg = Leg(Side.RESPONSE, self.desk.response_mode, headers, chunks, response.trailers)
        try:
            await self._play(leg, config.response_headers, config.response_trailers)
        except _GatewayReply as reply:
            return self._outcome(reply.response, upstream, ())
        if self.desk.immediate is not None:
            return self._outcome(self._local(self.desk.immediate), upstream, ())
        client = HttpResponse(
            int(leg.value(":status") or 0),
            tuple(item for item in leg.headers if not item[0].startswith(":")),
            tuple(piece for _, piece in leg.deliveries),
            leg.trailers,
        )
        return self._outcome(client, upstream, tuple(leg.deliveries))

    def _outcome(
        self, client: HttpResponse, upstream: HttpRequest | None, deliveries: tuple[tuple[int, bytes], ...]
    ) -> Outcome:
        return Outcome(
            client,
            upstream,
            self.desk.immediate is not None,
            tuple(self.desk.dropped),
            tuple(self.events),
            tuple(self.answers),
            deliveries,
        )

    def _local(self, answer: ImmediateAnswer) -> HttpResponse:
        if answer.status == 0:
            self.breach("status-zero", "no status")
        try:
            answer.body.decode()
        except UnicodeDecodeError:
            self.breach("immediate-utf8", "body is not UTF-8")
        headers: list[tuple[str, str]] = []
        mutate(headers, Mutation.of(answer.headers), self.breach)
        if first(tuple(headers), "content-length") not in (None, str(len(answer.body))):
            self.breach("content-length", "of an immediate response")
        return HttpResponse(answer.status, tuple(headers), (answer.body,) if answer.body else ())

    def _attributes(self, headers: Sequence[tuple[str, str]]) -> dict[str, str]:
        found = dict(self.config.identity)
        for name in self.config.request_attributes:
            quoted = re.fullmatch(r"request\.headers\['([^']+)'\]", name)
            key = quoted[1] if quoted else {"request.path": ":path", "request.method": ":method"}[name]
            value = first(tuple(headers), key)
            if value is not None:
                found[name] = value
        return found

    # One side ----------------------------------------------------------------------------------------------

    async def _play(self, leg: Leg, send_headers: bool, send_trailers: bool) -> None:
        self.leg = leg
        empty = not leg.source and not leg.trailers
        if send_headers and self.desk.attentive():
            leg.headers_sent, leg.told_end = True, empty
            held = leg.mode is BodyMode.FULL_DUPLEX and not empty
            await self._tell(leg, HeadersArrived(leg.side, tuple(leg.headers), empty), "headers", held)
        elif not send_headers:
            leg.headers_answered = True
        if not empty and self.desk.immediate is None:
            await self._body(leg, send_trailers)
        if self.desk.attentive() and leg.mode is BodyMode.FULL_DUPLEX and not empty:
            self._check_full_duplex(leg)
        if self.desk.immediate is None:
            check_length(leg, len(leg.out), "stale-length", self.breach)

    async def _body(self, leg: Leg, send_trailers: bool) -> None:
        if not self.desk.attentive() or leg.mode is BodyMode.NONE:
            self._drain(leg)
        elif leg.mode in (BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL):
            await self._buffered(leg)
        else:
            await self._streamed(leg)
        if leg.trailers and send_trailers and self.desk.attentive():
            leg.trailers_sent = True
            await self._tell(leg, TrailersArrived(leg.side, leg.trailers), "trailers", False)

    async def _buffered(self, leg: Leg) -> None:
        if not leg.source:
            return
        body = b"".join(leg.source)
        partial = leg.mode is BodyMode.BUFFERED_PARTIAL
        if len(body) > self.config.buffer_limit and not partial:
            request = leg.side is Side.REQUEST and self.config.dialect is Dialect.ENVOY
            raise _GatewayReply(413 if request else 500, "too large")
        sent = body[: self.config.buffer_limit] if partial else body
        leg.body_sent, leg.read = True, len(leg.source)
        split = self.config.empty_end
        whole_body = len(sent) == len(body) and not (self.config.trailers_end and leg.trailers)
        await self._tell(leg, BodyArrived(leg.side, sent, whole_body and not split), "body", split)
        if split and self.desk.attentive():
            if not leg.waiting:
                self.breach("answer-early", "the end of the body is still to come")
            await self._tell(leg, BodyArrived(leg.side, b"", whole_body), "body", False)
        if self.desk.immediate is None:
            if leg.waiting == "body":
                leg.deliver(sent)
            leg.deliver(body[len(sent) :])

    async def _streamed(self, leg: Leg) -> None:
        full_duplex = leg.mode is BodyMode.FULL_DUPLEX
        count = len(leg.source)
        ends_itself = not leg.trailers
        for number in range(1, count + 1):
            if not self.desk.attentive():
                return self._drain(leg)
            last = number == count and ends_itself and not self.config.empty_end
            await self._chunk(leg, leg.take(), last, full_duplex)
        if ends_itself and self.config.empty_end and count and self.desk.attentive():
            await self._chunk(leg, b"", True, full_duplex)
        return None

    async def _chunk(self, leg: Leg, chunk: bytes, last: bool, full_duplex: bool) -> None:
        leg.body_sent, leg.told_end = True, last
        await self._tell(leg, BodyArrived(leg.side, chunk, last), "body", full_duplex)
        if leg.waiting == "body" and not full_duplex and self.desk.immediate is None:
            leg.deliver(chunk)

    def _drain(self, leg: Leg) -> None:
        if self.desk.immediate is not None:
            return
        while leg.read < len(leg.source):
            leg.deliver(leg.take())

    def _check_full_duplex(self, leg: Leg) -> None:
        if not leg.headers_answered and leg.headers_sent:
            self.breach("answer-missing", f"{leg.side.name.lower()} headers")
        if leg.trailers_sent:
            if not leg.trailers_answered:
                self.breach("answer-missing", "trailers")
        elif not leg.ended:
            self.breach("end-missing", f"{leg.side.name.lower()} body")

    # Messages ----------------------------------------------------------------------------------------------

    async def _tell(self, leg: Leg, event: Event, kind: str, held: bool) -> None:
        """Send one message and carry out what comes back; ``held`` answers may come later."""
        if self.stream is None:
            self.stream = self.open(self.opening)
        leg.waiting = kind
        self.events.append(event)
        for answer in await self.stream.receive(event):
            self.answers.append(answer)
            self.desk.obey(leg, answer, held)
        if leg.waiting and not held and self.desk.attentive():
            self.breach("answer-missing", f"{leg.side.name.lower()} {kind}")
