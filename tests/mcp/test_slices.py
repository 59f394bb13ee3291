"""Objects taken apart without touching what is in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.catalog.parse import parse_page
from extproc.exchange.messages import Opening, Request
from extproc.mcp import slices, slowly
from extproc.rewriter import routes
from extproc.settings import Tools

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n ")])


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5), SEPARATORS, st.booleans())
def test_both_ways_find_the_same_members(
    value: dict[str, object], separators: tuple[str, str], ascii: bool
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii)
    assert dict(slowly.elements(f" {text}\n", "{")) == slices.members(text.encode("utf-8"))


@given(st.lists(VALUES, max_size=5), SEPARATORS)
def test_both_ways_find_the_same_elements(value: list[object], separators: tuple[str, str]) -> None:
    text = json.dumps(value, separators=separators)
    assert [raw for _, raw in slowly.elements(text, "[")] == slices.items(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}x",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a":1 "b":2}',
        '{"a":NaN}',
        '{"a":"\x01"}',
        "[1,]",
        "nul",
    ],
)
def test_what_is_no_json_is_refused_both_ways(text: str) -> None:
    for opening in "{[":
        with pytest.raises(slowly.NotAnObject):
            slowly.elements(text, opening)
    with pytest.raises(slices.NotAnObject):
        slices.members(text.encode())


HALF = b'{"a":"\\ud83d","b":{"c":1.0},"\\udfff":[ 1 ]}'


def test_half_a_surrogate_pair_is_taken_and_kept() -> None:
    found = slices.members(HALF)
    assert found["a"] == b'"\\ud83d"'
    assert found["b"] == b'{"c":1.0}'
    assert json.loads(slices.join(found)) == json.loads(HALF)
    assert slices.items(b'["\\ud83d", 2.50]') == [b'"\\ud83d"', b"2.50"]
    with pytest.raises(slices.Ambiguous):
        slices.members(b'{"a":"\\ud83d","a":1}')


def test_depth_is_an_answer_both_ways() -> None:
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000
    for text in (deep + b"}", deep + b',"b":"\\ud83d"}'):
        with pytest.raises(slices.TooDeep):
            slices.members(text)


def test_a_list_with_a_cut_emoji_is_learned() -> None:
    """Servers that cut descriptions by UTF-16 units leave half a pair behind."""
    listed = b'{"tools":[{"name":"a","description":"fine \\ud83d"},{"name":"b"},{"name":"\\ud83d"}]}'
    page = parse_page(listed, Tools(), modern=False)
    assert [(tool.name, tool.description) for tool in page.tools] == [("a", "fine \ufffd"), ("b", "")]
    assert page.dropped == 1
    assert b"\\ud83d" in page.tools[0].raw


def request(body: bytes) -> routes.Route:
    return routes.route(Request(((":method", "POST"),), body, Opening()))


def test_names_that_a_router_reads_are_spelled_plainly() -> None:
    call = request(b'{"jsonrpc":"2.0","id":1.0e0,"method":"tools/call","params":{"name":"a\\u005fb"}}')
    assert isinstance(call, routes.Refused)
    call = request(b'{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"a\\u005fb","n":1.0}}')
    assert isinstance(call, routes.CallsDirect)
    assert call.name == "a_b"
    assert call.rpc.unchanged == (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a_b","n":1.0}}'
    )
    get = request(b'{"id":1,"method":"prompts/get","params":{"name":"a\\u005fb"}}')
    assert get == routes.Respelled(b'{"id":1,"method":"prompts/get","params":{"name":"a_b"}}')
    kept = request(b'{"id":1,"method":"prompts/get","params":{"name":"a\\"b\\\\c"}}')
    assert kept == routes.Untouched()


def test_a_deep_array_is_refused() -> None:
    assert isinstance(request(b"[" * 100_000), routes.Untouched | routes.Refused)
    assert isinstance(request(b"[" * 20_000 + b"]" * 20_000), routes.Refused)
