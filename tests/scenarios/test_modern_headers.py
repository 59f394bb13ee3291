"""2026-07-28: headers and body agree before and after the rewrite."""

from __future__ import annotations

import base64

import pytest

from .client import joined
from .tools import TOOLS, raw, tool
from .upstream import META
from .world import Setup, legacy_only, modern_only

REGION = {"name": "mail__list_unread", "arguments": {"region": "eu", "page": {"size": 5}}}


@modern_only
async def test_one_overwritten_name_and_method(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "files__read_file", "arguments": {"path": "a"}})
    request = reply.outcome.upstream
    assert request is not None
    assert request.values("mcp-name") == ["files__read_file"]
    assert request.values("mcp-method") == ["tools/call"]
    assert request.values("mcp-protocol-version") == [setup.revision]


@modern_only
async def test_param_headers_are_made_from_the_real_schema(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    client.headers = (*client.headers, ("mcp-param-region", "us"), ("mcp-param-zzz", "1"))
    reply = await client.call("call_read_tool", REGION)
    request = reply.outcome.upstream
    assert request is not None
    made = {key: value for key, value in request.headers if key.startswith("mcp-param-")}
    assert made == {"mcp-param-region": "eu", "mcp-param-size": "5"}
    assert reply.status == 200


@modern_only
@pytest.mark.parametrize("arguments", [{"region": None}, {}, {"page": {}}, {"page": None}])
async def test_an_absent_or_null_argument_has_no_header(setup: Setup, arguments: dict[str, object]) -> None:
    world = setup.world({"calls": {"validate_arguments": False}})
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "mail__list_unread", "arguments": arguments})
    assert reply.outcome.upstream is not None
    assert not [key for key, _ in reply.outcome.upstream.headers if key.startswith("mcp-param-")]


@modern_only
@pytest.mark.parametrize("value", [" padded ", "tëst", "a\r\nx-evil: 1", "=?base64?eA==?=", "a\tb", ""])
async def test_param_values_are_encoded(setup: Setup, value: str) -> None:
    world = setup.world()
    client = await world.warm()
    arguments = {"name": "mail__list_unread", "arguments": {"region": value}}
    if value == "" and setup.variant.config.dialect.name == "AGENTGATEWAY":
        pytest.skip("agentgateway cannot carry an empty header value")
    reply = await client.call("call_read_tool", arguments)
    assert reply.status == 200, reply.http
    assert world.server.methods == ["tools/call"]


@modern_only
async def test_a_name_that_is_no_header_text_is_encoded(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "wetter__prüfe ort", "arguments": {}})
    assert reply.outcome.upstream is not None
    encoded = base64.b64encode("wetter__prüfe ort".encode()).decode()
    assert reply.outcome.upstream.values("mcp-name") == [f"=?base64?{encoded}?="]
    assert reply.status == 200


@modern_only
async def test_a_name_from_a_model_never_reaches_a_header_raw(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "x\r\nauthorization: Bearer bob", "arguments": {}})
    assert reply.is_error
    assert world.server.calls == []


MISMATCHES = {
    "other-name": (("mcp-name", "call_read_tool"),),
    "name-twice": (("mcp-name", "call_destructive_tool"), ("mcp-name", "call_destructive_tool")),
    "no-name": (),
    "bad-base64": (("mcp-name", "=?base64?!!?="),),
}


@modern_only
@pytest.mark.parametrize("names", MISMATCHES.values(), ids=MISMATCHES)
async def test_disagreeing_headers_are_refused_before_the_rewrite(
    setup: Setup, names: tuple[tuple[str, str], ...]
) -> None:
    world = setup.world()
    client = await world.warm()
    inner = {"name": "files__delete_file", "arguments": {"path": "a"}}
    params = {"name": "call_destructive_tool", "arguments": inner, "_meta": client.meta()}
    body = joined({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": joined(params)})
    headers = (("mcp-protocol-version", setup.revision), ("mcp-method", "tools/call"), *names)
    reply = await client.post(body, headers)
    assert (reply.status, reply.message["id"]) == (400, b"7")
    assert reply.error["code"] == -32020
    assert world.server.calls == []


@modern_only
@pytest.mark.parametrize("header", ["mcp-method", "mcp-protocol-version"])
async def test_every_routing_header_is_checked(setup: Setup, header: str) -> None:
    world = setup.world()
    client = await world.warm()
    params = {"name": "search_tools", "arguments": {"queries": ["a"]}, "_meta": client.meta()}
    body = joined({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": joined(params)})
    good = dict(client.message_headers("tools/call", params))
    for value in ("wrong", None):
        headers = {**good, header: value}
        reply = await client.post(body, tuple((k, v) for k, v in headers.items() if v is not None))
        if header == "mcp-protocol-version" and value is None:
            assert reply.status == 400
        else:
            assert (reply.status, reply.error["code"]) == (400, -32020)


@modern_only
async def test_an_encoded_name_is_decoded_before_it_is_compared(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    params = {"name": "search_tools", "arguments": {"queries": ["email"]}, "_meta": client.meta()}
    body = joined({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": joined(params)})
    name = f"=?base64?{base64.b64encode(b'search_tools').decode()}?="
    headers = (("mcp-protocol-version", setup.revision), ("mcp-method", "tools/call"), ("mcp-name", name))
    reply = await client.post(body, headers)
    assert "mail__send" in reply.text


@modern_only
async def test_a_cold_search_is_a_list_in_its_headers_too(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    client.headers = (*client.headers, ("mcp-param-region", "us"))
    reply = await client.search("email")
    request = reply.outcome.upstream
    assert request is not None
    assert request.values("mcp-method") == ["tools/list"]
    assert request.values("mcp-name") == []
    assert not [key for key, _ in request.headers if key.startswith("mcp-param-")]
    assert set(reply.sent_params) == {"_meta"}
    assert META + "clientCapabilities" in reply.sent_params["_meta"].decode()


@modern_only
async def test_a_task_id_in_the_name_header_is_not_a_tool(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.post(
        joined(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tasks/get",
                "params": joined({"taskId": "search_tools", "_meta": client.meta()}),
            }
        ),
        (("mcp-protocol-version", setup.revision), ("mcp-method", "tasks/get"), ("mcp-name", "search_tools")),
    )
    assert world.server.methods == ["tasks/get"]
    assert reply.outcome.upstream is not None
    assert reply.outcome.upstream.values("mcp-name") == ["search_tools"]


@modern_only
async def test_tools_with_an_invalid_annotation_are_left_out(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    found = await client.search("compute a ratio")
    assert "bad__ratio" not in found.text


@legacy_only
async def test_older_revisions_keep_them(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    found = await client.search("compute a ratio")
    assert "bad__ratio" in found.text


@legacy_only
async def test_older_revisions_get_no_routing_headers(setup: Setup) -> None:
    world = setup.world({"tools": {"overrides": {"files__read_file": "read"}}})
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "files__read_file", "arguments": {"path": "a"}})
    assert reply.outcome.upstream is not None
    assert not [key for key, _ in reply.outcome.upstream.headers if key in ("mcp-name", "mcp-method")]


@modern_only
async def test_integers_and_booleans_have_their_own_text(setup: Setup) -> None:
    inner = {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}
    inner["count"] = {"type": "integer", "x-mcp-header": "Count"}
    schema = {"type": "object", "properties": {"deep": {"type": "object", "properties": inner}}}
    definition = tool("a__b", "Do it", schema, annotations={"readOnlyHint": True})
    world = setup.world(tools=raw((*TOOLS, definition)))
    client = await world.warm()
    arguments = {"deep": {"flag": False, "count": 9007199254740993}}
    reply = await client.call("call_read_tool", {"name": "a__b", "arguments": arguments})
    assert reply.status == 200
    request = reply.outcome.upstream
    assert request is not None
    assert (request.values("mcp-param-flag"), request.values("mcp-param-count")) == (
        ["false"],
        ["9007199254740993"],
    )
