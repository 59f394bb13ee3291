"""Arguments against schemas: what a model is told, and what can hold nobody up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft7Validator, Draft202012Validator

from extproc.schema import check
from extproc.schema.check import Checker, Heavy, Invalid, Unchecked, Valid
from tests.schema.test_fast import VALUES, schemas


def verdict(
    schema: object, value: object, *, aside: bool = False, depth: int = 64, nodes: int = 20_000
) -> Any:
    raw = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    arguments = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Checker(depth, nodes).check(raw, raw, arguments, aside=aside)


def problems(schema: object, value: object) -> tuple[str, ...]:
    found = verdict(schema, value)
    assert isinstance(found, Invalid), found
    return found.problems


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ({"properties": {"n": {"type": "integer"}}}, {"n": "1"}, 'arguments.n: "1" given, integer allowed'),
        ({"properties": {"n": {"type": ["integer", "null"]}}}, {"n": "1"}, "integer or null allowed"),
        ({"required": ["a", "b"]}, {"b": 1}, "arguments: required member missing: a"),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            "arguments: unknown member b; allowed: a",
        ),
        (
            {"properties": {"s": {"enum": ["x", "y"]}}},
            {"s": "z"},
            'arguments.s: "z" given, allowed: "x", "y"',
        ),
        ({"properties": {"s": {"const": 3}}}, {"s": 4}, "arguments.s: 4 given, allowed: 3"),
        ({"properties": {"n": {"minimum": 5}}}, {"n": 4}, "arguments.n: 4 given, allowed: minimum 5"),
        ({"properties": {"s": {"maxLength": 2}}}, {"s": "abc"}, "arguments.s: 3 long, allowed: maxLength 2"),
        ({"properties": {"s": {"pattern": "^a$"}}}, {"s": "b"}, 'allowed: text that matches "^a$"'),
        ({"properties": {"l": {"items": {"type": "string"}}}}, {"l": ["a", 2]}, "arguments.l[1]: 2 given"),
        (
            {"properties": {"v": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            {"v": 1},
            "allowed: one of 2 forms (string, null)",
        ),
        ({"properties": {"l": {"uniqueItems": True}}}, {"l": [1, 1.0]}, "not allowed by uniqueItems"),
        ({"not": {"required": ["a"]}}, {"a": 1}, "not allowed by not"),
    ],
)
def test_each_fault_is_named_with_place_and_allowed(schema: object, value: object, line: str) -> None:
    assert line in "\n".join(problems(schema, value))


def test_at_most_five_faults_and_short_lines() -> None:
    schema = {"properties": {f"p{n}": {"type": "integer"} for n in range(20)}}
    found = problems(schema, {f"p{n}": "x" * 10_000 for n in range(20)})
    assert len(found) == check.MAX_ERRORS
    assert all(len(line) < 300 for line in found)


@pytest.mark.parametrize(
    "dialect", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"]
)
def test_dialects(dialect: str) -> None:
    schema = {
        "$schema": dialect,
        "definitions": {"p": {"type": "string"}},
        "properties": {"a": {"$ref": "#/definitions/p"}},
    }
    assert isinstance(verdict(schema, {"a": 1}), Invalid)
    assert isinstance(verdict(schema, {"a": "x"}), Valid)


def test_before_2019_a_reference_hides_its_siblings() -> None:
    schema = {
        "definitions": {"any": {}},
        "properties": {"a": {"$ref": "#/definitions/any", "type": "string"}},
    }
    assert isinstance(
        verdict({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, {"a": 1}), Valid
    )
    assert isinstance(verdict(schema, {"a": 1}), Invalid)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (b"not json", "broken"),
        (b"[]", "broken"),
        ({"type": "strng"}, "broken"),
        ({"required": "name"}, "broken"),
        ({"properties": {"a": {"minimum": "5"}}}, "broken"),
        ({"properties": {"a": {"enum": "abc"}}}, "broken"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "reference"),
        ({"$ref": "file:///etc/passwd"}, "reference"),
        ({"$ref": "#/nowhere"}, "reference"),
        ({"$ref": "#"}, "recursive"),
        ({"$schema": "urn:unknown"}, "dialect"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "dialect"),
    ],
)
def test_a_schema_that_cannot_be_used_never_blocks_a_call(schema: object, reason: str) -> None:
    assert verdict(schema, {"a": 1}, aside=True) == Unchecked(reason)


def test_depth_and_size_are_bounded() -> None:
    deep: Any = {}
    for _ in range(80):
        deep = {"properties": {"a": deep}}
    assert verdict(deep, {}) == Unchecked("too_large")
    wide = {"properties": {f"p{n}": {} for n in range(200)}}
    assert verdict(wide, {}, nodes=100) == Unchecked("too_large")


def test_a_pattern_of_exponential_time_runs_in_linear_time() -> None:
    # Python's own matcher takes hours for this text; here it is done before the next line.
    found = problems({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50_000 + "!"})
    assert "arguments.a" in found[0]


@pytest.mark.parametrize("word", ["pattern", "patternProperties", "additionalProperties"])
def test_patterns_that_linear_time_cannot_do_are_skipped_and_counted(word: str) -> None:
    pattern = "(?=a)(a+)+\\1$"
    schema: dict[str, Any] = {
        "pattern": {"properties": {"a": {"pattern": pattern}}},
        "patternProperties": {"patternProperties": {pattern: {"type": "string"}}},
        "additionalProperties": {"patternProperties": {pattern: {}}, "additionalProperties": False},
    }[word]
    found = verdict(schema, {"a": 1} if word != "pattern" else {"a": "aaaa"})
    assert isinstance(found, Valid)
    assert found.skipped >= 1


def test_unevaluated_properties_never_run_a_pattern_of_the_standard_library() -> None:
    schema = {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}
    assert isinstance(verdict(schema, {"a" * 40 + "!": 1}), Valid)


def test_branches_that_multiply_are_given_up() -> None:
    branch = {"properties": {"a": {"$ref": "#"}}, "required": ["z"]}
    value = json.loads('{"a":' * 40 + "{}" + "}" * 40)
    assert verdict({"anyOf": [branch, branch]}, value) == Heavy()
    assert verdict({"anyOf": [branch, branch]}, value, aside=True) == Unchecked("steps")


def test_long_lists_are_left_to_a_thread() -> None:
    schema = {"properties": {"l": {"items": {"pattern": "^a$"}}}}
    value = {"l": ["a"] * 5_000}
    assert verdict(schema, value) == Heavy()
    assert isinstance(verdict(schema, value, aside=True), Valid)


def test_arguments_that_cannot_be_read_are_left_to_the_server() -> None:
    assert verdict({"type": "object"}, b"[" * 100_000) == Unchecked("arguments")


@settings(max_examples=400, deadline=None)
@given(schemas(), VALUES)
def test_the_verdict_is_the_one_of_the_reference(schema: dict[str, Any], value: object) -> None:
    found = verdict(schema, value, aside=True)
    assert isinstance(found, Valid) == Draft202012Validator(schema).is_valid(value)


def test_the_reference_of_draft_7_agrees_on_a_tuple() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"t": {"items": [{"type": "string"}]}},
    }
    for value in ({"t": ["a", 1]}, {"t": [1]}):
        assert isinstance(verdict(schema, value), Valid) == Draft7Validator(schema).is_valid(value)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every schema that is compiled, in order."""
    found: list[bytes] = []
    genuine = check.compile_schema

    def counted(schema: bytes, depth: int, nodes: int) -> object:
        found.append(schema)
        return genuine(schema, depth, nodes)

    monkeypatch.setattr(check, "compile_schema", counted)
    return found


def test_a_schema_is_compiled_once_for_its_digest(compiled: list[bytes]) -> None:
    checker = Checker(64, 20_000)
    schema, broken = b'{"type":"object"}', b'{"type":'
    for _ in range(3):
        assert checker.check(schema, b"one", b"{}") == Valid()
        assert isinstance(checker.check(broken, b"two", b"{}"), Unchecked)
    assert compiled == [schema, broken]


def test_compiled_schemas_are_bounded_oldest_first(compiled: list[bytes]) -> None:
    checker = Checker(64, 20_000, schemas=2)
    one, two, three = (b'{"type":"object","title":"%d"}' % number for number in (1, 2, 3))
    for schema in (one, two, three, two, three, one):
        assert checker.check(schema, schema, b"{}") == Valid()
    assert compiled == [one, two, three, one]


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        (b'{"t":"\\ud800","n":1}', True),
        (b'{"t":"\\ud800","n":"1"}', False),
        (b'{"n":1e400}', False),
        (b'{"n":-1e400}', True),
        (b'{"n":NaN}', True),
        (b'{"n":123456789012345678901234567890}', False),
        (b'{"n":-123456789012345678901234567890}', True),
    ],
)
def test_what_the_quickest_parser_does_not_take_is_checked_all_the_same(
    arguments: bytes, valid: bool
) -> None:
    schema = {
        "type": "object",
        "properties": {"t": {"type": "string"}, "n": {"type": "number", "maximum": 2**64}},
    }
    assert isinstance(verdict(schema, arguments), Valid if valid else Invalid)
