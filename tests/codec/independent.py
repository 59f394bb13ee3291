"""The same messages in the classes of envoy-data-plane: a complete description, not made by this project."""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from typing import Any

import betterproto2
from envoy_data_plane.envoy.service.ext_proc import v3
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

REQUEST = v3.ProcessingRequest
RESPONSE = v3.ProcessingResponse


def known_fields(cls: type[Any]) -> dict[str, Any]:
    return {field.name: field.metadata["betterproto"] for field in dataclasses.fields(cls)}


def member_class(cls: type[Any], name: str) -> Any:
    """The class of a member: of the value for a map, of one element for a list."""
    return _innermost(typing.get_type_hints(cls)[name])


def _innermost(hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin is None:
        return hint
    arguments = [each for each in typing.get_args(hint) if each is not types.NoneType]
    return _innermost(arguments[-1] if origin is dict else arguments[0])


def convert(message: Message, cls: type[Any]) -> Any:
    """``message`` member by member as ``cls``; nothing goes through bytes on the way."""
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        inner = member_class(cls, field.name)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            nested = entry.fields_by_name["value"].message_type is not None
            values[field.name] = {key: convert(value[key], inner) if nested else value[key] for key in value}
        elif field.is_repeated:
            values[field.name] = [_single(each, inner) for each in value]
        else:
            values[field.name] = _single(value, inner)
    return cls(**values)


def _single(value: Any, inner: Any) -> Any:
    if isinstance(value, Duration):
        return datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if isinstance(value, Message):
        return convert(value, inner)
    if isinstance(inner, type) and issubclass(inner, betterproto2.Enum):
        return inner(value)
    return value
