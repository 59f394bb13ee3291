"""What the arguments of the six say, wherever a model has put them."""

from __future__ import annotations

import json

import pytest

from extproc.rewriter import arguments
from extproc.rewriter.arguments import CallArguments, Problem


def call(text: str) -> CallArguments | Problem:
    return arguments.call(text.encode(), "call_read_tool")


@pytest.mark.parametrize(
    ("text", "forwarded"),
    [
        (
            '{"name":"a__b","arguments":{"n":1.0,"big":123456789012345678901}}',
            b'{"n":1.0,"big":123456789012345678901}',
        ),
        ('{"name":"a__b"}', b"{}"),
        ('{"name":"a__b","arguments":null}', b"{}"),
        ('{"name":"a__b","arguments":""}', b"{}"),
        ('{"name":"a__b","arguments":"{\\"n\\": 1.0}"}', b'{"n": 1.0}'),
        ('{"name":"a__b","n":1.50}', b'{"n":1.50}'),
        ('{"name":"a__b","arguments":{},"n":1.50}', b'{"n":1.50}'),
        ('{"name":"a__b","parameters":{"n":1}}', b'{"n":1}'),
        ('{"name":"a__b","args":"{\\"n\\":1}"}', b'{"n":1}'),
        ('{"tool_name":"a__b","arguments":{"n":1}}', b'{"n":1}'),
        ('{"name":"a__b","arguments":{"name":"a__b","arguments":{"n":1}}}', b'{"n":1}'),
        ('"{\\"name\\":\\"a__b\\",\\"arguments\\":{\\"n\\":1}}"', b'{"n":1}'),
    ],
)
def test_the_likeliest_reading(text: str, forwarded: bytes) -> None:
    found = call(text)
    assert isinstance(found, CallArguments), found
    assert (found.name, found.arguments) == ("a__b", forwarded)


def test_a_second_reading_is_kept_where_the_schema_has_to_decide() -> None:
    found = call('{"name":"a__b","parameters":{"n":1}}')
    assert isinstance(found, CallArguments)
    assert [reading.arguments for reading in found.readings] == [b'{"n":1}', b'{"parameters":{"n":1}}']
    nested = call('{"name":"a__b","arguments":{"name":"a__b","arguments":{"n":1}}}')
    assert isinstance(nested, CallArguments)
    assert nested.readings[1].arguments == b'{"name":"a__b","arguments":{"n":1}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "an array given"),
        ("7", "a number given"),
        ('{"arguments":{}}', "name must be a string"),
        ('{"name":7}', "name must be a string"),
        ('{"name":""}', "must not be empty"),
        ('{"name":"a","arguments":[1]}', "an array given"),
        ('{"name":"a","arguments":true}', "a boolean given"),
        ('{"name":"a","arguments":"not json"}', "a string given"),
        ('{"name":"a","arguments":"[1]"}', "a string given"),
        ('{"name":"a","arguments":{"x":1},"y":2}', "beside it: y"),
        ('{"name":"a","name":"b"}', "stands twice"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, words: str) -> None:
    found = call(text)
    assert isinstance(found, Problem)
    assert words in found.text


def test_the_forwarded_bytes_depend_on_the_received_ones_only() -> None:
    text = '{"name":"a__b","b":2,"a":1.10}'
    assert call(text) == call(text)


@pytest.mark.parametrize(
    ("given", "queries"),
    [
        ({"queries": ["a", " b "]}, ("a", "b")),
        ({"queries": "a"}, ("a",)),
        ({"query": "a"}, ("a",)),
        ({"queries": '["a","b"]'}, ("a", "b")),
    ],
)
def test_queries(given: object, queries: tuple[str, ...]) -> None:
    found = arguments.search(json.dumps(given).encode())
    assert isinstance(found, arguments.SearchArguments)
    assert found.queries == queries


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "queries is missing"),
        ({"queries": []}, "non-empty"),
        ({"queries": ["", "  "]}, "non-empty"),
        ({"queries": [1]}, "non-empty strings"),
        ({"queries": ["a"] * 6}, "at most 5"),
        ({"queries": ["a"], "limit": 0}, "positive integer"),
        ({"queries": ["a"], "limit": -1}, "positive integer"),
        ({"queries": ["a"], "limit": 1.5}, "positive integer"),
        ({"queries": ["a"], "limit": "many"}, "positive integer"),
        ({"queries": ["a"], "server": 5}, "server must be a string"),
        ({"queries": {"a": 1}}, "an object given"),
    ],
)
def test_searches_that_cannot_be_made(given: object, words: str) -> None:
    found = arguments.search(json.dumps(given).encode())
    assert isinstance(found, Problem)
    assert words in found.text


@pytest.mark.parametrize(("limit", "number"), [(3, 3), (10**9, 10**9), ("3", 3), (3.0, 3), (None, None)])
def test_limits(limit: object, number: int | None) -> None:
    found = arguments.search(json.dumps({"queries": ["a"], "limit": limit}).encode())
    assert isinstance(found, arguments.SearchArguments)
    assert found.limit == number


def test_names_are_taken_once_and_bounded() -> None:
    found = arguments.describe(b'{"names":["a","b","a"]}')
    assert found == arguments.DescribeArguments(("a", "b"))
    assert isinstance(
        arguments.describe(json.dumps({"names": [str(n) for n in range(11)]}).encode()), Problem
    )


def test_entries_of_a_batch() -> None:
    found = arguments.many(b'{"calls":[{"name":"a","arguments":{"n":1.0}},{"name":"b"}]}', 10)
    assert not isinstance(found, Problem)
    assert [(each.name, each.arguments) for each in found] == [("a", b'{"n":1.0}'), ("b", b"{}")]
    for text, words in (
        (b'{"calls":[]}', "0 calls given"),
        (b'{"calls":[{"name":"a"},{"name":"b"},{"name":"c"}]}', "3 calls given, 1 to 2"),
        (b'{"calls":7}', "must be an array"),
        (b'{"calls":[{"name":"a"},{"arguments":{}}]}', "call 2"),
    ):
        refused = arguments.many(text, 2)
        assert isinstance(refused, Problem)
        assert words in refused.text
