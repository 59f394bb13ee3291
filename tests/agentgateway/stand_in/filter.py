"""extProc over a real gRPC connection; answers are judged by the rules of the peer model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import grpc
import grpc.aio

from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Dialect,
    Event,
    HeadersArrived,
    Opening,
    Side,
)
from tests.agentgateway.stand_in.config import Policy
from tests.agentgateway.stand_in.relay import Reply
from tests.fixture_server.wire import Request, Responder
from tests.gateway.answers import Desk
from tests.gateway.leg import Leg, check_length, mutate
from tests.gateway.rules import Refusal
from tests.gateway.served import answer, introduce, request
from tests.gateway.wire import Broken, Closed, HttpRequest, ImmediateAnswer, Mutation

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
CHUNK = 50_000
"""Bytes of a body as they come from a connection."""
Call = grpc.aio.StreamStreamCall[bytes, bytes]
Backend = Callable[[HttpRequest], Awaitable[Reply]]
_split = itertools.cycle((False, True))


class GatewayError(Exception):
    """The gateway answers with this status and no more."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Exchange:
    """One request through the processor; ``known`` are the expressions that a policy before it filled.

    Raises Refusal or GatewayError where the gateway fails it.
    """

    def __init__(
        self, policy: Policy, channel: grpc.aio.Channel, backend: Backend, known: Mapping[str, str]
    ) -> None:
        self.config, self.backend = policy.config, backend
        self.desk = Desk(self.config)
        self.two_messages = next(_split)
        """Releases send a buffered body in one message, some builds its end in another."""
        self.opening: Opening | None = Opening(
            self.config.request_body,
            self.config.response_body,
            Dialect.AGENTGATEWAY,
            {name: known[text] for name, text in policy.attributes.items() if text in known},
            "",
        )
        self.call: Call = channel.stream_stream(METHOD, _same, _same)()  # type: ignore[call-arg]

    async def run(self, incoming: Request, responder: Responder) -> None:
        try:
            await self._run(incoming, responder)
        finally:
            self.call.cancel()

    async def _run(self, incoming: Request, responder: Responder) -> None:
        target = incoming.path + (f"?{incoming.query}" if incoming.query else "")
        headers = [
            (":method", incoming.method),
            (":path", target),
            (":scheme", "http"),
            (":authority", incoming.header("host") or ""),
            *(item for item in incoming.headers if item[0] not in ("host", "transfer-encoding")),
        ]
        chunks = tuple(incoming.body[start : start + CHUNK] for start in range(0, len(incoming.body), CHUNK))
        leg = Leg(Side.REQUEST, self.config.request_body, headers, chunks, ())

        async def body() -> AsyncIterator[bytes]:
            for chunk in chunks:
                leg.read += 1
                yield chunk

        await self._play(leg, self.config.request_headers, None if not chunks else body(), None)
        if self.desk.immediate is not None:
            await self._local(self.desk.immediate, responder)
            return
        check_length(leg, len(leg.out), "stale-length", self.desk.breach)
        plain = tuple(item for item in leg.headers if not item[0].startswith(":"))
        reply = await self.backend(
            HttpRequest(leg.value(":method") or "", leg.value(":path") or "", plain, bytes(leg.out))
        )
        try:
            await self._respond(reply, responder)
        finally:
            await reply.close()

    async def _respond(self, reply: Reply, responder: Responder) -> None:
        if not reply.processed:
            await write(reply, responder)
            return
        headers = [(":status", str(reply.status)), *reply.headers]
        leg = Leg(Side.RESPONSE, self.desk.response_mode, headers, (), ())
        await self._play(leg, self.config.response_headers, reply.chunks, responder)
        if self.desk.immediate is not None:
            await self._local(self.desk.immediate, responder)
            return
        if not responder.status:
            await responder.start(*_head(leg))
        await responder.end()

    async def _local(self, said: ImmediateAnswer, responder: Responder) -> None:
        if said.status == 0:
            self.desk.breach("status-zero", "no status")
        try:
            said.body.decode()
        except UnicodeDecodeError:
            self.desk.breach("immediate-utf8", "body is not UTF-8")
        headers: list[tuple[str, str]] = []
        mutate(headers, Mutation.of(said.headers), self.desk.breach)
        await responder.send(
            said.status, said.body, [item for item in headers if item[0] != "content-length"]
        )

    # One side ----------------------------------------------------------------------------------------------

    async def _play(
        self, leg: Leg, headers: bool, body: AsyncIterator[bytes] | None, out: Responder | None
    ) -> None:
        if leg.mode is BodyMode.FULL_DUPLEX and body is not None:
            await self._duplex(leg, headers, body, out)
            return
        if headers:
            leg.headers_sent, leg.told_end, leg.waiting = True, body is None, "headers"
            await self._tell(leg, HeadersArrived(leg.side, tuple(leg.headers), body is None))
            await self._hear(leg)
        if body is None or self.desk.immediate is not None:
            return
        if leg.mode is BodyMode.NONE:
            if out is not None:
                await out.start(*_head(leg))
            async for chunk in body:
                leg.deliver(chunk)
                await self._pass(leg, out)
            return
        await self._buffered(leg, body)
        if self.desk.immediate is None and out is not None:
            await out.start(*_head(leg))
            await self._pass(leg, out)

    async def _buffered(self, leg: Leg, body: AsyncIterator[bytes]) -> None:
        held = b"".join([chunk async for chunk in body])
        if len(held) > self.config.buffer_limit:
            raise GatewayError(500)
        leg.source, leg.body_sent, leg.waiting = (held,), True, "body"
        if self.two_messages:
            await self._tell(leg, BodyArrived(leg.side, held, False))
            await self._tell(leg, BodyArrived(leg.side, b"", True))
        else:
            await self._tell(leg, BodyArrived(leg.side, held, True))
        await self._hear(leg)

    async def _duplex(
        self, leg: Leg, headers: bool, body: AsyncIterator[bytes], out: Responder | None
    ) -> None:
        """Everything is sent as it comes, whatever has been answered by then."""
        leg.headers_sent, leg.headers_answered, leg.body_sent = headers, not headers, True

        async def speak() -> None:
            if headers:
                await self._tell(leg, HeadersArrived(leg.side, tuple(leg.headers), False))
            async for chunk in body:
                await self._tell(leg, BodyArrived(leg.side, chunk, False))
            leg.told_end = True
            await self._tell(leg, BodyArrived(leg.side, b"", True))

        speaking = asyncio.ensure_future(speak())
        try:
            while not leg.ended and self.desk.immediate is None:
                hearing = asyncio.ensure_future(self._hear(leg))
                await asyncio.wait({hearing, speaking}, return_when=asyncio.FIRST_COMPLETED)
                if not hearing.done() and speaking.done() and speaking.exception() is not None:
                    hearing.cancel()
                    await speaking
                await hearing
                if leg.headers_answered and out is not None and self.desk.immediate is None:
                    if not out.status:
                        await out.start(*_head(leg))
                    await self._pass(leg, out)
        finally:
            speaking.cancel()
            await asyncio.wait({speaking})

    async def _pass(self, leg: Leg, out: Responder | None) -> None:
        if out is None:
            return
        pieces, leg.deliveries = leg.deliveries, []
        for _, piece in pieces:
            await out.chunk(piece)

    # Messages ----------------------------------------------------------------------------------------------

    async def _tell(self, leg: Leg, event: Event) -> None:
        message = request(event, Dialect.AGENTGATEWAY)
        if self.opening is not None:
            introduce(message, self.opening)
            self.opening = None
        try:
            await self.call.write(message.SerializeToString())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._over(leg)

    async def _hear(self, leg: Leg) -> None:
        """One answer, carried out."""
        try:
            data = await self.call.read()
        except grpc.aio.AioRpcError:
            raise GatewayError(500) from None
        if isinstance(data, bytes):
            self.desk.obey(leg, answer(data), leg.mode is BodyMode.FULL_DUPLEX)
            return
        await self._over(leg)

    async def _over(self, leg: Leg) -> None:
        """The processor has ended the stream."""
        ok = await self.call.code() is grpc.StatusCode.OK
        self.desk.obey(leg, Closed() if ok else Broken(), False)
        # Where no rule forbids it to end here, an answer was waited for all the same.
        raise GatewayError(500)


def _same(data: bytes) -> bytes:
    return data


def _head(leg: Leg) -> tuple[int, list[tuple[str, str]]]:
    return int(leg.value(":status") or 0), [item for item in leg.headers if not item[0].startswith(":")]


async def write(reply: Reply, responder: Responder) -> None:
    """A reply as it is, each piece when it is there."""
    await responder.start(reply.status, _framed(reply))
    if reply.chunks is not None:
        async for chunk in reply.chunks:
            await responder.chunk(chunk)
    await responder.end()


def _framed(reply: Reply) -> list[tuple[str, str]]:
    return [*reply.headers, ("content-length", "0")] if reply.chunks is None else reply.headers


__all__ = ["Exchange", "GatewayError", "Refusal", "write"]
