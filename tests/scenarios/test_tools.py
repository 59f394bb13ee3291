"""The six: classes, mistakes a model can mend, and what a listed tool promises."""

from __future__ import annotations

import json

import pytest

from .test_wire_table import words
from .tools import raw
from .world import Setup, legacy_only, modern_only, widely

CLASSES = {
    "files__read_file": "call_read_tool",
    "files__write_file": "call_write_tool",
    "files__delete_file": "call_destructive_tool",
    "mail__send": "call_destructive_tool",
    "mail__list_unread": "call_read_tool",
}


@widely
@pytest.mark.parametrize("name", CLASSES)
async def test_the_class_comes_from_the_annotations(setup: Setup, name: str) -> None:
    world = setup.world()
    client = await world.warm()
    right = "call_destructive_tool" if setup.revision == "2024-11-05" else CLASSES[name]
    arguments = {"name": name, "arguments": {"path": "a"}}
    for meta in ("call_read_tool", "call_write_tool", "call_destructive_tool"):
        reply = await client.call(meta, arguments)
        if meta == right:
            assert [call.name for call in world.server.calls] == [name]
        else:
            assert reply.is_error
            assert right in reply.text
            assert reply.outcome.local
    assert len(world.server.calls) == 1


@widely
async def test_the_six_promise_nothing_they_cannot_keep(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    for one in (await client.list()).result["tools"]:
        assert set(one) <= {"name", "description", "inputSchema", "annotations", "execution"}
        assert set(one["annotations"]) == {
            "title",
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        }
        text = json.dumps(one)
        assert not [
            word for word in ("$ref", "anyOf", "oneOf", "const", "x-mcp-header") if f'"{word}"' in text
        ]


@widely
async def test_a_call_tool_does_not_call_itself(setup: Setup) -> None:
    world = setup.world(tools=[one for one in raw() if b"hammers" not in one])
    client = await world.warm()
    for meta in ("call_read_tool", "call_write_tool", "call_destructive_tool"):
        for name in ("call_write_tool", "search_tools", "describe_tool", meta):
            reply = await client.call(meta, {"name": name, "arguments": {}})
            assert reply.is_error
    assert world.server.calls == []


@widely
async def test_an_unknown_name_gets_the_nearest_ones(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "files__readfile", "arguments": {}})
    assert reply.is_error
    assert "files__read_file" in reply.text
    far = await client.call("call_read_tool", {"name": "zzzzzzzz", "arguments": {}})
    assert far.is_error
    assert "search_tools" in far.text


@widely
async def test_an_unknown_direct_name_is_the_servers_to_refuse(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.call("nothing__here")
    assert reply.error["code"] == -32602
    assert world.server.methods == ["tools/call"]


@widely
async def test_a_real_name_may_be_called_directly_unless_denied(setup: Setup) -> None:
    client = await setup.world().warm()
    assert json.loads((await client.call("mail__send", {"a": 1})).text)[0] == "mail__send"
    denied = setup.world({"calls": {"direct": "deny"}})
    client = await denied.warm()
    reply = await client.call("mail__send", {"a": 1})
    assert reply.error["code"] == -32602
    assert denied.server.calls == []


@widely
async def test_both_ways_of_saying_unknown_tool_pass_and_age_the_list(setup: Setup) -> None:
    for quirk in ("", "unknown-as-error"):
        world = setup.world()
        client = await world.warm()
        world.server.tools, world.server.quirk = raw()[:1], quirk
        reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})
        assert world.server.methods == ["tools/call"]
        assert ("error" in reply.message) is (quirk == "")
        again = await client.search("email")
        if setup.withholds:
            assert again.outcome.local  # calls are not read where that would keep them back
            continue
        assert not again.outcome.local
        assert "mail__send" not in again.text


@legacy_only
async def test_a_tool_that_needs_a_task_says_so(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    described = await client.call("describe_tool", {"names": ["jobs__run"]})
    assert ("task" in described.text) is (setup.revision != "2024-11-05")


@widely
async def test_a_hit_tells_how_to_call_it(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.search("files__read_file")
    best = json.loads(reply.text)["results"][0]["tools"][0]
    assert best["name"] == "files__read_file"
    assert best["inputSchema"]["required"] == ["path"]
    assert best["call"].startswith("call_")
    assert best["flags"]


@widely
async def test_search_takes_a_server_and_a_limit(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    reply = await client.search("file email", server="mail", limit=1)
    assert len(words(reply.text)) == 1
    assert words(reply.text)[0].startswith("mail__")


@widely
async def test_six_queries_are_too_many(setup: Setup) -> None:
    client = await setup.world().warm()
    reply = await client.search("a", "b", "c", "d", "e", "f")
    assert reply.is_error
    assert "5" in reply.text


@widely
async def test_structured_content_only_where_it_exists(setup: Setup) -> None:
    client = await setup.world().warm()
    for reply in (
        await client.search("email"),
        await client.call("describe_tool", {"names": ["mail__send"]}),
    ):
        structured = reply.result.get("structuredContent")
        assert (structured is not None) is (setup.revision >= "2025-06-18")
        if structured is not None:
            assert structured == json.loads(reply.text)


@modern_only
async def test_an_output_schema_is_told_where_it_can_be_used(setup: Setup) -> None:
    client = await setup.world().warm()
    described = await client.call("describe_tool", {"names": ["data__query"]})
    assert json.loads(described.text)["tools"][0]["outputSchema"]["properties"] == {"rows": {"type": "array"}}
    for one in (await client.list()).result["tools"]:
        assert "outputSchema" not in one


@modern_only
async def test_a_progress_token_is_kept(setup: Setup) -> None:
    client = await setup.world().warm()
    meta = client.meta(progressToken=b"5")
    inner = {"name": "mail__send", "arguments": {}}
    reply = await client.send(
        "tools/call", {"name": "call_destructive_tool", "arguments": inner, "_meta": meta}
    )
    assert b'"progressToken":5' in reply.sent_params["_meta"]


@widely
async def test_a_tool_may_be_the_first_thing_ever_called(setup: Setup) -> None:
    world = setup.world(sessions=False)
    client = world.client()
    client.opened = True
    assert "mail__send" in (await client.search("email")).text


@legacy_only
async def test_no_version_header_means_2025_03_26(setup: Setup) -> None:
    world = setup.world(sessions=False)
    client = world.client()
    reply = await client.search("email")
    assert "structuredContent" not in reply.result
    assert "resultType" not in reply.result


@widely
async def test_an_unknown_version_is_the_servers_to_refuse(setup: Setup) -> None:
    world = setup.world()
    await world.warm()
    stranger = world.client()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}'
    reply = await stranger.post(body, (("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")))
    assert reply.status == 400
    assert reply.outcome.upstream is not None


@widely
async def test_the_server_still_judges_the_callers_own_credential(setup: Setup) -> None:
    world = setup.world({"tools": {"overrides": {"files__delete_file": "read"}}}, tokens={"alice": raw()})
    client = await world.warm()
    inner = {"name": "files__delete_file", "arguments": {"path": "a"}}
    reply = await client.call("call_read_tool", inner)
    assert reply.outcome.upstream is not None
    assert reply.outcome.upstream.values("authorization") == ["Bearer alice"]
    world.server.tokens = {"bob": raw()}
    assert (await client.call("call_read_tool", inner)).status == 401


@widely
async def test_many_calls_are_not_offered_without_a_route(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    assert "call_read_tools" not in (await client.list()).names
    inner = {"name": "mail__list_unread", "arguments": {}}
    reply = await client.call("call_read_tools", {"calls": [inner, inner]})
    assert reply.is_error
    assert world.server.calls == []


@widely
async def test_a_name_that_is_missing_or_no_string_is_a_protocol_error(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    for params in (b'{"arguments":{}}', b'{"name":5}', b'{"name":null}'):
        body = b'{"jsonrpc":"2.0","id":"n","method":"tools/call","params":%s}' % params
        more = (
            (("mcp-protocol-version", setup.revision), ("mcp-method", "tools/call")) if setup.modern else ()
        )
        reply = await client.post(body, more)
        assert reply.message["id"] == b'"n"'
        assert reply.error["code"] == -32602
        assert reply.status == (400 if setup.modern else 200)
