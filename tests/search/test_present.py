from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from extproc.search.present import one_line, slim_schema


def slim(schema: Any) -> Any:
    return json.loads(slim_schema(json.dumps(schema).encode()))


def test_titles_and_noise_go() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "createArguments",
        "type": "object",
        "properties": {"body": {"title": "Body", "type": "string", "description": "", "examples": ["x"]}},
        "required": [],
        "additionalProperties": True,
    }
    assert slim(schema) == {"type": "object", "properties": {"body": {"type": "string"}}}


def test_a_property_called_title_stays() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "title": "Title"}},
        "required": ["title"],
    }
    expected = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    assert slim(schema) == expected


def test_a_title_that_is_no_text_is_not_understood_and_stays() -> None:
    assert slim({"title": {"x": 1}, "type": "object"}) == {"title": {"x": 1}, "type": "object"}


def test_values_are_not_schemas() -> None:
    values = {
        "enum": [{"title": "a"}, 1.0],
        "default": {"title": "x", "required": []},
        "const": {"$schema": 1},
    }
    assert slim(values) == values


def test_numbers_and_strings_keep_their_spelling() -> None:
    raw = b'{"type":"number","default": 1.0,"maximum":1e400,"enum":[12345678901234567890123, "\\u00e9"]}'
    assert (
        slim_schema(raw)
        == b'{"type":"number","default":1.0,"maximum":1e400,"enum":[12345678901234567890123,"\\u00e9"]}'
    )


def test_a_plain_type_or_null_is_shortened() -> None:
    optional = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "Note"}
    assert slim(optional) == {"default": None, "description": "Note", "type": ["string", "null"]}
    kept = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}
    assert slim(kept) == kept
    typed = {"type": "string", "anyOf": [{"type": "string"}, {"type": "null"}]}
    assert slim(typed) == typed


def test_statements_of_defaults_stay_where_they_mean_something() -> None:
    schema = {"additionalProperties": True, "unevaluatedProperties": False}
    assert slim(schema) == schema


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[]", b"true", b'{"a"', b"5", b'{"type":"\xff"}'])
def test_what_is_no_object_comes_back(raw: bytes) -> None:
    assert slim_schema(raw) == raw


def test_deep_schemas_are_bounded() -> None:
    raw = b'{"items":' * 3000 + b"{}" + b"}" * 3000
    assert slim_schema(raw)
    deep = {"type": "string", "title": "deep"}
    for _ in range(100):
        deep = {"items": deep}  # type: ignore[dict-item]
    assert slim_schema(json.dumps(deep).encode())


names = st.sampled_from(["title", "name", "items", "properties", "$schema"])
values = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab", max_size=3))
leaves = st.one_of(
    st.booleans(),
    st.fixed_dictionaries({}, optional={"type": st.sampled_from(["string", "integer", "null", "object"])}),
    st.fixed_dictionaries({"enum": st.lists(st.one_of(values, st.dictionaries(names, values)), min_size=1)}),
)
schemas = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "title": st.text(max_size=4),
            "description": st.text(max_size=4),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, unique=True, max_size=2),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=8,
)
instances = st.recursive(
    values, lambda i: st.one_of(st.lists(i, max_size=3), st.dictionaries(names, i, max_size=3))
)


@settings(max_examples=200, deadline=None)
@given(schemas, instances)
def test_a_slim_schema_accepts_the_same_values(schema: Any, instance: Any) -> None:
    full, short = Draft202012Validator(schema), Draft202012Validator(slim(schema))
    assert full.is_valid(instance) == short.is_valid(instance)


@settings(deadline=None)
@given(schemas)
def test_slimming_twice_changes_nothing_and_never_adds(schema: Any) -> None:
    raw = json.dumps(schema, separators=(",", ":")).encode()
    once = slim_schema(raw)
    assert slim_schema(once) == once
    assert len(once) <= len(raw)


@pytest.mark.parametrize(
    ("text", "chars", "expected"),
    [
        ("Create an issue.", 100, "Create an issue."),
        ("Create\n  an   issue.", 100, "Create an issue."),
        ("Create an issue. It lands in the default column of the project.", 30, "Create an issue."),
        ("Version 1.2 is read. More", 22, "Version 1.2 is read."),
        ("Reads everything that was ever written by anyone", 30, "Reads everything that was…"),
        ("创建一个新问题。然后通知所有人并更新看板。", 12, "创建一个新问题。"),
        ("", 10, ""),
        ("anything", 0, ""),
    ],
)
def test_one_line(text: str, chars: int, expected: str) -> None:
    assert one_line(text, chars) == expected


@given(st.text(max_size=300), st.integers(1, 120))
def test_one_line_is_one_line_within_bounds(text: str, chars: int) -> None:
    line = one_line(text, chars)
    assert len(line) <= chars
    assert "\n" not in line
