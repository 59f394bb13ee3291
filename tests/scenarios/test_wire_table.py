"""What each kind of request becomes, in every gateway configuration and revision."""

from __future__ import annotations

import json

from tests.gateway.chunking import whole

from .client import text_of
from .tools import SIX, TOOLS
from .world import Setup, everywhere

FIVE = [name for name in SIX if name != "call_read_tools"]
PATH = {"path": "/a"}


@everywhere
async def test_the_handshake_gets_guidance(setup: Setup) -> None:
    world = setup.world()
    reply = await world.client().open()
    text = reply.result["instructions"]
    assert text.endswith("Upstream says hello.")
    assert "search_tools" in text
    assert text.index("search_tools") < text.index("Upstream")
    assert reply.result["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {},
        "x-new": {"a": 1},
    }
    assert world.server.methods[0] == ("server/discover" if setup.modern else "initialize")


@everywhere
async def test_a_list_is_learned_and_answered_with_the_six(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    first = await client.list()
    assert sorted(first.names) == sorted(FIVE)
    assert "nextCursor" not in first.result
    assert world.server.methods[-1] == "tools/list"
    found = await client.search("read a text file")
    assert found.outcome.local
    assert "files__read_file" in found.text


@everywhere
async def test_a_fresh_list_is_answered_at_once(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    again = await client.list()
    assert (again.outcome.local, world.server.calls) == (True, [])
    assert sorted(again.names) == sorted(FIVE)


@everywhere
async def test_a_warm_search_and_describe_stay_here(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    found = await client.search("send an email", "remove a file")
    described = await client.call("describe_tool", {"names": ["files__read_file"]})
    assert world.server.calls == []
    assert {"mail__send", "files__delete_file"} <= set(words(found.text))
    assert "Read a text file from disk" in described.text
    right = "call_destructive_tool" if setup.revision == "2024-11-05" else "call_read_tool"
    assert json.loads(described.text)["tools"][0]["call"] == right


@everywhere
async def test_a_cold_search_becomes_a_list(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    found = await client.search("send an email")
    assert world.server.methods[-1] == "tools/list"
    assert b"send an email" not in world.server.calls[-1].request.body
    assert "mail__send" in found.text
    assert not found.outcome.local
    again = await client.search("remove a file")
    assert again.outcome.local


@everywhere
async def test_a_cold_describe_becomes_a_list(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    described = await client.call("describe_tool", {"names": ["files__read_file", "nothing__here"]})
    assert world.server.methods[-1] == "tools/list"
    assert "Read a text file from disk" in described.text


@everywhere
async def test_a_call_becomes_a_direct_call(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    for meta, name in (
        ("call_read_tool", "files__read_file"),
        ("call_write_tool", "files__write_file"),
        ("call_destructive_tool", "files__delete_file"),
    ):
        if setup.revision == "2024-11-05":
            meta = "call_destructive_tool"  # no annotations in this revision: nothing is known to be harmless
        reply = await client.call(meta, {"name": name, "arguments": PATH})
        assert json.loads(reply.text) == [name, text_of(PATH).decode()]
        assert [call.name for call in world.server.calls] == [name]
        world.server.calls.clear()


@everywhere
async def test_a_cold_call_learns_and_asks_again(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    meta = "call_destructive_tool" if setup.revision == "2024-11-05" else "call_read_tool"
    arguments = {"name": "files__read_file", "arguments": PATH}
    first = await client.call(meta, arguments)
    assert first.is_error
    assert "again" in first.text
    assert world.server.methods[-1] == "tools/list"
    second = await client.call(meta, arguments)
    assert json.loads(second.text)[0] == "files__read_file"


@everywhere
async def test_anything_else_passes_byte_for_byte(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    params = {"name": "p", "arguments": b'{"n": 1.0,  "n2":1e400}'}
    reply = await client.send("prompts/get", params, id=b"12345678901234567890123")
    assert reply.result["method"] == "prompts/get"
    sent = world.server.calls[-1].request
    assert b'{"n": 1.0,  "n2":1e400}' in sent.body
    assert sent.header("accept-encoding") == "gzip, deflate"
    raw = b'  {"jsonrpc" : "2.0", "method":"notifications/progress", "params":{"progressToken":1}} '
    passed = await client.post(raw)
    assert passed.status == 202
    assert world.server.calls[-1].request.body == raw


@everywhere
async def test_a_rewritten_call_streams_untouched(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    meta = "call_destructive_tool" if setup.revision == "2024-11-05" else "call_read_tool"
    reply = await client.call(meta, {"name": "files__read_file", "arguments": PATH})
    direct = world.server(world.server.calls[-1].request)
    assert reply.http.body == direct.body
    assert reply.http.trailers == setup.variant.trailers
    held = setup.variant.config.response_body.name == "BUFFERED"
    if setup.sse and not held and setup.variant.config.response_chunks in (None, whole):
        assert len(reply.outcome.deliveries) == (
            1 if setup.variant.config.response_chunks else len(direct.chunks)
        )


@everywhere
async def test_no_answer_ever_carries_the_real_list(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    replies = [
        await client.list(),
        await client.call("call_read_tool", {"name": "nothing__here"}),
        await client.list(),
    ]
    real = {str(one["name"]) for one in TOOLS} - set(SIX)
    for reply in replies:
        for name in real:
            assert json.dumps({"name": name})[1:-1].encode() not in reply.http.body


def words(text: str) -> list[str]:
    return [tool["name"] for result in json.loads(text)["results"] for tool in result["tools"]]
