"""Bytes of a ``ProcessingRequest`` to an event; nothing here raises on what a peer sends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from extproc.codec.wire_pb2 import HeaderMap, ProcessingRequest
from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Dialect,
    Event,
    Headers,
    HeadersArrived,
    Opening,
    Side,
    TrailersArrived,
)

ATTRIBUTES_NAMESPACE = "envoy.filters.http.ext_proc"
"""Where both gateways put ``request_attributes``."""

_WHOLE_NUMBER_LIMIT = float(2**53)
_BODY_MODES = {mode.value: mode for mode in BodyMode}


class Malformed(msgspec.Struct, frozen=True):
    """A message no event can be made of.  ``reason`` names the defect and holds nothing the peer sent."""

    reason: str


class First(msgspec.Struct, frozen=True):
    """The first message of a stream."""

    opening: Opening
    event: Event


Decoded: TypeAlias = Event | Malformed


def decode(data: bytes) -> Decoded:
    """Event of one ``ProcessingRequest`` after the first of its stream."""
    try:
        message = ProcessingRequest.FromString(data)
    except DecodeError:
        return Malformed("not a ProcessingRequest")
    return _event(message)


def decode_first(data: bytes, profile: str = "") -> First | Malformed:
    """Opening and event of the first ``ProcessingRequest`` of a stream.

    ``profile`` comes from the stream's own metadata.  Attributes are flattened to text: those of
    ``request_attributes`` under their own names, what ``metadata_context`` carries under
    ``metadata:<namespace>:<dotted path>``.
    A stream that says nothing about body modes (old gateways) gets the modes of :class:`Opening`.
    """
    try:
        message = ProcessingRequest.FromString(data)
    except DecodeError:
        return Malformed("not a ProcessingRequest")
    if message.observability_mode:
        # No answer counts in this mode: the raw tool list would go through unfiltered.
        return Malformed("observability_mode is on, answers would be ignored")
    event = _event(message)
    if isinstance(event, Malformed):
        return event
    attributes = _attributes(message)
    dialect = _dialect(message)
    if not message.HasField("protocol_config"):
        return First(Opening(dialect=dialect, attributes=attributes, profile=profile), event)
    config = message.protocol_config
    request_mode = _BODY_MODES.get(config.request_body_mode)
    response_mode = _BODY_MODES.get(config.response_body_mode)
    if request_mode is None or response_mode is None:
        return Malformed("a body mode that is not for HTTP messages")
    return First(Opening(request_mode, response_mode, dialect, attributes, profile), event)


def _event(message: ProcessingRequest) -> Decoded:
    match message.WhichOneof("request"):
        case "request_headers":
            head = message.request_headers
            return HeadersArrived(Side.REQUEST, _headers(head.headers), head.end_of_stream)
        case "request_body":
            body = message.request_body
            return BodyArrived(Side.REQUEST, body.body, body.end_of_stream)
        case "response_headers":
            head = message.response_headers
            return HeadersArrived(Side.RESPONSE, _headers(head.headers), head.end_of_stream)
        case "response_body":
            body = message.response_body
            return BodyArrived(Side.RESPONSE, body.body, body.end_of_stream)
        case "request_trailers":
            return TrailersArrived(Side.REQUEST, _headers(message.request_trailers.trailers))
        case "response_trailers":
            return TrailersArrived(Side.RESPONSE, _headers(message.response_trailers.trailers))
        case _:
            return Malformed("neither headers, nor a body, nor trailers")


def _headers(headers: HeaderMap) -> Headers:
    # Envoy fills raw_value, agentgateway puts pseudo headers in value: whichever is set counts.
    return tuple(
        [
            (
                header.key.lower(),
                raw.decode("latin-1") if (raw := header.raw_value) else _latin1(header.value),
            )
            for header in headers.headers
        ]
    )


def _latin1(text: str) -> str:
    return text if text.isascii() else text.encode().decode("latin-1")


def _dialect(message: ProcessingRequest) -> Dialect:
    # Only agentgateway sends pseudo headers as text.  Without a headers message nothing tells the two apart.
    if message.WhichOneof("request") == "request_headers":
        for header in message.request_headers.headers.headers:
            if header.key.startswith(":"):
                return Dialect.AGENTGATEWAY if header.value and not header.raw_value else Dialect.ENVOY
    return Dialect.ENVOY


def _attributes(message: ProcessingRequest) -> Mapping[str, str]:
    found: dict[str, str | None] = {}
    if message.HasField("metadata_context"):
        for namespace, struct in message.metadata_context.filter_metadata.items():
            _flatten(f"metadata:{namespace}:", struct, found)
    if ATTRIBUTES_NAMESPACE in message.attributes:
        own: dict[str, str | None] = {}
        _flatten("", message.attributes[ATTRIBUTES_NAMESPACE], own)
        found.update(own)
    return {name: value for name, value in found.items() if value is not None}


def _flatten(prefix: str, struct: Struct, into: dict[str, str | None]) -> None:
    pending: list[tuple[str, Iterable[tuple[str, Value]]]] = [(prefix, struct.fields.items())]
    while pending:
        prefix, fields = pending.pop()
        for name, value in fields:
            path = prefix + name
            if value.WhichOneof("kind") == "struct_value":
                pending.append((path + ".", value.struct_value.fields.items()))
            elif (text := _text(value)) is not None:
                # With "a.b" and b inside a, one claim could pose as another: neither counts.
                into[path] = None if path in into else text


def _text(value: Value) -> str | None:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return _number(value.number_value)
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "list_value":
            return json.dumps(_plain_list(value.list_value), separators=(",", ":"), sort_keys=True)
        case _:
            return None


def _number(number: float) -> str:
    # A Struct knows doubles only: 42 arrives as 42.0 and has to read as 42 again.
    if number.is_integer() and abs(number) < _WHOLE_NUMBER_LIMIT:
        return str(int(number))
    return repr(number)


def _plain_list(values: ListValue) -> list[object]:
    return [_plain(value) for value in values.values]


def _plain(value: Value) -> object:
    match value.WhichOneof("kind"):
        case "list_value":
            return _plain_list(value.list_value)
        case "struct_value":
            return {name: _plain(member) for name, member in value.struct_value.fields.items()}
        case "null_value" | None:
            return None
        case _:
            return _text(value)
