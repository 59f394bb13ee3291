"""The whole server as the peer's processor: bytes in, bytes out, through the codec and the driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from google.protobuf.struct_pb2 import Struct

from extproc.codec import ATTRIBUTES_NAMESPACE
from extproc.codec.wire_pb2 import (
    HeaderMap,
    HeaderMutation,
    HeaderValue,
    HeaderValueOption,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
)
from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Dialect,
    Event,
    Headers,
    HeadersArrived,
    ModeOverride,
    Opening,
    Side,
    TrailersArrived,
)
from extproc.server.driver import Driver

from .wire import (
    Answer,
    AppendAction,
    BodyAnswer,
    BodyMutation,
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

_ACTIONS: dict[int, AppendAction] = {
    HeaderValueOption.APPEND_IF_EXISTS_OR_ADD: "append",
    HeaderValueOption.ADD_IF_ABSENT: "add-if-absent",
    HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD: "overwrite",
    HeaderValueOption.OVERWRITE_IF_EXISTS: "overwrite-if-exists",
}
_MODES = {
    BodyMode.NONE: ProcessingMode.NONE,
    BodyMode.STREAMED: ProcessingMode.STREAMED,
    BodyMode.BUFFERED: ProcessingMode.BUFFERED,
    BodyMode.BUFFERED_PARTIAL: ProcessingMode.BUFFERED_PARTIAL,
    BodyMode.FULL_DUPLEX: ProcessingMode.FULL_DUPLEX_STREAMED,
}


class Served:
    """Opens streams on a :class:`Driver`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __call__(self, opening: Opening) -> ServedStream:
        return ServedStream(self._driver, opening)


class ServedStream:
    def __init__(self, driver: Driver, opening: Opening) -> None:
        self._driver, self._opening = driver, opening
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._asks = asyncio.Event()
        self._sent: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    async def receive(self, event: Event) -> Sequence[Answer]:
        """Everything sent until the driver asks for the next message or ends."""
        message = request(event, self._opening.dialect)
        if self._task is None:
            introduce(message, self._opening)
            run = self._driver.run(self._messages(), self._send, self._opening.profile)
            self._task = asyncio.ensure_future(run)
            await self._asks.wait()
        self._sent.clear()
        self._asks.clear()
        self._queue.put_nowait(message.SerializeToString())
        asked = asyncio.ensure_future(self._asks.wait())
        await asyncio.wait({self._task, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        answers: list[Answer] = [answer(data) for data in self._sent]
        if self._task.done():
            answers.append(Broken() if self._task.exception() else Closed())
        return answers

    async def end(self) -> None:
        """The gateway has seen all it wanted."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _messages(self) -> AsyncIterator[bytes]:
        while True:
            self._asks.set()
            yield await self._queue.get()

    async def _send(self, data: bytes) -> None:
        self._sent.append(data)


def request(event: Event, dialect: Dialect) -> ProcessingRequest:
    """The message a gateway sends for an event; pseudo headers travel as each gateway does it."""
    side = event.side is Side.REQUEST
    match event:
        case HeadersArrived(_, headers, end):
            head = HttpHeaders(headers=_map(headers, dialect), end_of_stream=end)
            return (
                ProcessingRequest(request_headers=head) if side else ProcessingRequest(response_headers=head)
            )
        case BodyArrived(_, chunk, end):
            body = HttpBody(body=chunk, end_of_stream=end)
            return ProcessingRequest(request_body=body) if side else ProcessingRequest(response_body=body)
        case TrailersArrived(_, headers):
            last = HttpTrailers(trailers=_map(headers, dialect))
            return (
                ProcessingRequest(request_trailers=last)
                if side
                else ProcessingRequest(response_trailers=last)
            )


def _map(headers: Headers, dialect: Dialect) -> HeaderMap:
    found = HeaderMap()
    for name, value in headers:
        if name.startswith(":") and dialect is Dialect.AGENTGATEWAY:
            found.headers.append(HeaderValue(key=name, value=value))
        else:
            found.headers.append(HeaderValue(key=name, raw_value=value.encode("latin-1")))
    return found


def introduce(message: ProcessingRequest, opening: Opening) -> None:
    message.protocol_config.CopyFrom(
        ProtocolConfiguration(
            request_body_mode=_MODES[opening.request_mode], response_body_mode=_MODES[opening.response_mode]
        )
    )
    if opening.attributes:
        attributes = Struct()
        attributes.update(dict(opening.attributes))
        message.attributes[ATTRIBUTES_NAMESPACE].CopyFrom(attributes)


def answer(data: bytes) -> Answer:
    """What a gateway reads in a ``ProcessingResponse``."""
    found = ProcessingResponse.FromString(data)
    mode = None
    if found.HasField("mode_override"):
        override = found.mode_override
        mode = ModeOverride(BodyMode(override.request_body_mode), BodyMode(override.response_body_mode))
    match found.WhichOneof("response"):
        case "request_headers" | "response_headers" as kind:
            common = getattr(found, kind).response
            return HeadersAnswer(_side(kind), _mutation(common.header_mutation), mode)
        case "request_body" | "response_body" as kind:
            common = getattr(found, kind).response
            change: BodyMutation = None
            match common.body_mutation.WhichOneof("mutation"):
                case "body":
                    change = Whole(common.body_mutation.body)
                case "clear_body":
                    change = Cleared() if common.body_mutation.clear_body else None
                case "streamed_response":
                    streamed = common.body_mutation.streamed_response
                    change = Streamed(streamed.body, streamed.end_of_stream)
            return BodyAnswer(_side(kind), change, _mutation(common.header_mutation), mode)
        case "request_trailers" | "response_trailers" as kind:
            return TrailersAnswer(_side(kind), _mutation(getattr(found, kind).header_mutation))
        case _:
            local = found.immediate_response
            headers = tuple((one.name, one.value) for one in _mutation(local.headers).set)
            return ImmediateAnswer(local.status.code, headers, local.body)


def _side(kind: str) -> Side:
    return Side.REQUEST if kind.startswith("request") else Side.RESPONSE


def _mutation(found: HeaderMutation) -> Mutation:
    sets = tuple(
        Setting(
            option.header.key,
            option.header.raw_value.decode("latin-1") or option.header.value,
            _ACTIONS[option.append_action],
        )
        for option in found.set_headers
    )
    return Mutation(sets, tuple(found.remove_headers))
