"""Our description of the wire against envoy-data-plane's, in both directions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.codec.wire_pb2 import ProcessingRequest, ProcessingResponse
from tests.codec.independent import REQUEST, RESPONSE, convert, known_fields, member_class
from tests.codec.messages import messages

ROOT = Path(__file__).parents[2]

_TYPES = {
    FieldDescriptor.TYPE_STRING: {"string"},
    FieldDescriptor.TYPE_BYTES: {"bytes"},
    FieldDescriptor.TYPE_BOOL: {"bool"},
    FieldDescriptor.TYPE_DOUBLE: {"double"},
    FieldDescriptor.TYPE_UINT32: {"uint32"},
    # HttpStatus.code: the same bytes on the wire.
    FieldDescriptor.TYPE_INT32: {"int32", "enum"},
    FieldDescriptor.TYPE_ENUM: {"enum"},
    FieldDescriptor.TYPE_MESSAGE: {"message", "map"},
}


def compare(ours: Descriptor, theirs: type[Any], seen: set[str], differences: list[str]) -> None:
    if ours.full_name in seen:
        return
    seen.add(ours.full_name)
    known = known_fields(theirs)
    for field in ours.fields:
        other = known.get(field.name)
        label = field.full_name
        if other is None:
            differences.append(f"{label}: not in the independent description")
            continue
        if other.number != field.number:
            differences.append(f"{label}: number {field.number}, should be {other.number}")
        if other.proto_type not in _TYPES[field.type]:
            differences.append(f"{label}: should be {other.proto_type}")
        mapped = field.message_type is not None and field.message_type.GetOptions().map_entry
        if (other.map_meta is not None) != mapped or other.repeated != (field.is_repeated and not mapped):
            differences.append(f"{label}: repeated or map on one side only")
        oneof = field.containing_oneof
        if other.group != (oneof.name if oneof is not None else None):
            differences.append(f"{label}: in another oneof")
        if field.enum_type is not None:
            values = {each.name: each.value for each in member_class(theirs, field.name)}
            ours_values = {each.name: each.number for each in field.enum_type.values}
            if ours_values != values:
                differences.append(f"{label}: enumeration {ours_values}, should be {values}")
        nested = field.message_type
        if mapped:
            nested = nested.fields_by_name["value"].message_type
        if nested is not None and not nested.full_name.startswith("google.protobuf."):
            compare(nested, member_class(theirs, field.name), seen, differences)


@pytest.mark.parametrize(("ours", "theirs"), [(ProcessingRequest, REQUEST), (ProcessingResponse, RESPONSE)])
def test_every_field_has_the_number_and_type_of_the_independent_description(
    ours: type[Message], theirs: type[Any]
) -> None:
    seen: set[str] = set()
    differences: list[str] = []
    compare(ours.DESCRIPTOR, theirs, seen, differences)
    assert differences == []
    assert len(seen) >= 8


@settings(deadline=None, max_examples=100)
@given(st.data())
@pytest.mark.parametrize(("ours", "theirs"), [(ProcessingRequest, REQUEST), (ProcessingResponse, RESPONSE)])
def test_bytes_mean_the_same_in_both_directions(
    ours: type[Message], theirs: type[Any], data: st.DataObject
) -> None:
    message = data.draw(messages(ours.DESCRIPTOR))
    independent = convert(message, theirs)
    assert theirs.parse(message.SerializeToString()) == independent
    assert ours.FromString(bytes(independent)) == message


def test_generated_code_is_what_the_protos_say(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "generate_protos.sh"
    subprocess.run(
        ["sh", str(script), str(tmp_path)],
        check=True,
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"},
    )
    for name in ("wire_pb2.py", "wire_pb2.pyi"):
        fresh = (tmp_path / "extproc" / "codec" / name).read_text()
        committed = (ROOT / "extproc" / "codec" / name).read_text()
        # The generator stamps its own release into the code; the description is what has to agree.
        assert _unstamped(fresh) == _unstamped(committed)


def _unstamped(text: str) -> list[str]:
    lines = text.splitlines()
    if any("ValidateProtobufRuntimeVersion" in line for line in lines):
        start = next(i for i, line in enumerate(lines) if "ValidateProtobufRuntimeVersion" in line)
        lines = lines[:start] + lines[start + 8 :]
    return [line for line in lines if not line.startswith("# Protobuf Python Version")]
