"""Ids and values come through as the bytes they were."""

from __future__ import annotations

from typing import Any

import pytest

from .tools import raw
from .world import Setup, legacy_only, modern_only, widely

IDS = [b"0", b'""', b"-7", b'"1"', b"9007199254740993", b"1180591620717411303424", b'"\\u00e9\\n"', b'"tsf"']
ODD = b'{ "a":1.0, "b" : 1e400,"c":1180591620717411303424, "d":"\\u00e9\\/", "e":1,"e":2 }'


@widely
@pytest.mark.parametrize("id", IDS, ids=lambda raw: raw.decode("latin-1"))
async def test_every_id_comes_back_exactly(setup: Setup, id: bytes) -> None:
    world = setup.world(quirk="string-id")
    client = await world.opened()
    for method, params in (
        ("tools/list", {}),
        ("tools/call", {"name": "search_tools", "arguments": {"queries": ["email"]}}),
        ("ping" if not setup.modern else "resources/list", {}),
        ("tools/call", {"name": "call_destructive_tool", "arguments": {"name": "mail__send"}}),
    ):
        reply = await client.send(method, params, id=id)
        assert reply.message["id"] == id
        assert "result" in reply.message
    assert world.server.calls[-1].id == id


@widely
async def test_a_list_with_a_string_id_survives_envoys_fault(setup: Setup) -> None:
    world = setup.world(quirk="string-id")
    client = await world.opened()
    found = await client.call("search_tools", {"queries": ["email"]}, id=b'"a"')
    assert "mail__send" in found.text
    assert world.server.calls[-1].id is not None
    assert world.server.calls[-1].id.isdigit()


@widely
async def test_a_fractional_null_or_structured_id_is_never_rewritten(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    for id in (b"null", b"[1]", b"true", b"{}"):
        body = b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}' % id
        more = (
            (("mcp-protocol-version", setup.revision), ("mcp-method", "tools/list")) if setup.modern else ()
        )
        reply = await client.post(body, more)
        assert b"inputSchema" not in reply.http.body


@widely
async def test_arguments_are_spliced_not_encoded_again(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("call_destructive_tool", b'{"arguments":' + ODD + b',"name":"mail__send"}')
    assert reply.sent_params["arguments"] == ODD
    assert reply.sent_params["name"] == b'"mail__send"'


@widely
async def test_every_other_param_is_carried(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    meta = client.meta() if setup.modern else {}
    kept = {
        "_meta": {**meta, "progressToken": b"1.0", "traceparent": "00-1", "x": b'{"y": 1e5}'},
        "requestState": b'"S\\u003d\xc3\xa9 1.0"',
        "inputResponses": b'{"k": {"action":"accept","n":1.0}}',
        "unknown": b"[1.0,  2]",
    }
    arguments = {"name": "mail__send", "arguments": {}}
    reply = await client.send("tools/call", {"name": "call_destructive_tool", "arguments": arguments, **kept})
    sent = reply.sent_params
    assert sent["requestState"] == kept["requestState"]
    assert sent["inputResponses"] == kept["inputResponses"]
    assert sent["unknown"] == kept["unknown"]
    assert b'"progressToken":1.0' in sent["_meta"]
    assert b'{"y": 1e5}' in sent["_meta"]


@widely
@pytest.mark.parametrize("outer", [b"{}", None], ids=["empty", "absent"])
async def test_missing_arguments_are_an_empty_object(setup: Setup, outer: bytes | None) -> None:
    world = setup.world()
    client = await world.warm()
    inner = {"name": "mail__send"} if outer is None else {"name": "mail__send", "arguments": outer}
    reply = await client.call("call_destructive_tool", inner)
    assert reply.sent_params["arguments"] == b"{}"
    bare = await client.send("tools/call", {"name": "call_destructive_tool"})
    assert bare.is_error


@widely
@pytest.mark.parametrize("arguments", [b"5", b"[1]", b'"text"', b"true"])
async def test_arguments_of_another_type_are_an_error_a_model_can_mend(
    setup: Setup, arguments: bytes
) -> None:
    world = setup.world()
    client = await world.warm()
    inner = {"name": "mail__send", "arguments": arguments}
    for reply in (
        await client.call("call_destructive_tool", inner),
        await client.call("call_destructive_tool", arguments),
        await client.call("search_tools", arguments),
    ):
        assert reply.is_error
        assert "object" in reply.text
    assert world.server.calls == []


@widely
async def test_arguments_as_a_string_of_an_object_are_taken(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": '{"to": 1.0}'})
    assert reply.sent_params["arguments"] == b'{"to": 1.0}'


@widely
async def test_params_of_another_type_are_a_protocol_error(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    more = (("mcp-protocol-version", setup.revision), ("mcp-method", "tools/call")) if setup.modern else ()
    for body in (b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":[1]}',):
        reply = await client.post(body, more)
        assert (reply.message["id"], reply.error["code"]) in ((b"4", -32602), (b"4", -32020))


@modern_only
async def test_a_multi_round_trip_call_is_rewritten_the_same_way_twice(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    arguments = {"name": "desk__confirm", "arguments": b'{"n": 1.0}'}
    first = await client.call("call_write_tool", arguments)
    assert first.result["resultType"] == "input_required"
    assert first.result["requestState"] == "S=é 1.0"
    state: dict[str, Any] = {"requestState": "S=é 1.0", "inputResponses": {"k": {"action": "accept"}}}
    second = await client.call("call_write_tool", arguments, b"2", **state)
    assert second.result["resultType"] == "complete"
    one, two = world.server.calls[-2:]
    assert (one.params["name"], one.params["arguments"]) == (two.params["name"], two.params["arguments"])


@modern_only
async def test_a_retry_may_reach_a_replica_that_knows_nothing(setup: Setup) -> None:
    world = setup.world()
    client = world.client()
    state: dict[str, Any] = {"requestState": "S=é 1.0", "inputResponses": {"k": {"action": "accept"}}}
    reply = await client.call("call_write_tool", {"name": "desk__confirm", "arguments": {}}, **state)
    assert reply.result["resultType"] == "complete"
    assert world.server.methods == ["tools/call"]


@legacy_only
async def test_a_task_is_kept_and_its_result_passes(setup: Setup) -> None:
    world = setup.world(tools=raw())
    client = await world.warm()
    meta = "call_destructive_tool" if setup.revision == "2024-11-05" else "call_read_tool"
    reply = await client.call(meta, {"name": "jobs__run"}, task=b'{"ttl": 60000}')
    if reply.outcome.local:
        assert setup.revision == "2024-11-05" or reply.is_error
        return
    assert reply.sent_params["task"] == b'{"ttl": 60000}'
    assert reply.result["task"]["taskId"] == "t1"
