"""Commands to bytes of a ``ProcessingResponse``."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from google.protobuf.struct_pb2 import Struct

from extproc.codec.wire_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    HttpStatus,
    ImmediateResponse,
    ProcessingMode,
    ProcessingResponse,
    StreamedBodyResponse,
    TrailersResponse,
)
from extproc.exchange.messages import (
    METADATA_NAMESPACE,
    REPEATABLE,
    AnswerBody,
    AnswerHeaders,
    AnswerTrailers,
    BodyMode,
    Headers,
    Immediate,
    ModeOverride,
    Side,
    StreamBody,
)

Sendable: TypeAlias = AnswerHeaders | AnswerBody | StreamBody | AnswerTrailers | Immediate
"""Commands that are one message on the wire."""

# Overwrite, never append: a client's own copy of a header must not survive next to ours.
_OVERWRITE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD

_BODY_MODES = {
    BodyMode.NONE: ProcessingMode.NONE,
    BodyMode.STREAMED: ProcessingMode.STREAMED,
    BodyMode.BUFFERED: ProcessingMode.BUFFERED,
    BodyMode.BUFFERED_PARTIAL: ProcessingMode.BUFFERED_PARTIAL,
    BodyMode.FULL_DUPLEX: ProcessingMode.FULL_DUPLEX_STREAMED,
}


def encode(command: Sendable) -> bytes:
    """One ``ProcessingResponse``.

    Header values are latin-1 text and travel in ``raw_value``.  Raises ``UnicodeEncodeError`` for a value
    outside latin-1: that is a defect of whoever made the command, not of the peer.
    """
    match command:
        case AnswerHeaders(side=side, set=(), remove=(), mode=None, repeatable=False):
            return _KEEP_HEADERS[side]
        case AnswerHeaders(side=Side.RESPONSE, set=()):
            return _removals(command)
        case AnswerHeaders():
            return _answer_headers(command)
        case AnswerBody(side=side, body=None, set=(), remove=(), repeatable=False):
            return _KEEP_BODY[side]
        case AnswerBody():
            return _answer_body(command)
        case StreamBody(side=side, chunk=chunk, end_of_stream=end):
            mutation = BodyMutation(streamed_response=StreamedBodyResponse(body=chunk, end_of_stream=end))
            return _body(side, CommonResponse(body_mutation=mutation))
        case AnswerTrailers(side=side):
            return _KEEP_TRAILERS[side]
        case Immediate():
            return _immediate(command)


@lru_cache(maxsize=64)
def _removals(command: AnswerHeaders) -> bytes:
    # Of these there are a handful: the headers that go with an answer that is read, in each mode.
    return _answer_headers(command)


def _answer_headers(command: AnswerHeaders) -> bytes:
    answer = HeadersResponse(response=CommonResponse(header_mutation=_mutation(command.set, command.remove)))
    mode = _mode(command.mode)
    if command.side is Side.REQUEST:
        return ProcessingResponse(
            request_headers=answer, mode_override=mode, dynamic_metadata=_metadata(command.repeatable)
        ).SerializeToString()
    return ProcessingResponse(response_headers=answer, mode_override=mode).SerializeToString()


def _answer_body(command: AnswerBody) -> bytes:
    if command.body is None:
        change = None
    elif command.body:
        change = BodyMutation(body=command.body)
    else:
        change = BodyMutation(clear_body=True)
    mutation = _mutation(command.set, command.remove)
    common = CommonResponse(header_mutation=mutation, body_mutation=change)
    return _body(command.side, common, command.repeatable)


def _body(side: Side, common: CommonResponse, repeatable: bool = False) -> bytes:
    answer = BodyResponse(response=common)
    if side is Side.REQUEST:
        return ProcessingResponse(
            request_body=answer, dynamic_metadata=_metadata(repeatable)
        ).SerializeToString()
    return ProcessingResponse(response_body=answer).SerializeToString()


def _immediate(command: Immediate) -> bytes:
    return ProcessingResponse(
        immediate_response=ImmediateResponse(
            status=HttpStatus(code=command.status),
            headers=_mutation(command.headers, ()),
            body=command.body,
            details=command.details,
        )
    ).SerializeToString()


def _mutation(sets: Headers, removals: tuple[str, ...]) -> HeaderMutation | None:
    if not sets and not removals:
        return None
    return HeaderMutation(
        set_headers=[
            HeaderValueOption(
                header=HeaderValue(key=name, raw_value=value.encode("latin-1")),
                append_action=_OVERWRITE,
                keep_empty_value=not value,
            )
            for name, value in sets
        ],
        remove_headers=removals,
    )


def _metadata(repeatable: bool) -> Struct | None:
    return _REPEATABLE if repeatable else None


def _mode(mode: ModeOverride | None) -> ProcessingMode | None:
    if mode is None:
        return None
    return ProcessingMode(
        request_body_mode=_BODY_MODES[mode.request], response_body_mode=_BODY_MODES[mode.response]
    )


_REPEATABLE = Struct()
_REPEATABLE.update({METADATA_NAMESPACE: {REPEATABLE: True}})
_KEEP_HEADERS = {
    Side.REQUEST: ProcessingResponse(request_headers=HeadersResponse()).SerializeToString(),
    Side.RESPONSE: ProcessingResponse(response_headers=HeadersResponse()).SerializeToString(),
}
_KEEP_BODY = {
    Side.REQUEST: ProcessingResponse(request_body=BodyResponse()).SerializeToString(),
    Side.RESPONSE: ProcessingResponse(response_body=BodyResponse()).SerializeToString(),
}
_KEEP_TRAILERS = {
    Side.REQUEST: ProcessingResponse(request_trailers=TrailersResponse()).SerializeToString(),
    Side.RESPONSE: ProcessingResponse(response_trailers=TrailersResponse()).SerializeToString(),
}
