"""The one look at a compact call comes to what the ladder of checks comes to."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extproc.exchange.messages import Headers, Opening, Request
from extproc.rewriter import compact, routes
from extproc.rewriter.meta_tools import CLASS_OF, Meta

LEGACY: Headers = ((":method", "POST"), ("mcp-protocol-version", "2025-06-18"), ("mcp-session-id", "s"))
MODERN: Headers = (
    (":method", "POST"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "call_read_tool"),
    ("mcp-param-x", "y"),
)
VERSION = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
WRAPPER = '"arguments":{"name":"a__b","arguments":{"text":"x y","n":1.0}}'
PLAIN = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"call_read_tool",' + WRAPPER + "}}"
IDS = ("7", "0", "-1", '"x"', "123456789012345678901234567890")
ENVELOPES = (
    '{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}',
    '{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":{id}}}',
)
PARAMS = (
    f'{{"name":"{{tool}}",{WRAPPER}}}',
    f'{{"name":"{{tool}}",{WRAPPER},{VERSION}}}',
    f'{{{VERSION},"name":"{{tool}}",{WRAPPER}}}',
    '{"name":"{tool}","arguments":{"arguments":{},"name":"a"}}',
)


def by_the_ladder(request: Request, monkeypatch: pytest.MonkeyPatch) -> routes.Route:
    with monkeypatch.context() as patch:
        patch.setattr(compact, "read", lambda body: None)
        return routes.route(request)


def agree(body: bytes, headers: Headers, monkeypatch: pytest.MonkeyPatch) -> routes.Route:
    """Both ways to the same route, and to the same bytes when name and arguments change."""
    request = Request(headers, body, Opening())
    at_once, slowly = routes.route(request), by_the_ladder(request, monkeypatch)
    if isinstance(at_once, routes.CallsTool) and isinstance(slowly, routes.CallsTool):
        assert list(at_once.rpc.params) == list(slowly.rpc.params)
        params = {**at_once.rpc.params, "name": b'"other"', "arguments": b"{}"}
        assert at_once.rpc.with_params(params) == slowly.rpc.with_params(params)
        at_once = replace(at_once, rpc=replace(at_once.rpc, frame=None))
    assert at_once == slowly
    return at_once


@pytest.mark.parametrize("tool", CLASS_OF)
@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("number", IDS)
def test_what_clients_write_is_read_at_once(
    envelope: str, params: str, tool: Meta, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = envelope.format(id=number, params=params.replace("{tool}", tool)).encode()
    found = compact.read(body)
    assert found is not None
    assert found.parsed.name == json.loads(body)["params"]["arguments"]["name"]
    for headers in (LEGACY, MODERN, (*MODERN, ("mcp-method", "tools/call"))):
        route = agree(body, headers, monkeypatch)
        assert isinstance(route, routes.CallsTool | routes.Refused)


@pytest.mark.parametrize(
    "body",
    [
        PLAIN.replace('"id":7', '"id": 7'),
        PLAIN.replace('"id":7', '"id":7,"id":8'),
        PLAIN.replace('"id":7', '"id":7,"more":1'),
        PLAIN.replace('"id":7,', ""),
        PLAIN.replace('"2.0"', '"1.0"'),
        PLAIN.replace("a__b", "a__\\u0062"),
        PLAIN.replace("x y", "x\\ny"),
        PLAIN.replace("x y", "é"),
        PLAIN.replace('"name":"a__b"', '"name":"a__b","name":"c"'),
        PLAIN.replace('"name":"a__b"', '"name":""'),
        PLAIN.replace('"name":"a__b"', '"name":1'),
        PLAIN.replace('"n":1.0', '"arguments":{}'),
        PLAIN.replace("call_read_tool", "search_tools"),
        PLAIN.replace("call_read_tool", "a__b"),
        PLAIN.replace("tools/call", "tools/list"),
        PLAIN.replace('{"text":"x y","n":1.0}', '"{}"'),
        PLAIN.replace('"params":{', '"params":{"requestState":"s",'),
        PLAIN[:-1],
        PLAIN + " ",
        "[" * 100_000,
        "",
    ],
)
def test_anything_else_takes_the_ladder(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compact.read(body.encode()) is None
    agree(body.encode(), LEGACY, monkeypatch)


ODD = (
    '{"name":"call_read_tool","_meta":{"a":1},"arguments":{"name":"a","arguments":{}}}',
    '{"_meta":{"a":1},"arguments":{"name":"a","arguments":{}},"name":"call_read_tool"}',
    '{"arguments":{"name":"a","arguments":{}},"name":"call_read_tool"}',
    '{"arguments":{"name":"a","arguments":{}},"name":"call_read_tool","_meta":{"a":1}}',
    '{"name":"call_read_tool","_meta":{"name":"call_read_tool"},"arguments":{"name":"a","arguments":{"_meta":{}}}}',
)


@pytest.mark.parametrize("params", ODD)
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_params_in_another_order_keep_it(envelope: str, params: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = envelope.format(id=7, params=params).encode()
    assert compact.read(body) is None
    assert isinstance(agree(body, LEGACY, monkeypatch), routes.CallsTool)


@pytest.mark.parametrize(
    "order",
    [order for order in itertools.permutations(range(4)) if order not in ((0, 1, 2, 3), (2, 3, 0, 1))],
)
def test_members_in_another_order_keep_it(order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    given = ('"jsonrpc":"2.0"', '"id":7', '"method":"tools/call"', f'"params":{PARAMS[3]}')
    body = (
        ("{" + ",".join(given[place] for place in order) + "}").replace("{tool}", "call_read_tool").encode()
    )
    assert compact.read(body) is None
    assert isinstance(agree(body, LEGACY, monkeypatch), routes.CallsTool)


WRAPPED = '{"name":"a","arguments":{}}'
BAIT = '{"name":"call_read_tool","arguments":1}'


@pytest.mark.parametrize(
    "body",
    [
        f'{{"jsonrpc":"2.0","id":7,"params":{{"_meta":{{"aaaaaaaaa":{BAIT}}},"name":"call_read_tool",'
        f'"arguments":{WRAPPED}}},"method":"tools/call"}}',
        f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"arguments":{WRAPPED},'
        f'"name":"call_read_tool","_meta":{json.dumps("m" * (len(WRAPPED) + 2))}}}}}',
    ],
    ids=["params-before-method", "arguments-as-long-as-meta"],
)
def test_what_only_looks_like_the_order_keeps_its_own(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compact.read(body.encode()) is None
    assert isinstance(agree(body.encode(), LEGACY, monkeypatch), routes.CallsTool)


TOKENS = st.sampled_from(
    [
        '"jsonrpc":"2.0"',
        '"id":7',
        '"id":"x"',
        '"id":null',
        '"id":1.5',
        '"method":"tools/call"',
        '"Method":"tools/call"',
        '"params":{"name":"call_read_tool",' + WRAPPER + "}",
        '"params":{' + VERSION + ',"name":"call_write_tool",' + WRAPPER + "}",
        '"params":{"name":"call_write_tool",' + VERSION + "," + WRAPPER + "}",
        '"params":{"name":"call_read_tool","arguments":{"name":"a","name":"b","arguments":{}}}',
        '"params":{"name":"call_read_tool","arguments":{"arguments":{"name":"x"},"name":"a"},"_meta":{"a":1,"a":2}}',
        '"params":{"name":"call_read_tool","arguments":{"name":"a","arguments":{}},"_meta":7}',
        '"params":{"_meta":{"name":"call_read_tool"},"name":"call_read_tool","arguments":{"name":"a","arguments":{}}}',
        '"params":{"name":"call_read_tool","_meta":{},"arguments":{"name":"a","arguments":{"_meta":{}}}}',
        '"params":[]',
        '"x":1',
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(TOKENS, min_size=1, max_size=6),
    st.sampled_from([",", ", ", ",,"]),
    st.sampled_from([LEGACY, MODERN]),
)
@example(['"jsonrpc":"2.0"', '"id":7', '"params":[]', '"method":"tools/call"'], ",", LEGACY)
def test_members_in_any_order_and_number(members: list[str], between: str, headers: Headers) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        agree(("{" + between.join(members) + "}").encode(), headers, monkeypatch)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_byte_more_or_less(data: Any) -> None:
    body = bytearray(PLAIN.encode())
    at = data.draw(st.integers(0, len(body) - 1))
    match data.draw(st.sampled_from(["cut", "put", "turn"])):
        case "cut":
            del body[at]
        case "put":
            body.insert(at, data.draw(st.sampled_from(b'"\\{}[],: \n0a\x00\xff')))
        case _:
            body[at] = data.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as monkeypatch:
        agree(bytes(body), LEGACY, monkeypatch)
