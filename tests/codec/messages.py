"""Strategies that make any message of the wire description."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

HTTP_CODES = (200, 202, 400, 401, 403, 404, 413, 429, 500, 503, 504)
_DEPTH = 3


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, depth: int = 0) -> Message:
    message = GetMessageClass(descriptor)()
    if descriptor.full_name == "google.protobuf.Duration":
        message.seconds = draw(st.integers(0, 3600))
        message.nanos = draw(st.integers(0, 999_999)) * 1000
        return message
    chosen = {oneof.name: draw(st.sampled_from([None, *oneof.fields])) for oneof in descriptor.oneofs}
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and chosen[oneof.name] is not field:
            continue
        if oneof is None and not draw(st.booleans()):
            continue
        _fill(draw, message, field, depth)
    return message


def _fill(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    nested = field.message_type
    if nested is None:
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(_scalar(field), max_size=3)))
        else:
            setattr(message, field.name, draw(_scalar(field)))
        return
    if depth > _DEPTH and nested.full_name.startswith("google.protobuf."):
        return
    if nested.GetOptions().map_entry:
        value = nested.fields_by_name["value"].message_type
        for key in draw(st.lists(st.text(max_size=8), max_size=2, unique=True)):
            getattr(message, field.name)[key].CopyFrom(draw(messages(value, depth + 1)))
    elif field.is_repeated:
        for _ in range(draw(st.integers(0, 3))):
            getattr(message, field.name).add().CopyFrom(draw(messages(nested, depth + 1)))
    else:
        getattr(message, field.name).CopyFrom(draw(messages(nested, depth + 1)))


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.full_name == "toolsearch.wire.v1.HttpStatus.code":
        return st.sampled_from(HTTP_CODES)
    return {
        FieldDescriptor.TYPE_STRING: st.text(max_size=20),
        FieldDescriptor.TYPE_BYTES: st.binary(max_size=40),
        FieldDescriptor.TYPE_BOOL: st.booleans(),
        FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
        FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
        FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    }[field.type]
