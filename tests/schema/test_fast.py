"""The quick yes is never a wrong yes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from extproc.schema.fast import accepts

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1.0, 0.5, -2.0, 1e300]),
    st.sampled_from(["", "a", "ab", "é", "1"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


def schemas() -> st.SearchStrategy[Any]:
    leaf = st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
            "enum": st.lists(st.sampled_from(["a", "ab", "x"]), min_size=1, max_size=2),
            "minimum": st.sampled_from([0, 0.5, 2]),
            "maximum": st.sampled_from([0, 1.5]),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
            "description": st.just("text"),
        },
    )

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.builds(
            lambda base, more: {**base, **more},
            leaf,
            st.fixed_dictionaries(
                {},
                optional={
                    "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
                    "additionalProperties": st.one_of(st.booleans(), inner),
                    "items": inner,
                    "anyOf": st.lists(inner, min_size=1, max_size=2),
                },
            ),
        )

    return st.recursive(leaf, grow, max_leaves=5)


@settings(max_examples=600, deadline=None)
@given(schemas(), VALUES)
def test_whatever_is_accepted_is_valid(schema: dict[str, Any], value: object) -> None:
    test = accepts(schema)
    assert test is not None, "all these keywords are handled"
    if test(value):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"n": 1}),
        ({"properties": {"s": {"enum": ["a", "b"]}}, "additionalProperties": False}, {"s": "b"}),
        ({"properties": {"l": {"type": "array", "items": {"type": "string"}}}}, {"l": ["x"]}),
        ({"properties": {"o": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, {"o": None}),
    ],
)
def test_everyday_calls_are_accepted(schema: dict[str, Any], value: object) -> None:
    test = accepts(schema)
    assert test is not None
    assert test(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"properties": {"a": {"oneOf": []}}},
        {"$ref": "#/$defs/a"},
        {"type": "strng"},
        {"required": "a"},
        {"properties": []},
        {"enum": [1]},
        {"items": False},
        7,
    ],
)
def test_anything_unusual_is_left_to_the_full_validator(schema: object) -> None:
    assert accepts(schema) is None


def test_nesting_is_bounded() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50):
        schema = {"items": schema}
    assert accepts(schema) is None
