"""The catalogue: how it is read, what is offered, and what is never shown."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.gateway.variants import VARIANTS

from .test_wire_table import words
from .tools import TOOLS, raw, tool
from .upstream import MODERN
from .world import ALICE, BOB, Setup, legacy_only, modern_only, narrowly, widely


@widely
async def test_definitions_are_the_same_bytes_every_time(setup: Setup) -> None:
    plain = {"search": {"embedder": "none", "overview": False}}
    world = setup.world(plain)
    client = await world.opened()
    first, second = await client.list(), await client.list()
    other = await setup.world(plain, tools=raw(TOOLS[:2])).opened(BOB)
    third = await other.list()
    assert json.dumps(first.result["tools"]) == json.dumps(second.result["tools"])
    assert json.dumps(first.result["tools"]) == json.dumps(third.result["tools"])


@modern_only
async def test_a_modern_list_is_private(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    for reply in (await client.list(), await client.list()):
        assert reply.result["cacheScope"] == "private"
        assert isinstance(reply.result["ttlMs"], int)


@widely
async def test_the_upstreams_cursor_is_not_shown(setup: Setup) -> None:
    world = setup.world(page=4)
    client = await world.opened()
    reply = await client.list()
    assert "nextCursor" not in reply.result


@widely
@pytest.mark.parametrize("cursor", ["4", ""])
async def test_a_clients_cursor_never_goes_upstream(setup: Setup, cursor: str) -> None:
    world = setup.world(page=4)
    client = await world.opened()
    world.server.calls.clear()
    reply = await client.list(cursor=cursor)
    assert reply.error["code"] == -32602
    assert world.server.calls == []


@widely
async def test_a_null_cursor_is_no_cursor(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    reply = await client.list(cursor=b"null")
    assert "search_tools" in reply.names
    assert "cursor" not in world.server.calls[-1].params


@widely
async def test_the_list_does_not_grow_after_a_search(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    before = await client.list()
    await client.search("read a file")
    assert (await client.list()).names == before.names


@widely
async def test_a_first_page_says_that_more_may_come(setup: Setup) -> None:
    world = setup.world(page=4)
    client = await world.opened()
    reply = await client.search("send an email")
    assert "mail__send" in words(reply.text)
    assert "note" in json.loads(reply.text)


@widely
@pytest.mark.parametrize("quirk", ["list-fails", "list-is-garbage"])
async def test_a_broken_list_is_never_learned_over_a_good_one(setup: Setup, quirk: str) -> None:
    world = setup.world({"catalog": {"refresh_after": 0}})
    client = await world.warm()
    world.server.quirk = quirk
    broken = await client.list()
    assert "error" in broken.message
    world.server.quirk = ""
    found = await client.search("read a file")
    assert found.outcome.local


@widely
@pytest.mark.parametrize("quirk", ["list-fails", "list-is-garbage"])
async def test_a_cold_search_over_a_broken_list_is_an_answer(setup: Setup, quirk: str) -> None:
    world = setup.world(quirk=quirk)
    client = await world.opened()
    reply = await client.search("read a file")
    assert "error" in reply.message or reply.is_error


@widely
async def test_a_list_with_another_id_is_never_learned(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    genuine = world.server._list

    def swapped(call, tools):  # type: ignore[no-untyped-def]
        call.id = b"99"
        return genuine(call, tools)

    world.server._list = swapped  # type: ignore[method-assign]
    for reply in (await client.list(), await client.search("read a file")):
        assert b"files__read_file" not in reply.http.body
        assert reply.message["id"] == b"1"


@widely
async def test_a_server_without_tools_stays_as_it_is(setup: Setup) -> None:
    world = setup.world(quirk="no-tools")
    client = world.client()
    opened = await client.open()
    assert opened.result["instructions"] == "Upstream says hello."
    assert "tools" not in opened.result["capabilities"]
    reply = await client.list()
    assert reply.error["code"] == -32601
    assert reply.status == (404 if setup.modern else 200)


@widely
async def test_guidance_alone_where_the_server_says_nothing(setup: Setup) -> None:
    opened = await setup.world(instructions=None).client().open()
    assert opened.result["instructions"].startswith("The tools of this server")


@widely
async def test_guidance_is_not_put_twice(setup: Setup) -> None:
    guidance = (await setup.world(instructions=None).client().open()).result["instructions"]
    opened = await setup.world(instructions=guidance + "\n\nhello").client().open()
    assert opened.result["instructions"] == guidance + "\n\nhello"


@widely
async def test_long_instructions_are_cut_with_a_note(setup: Setup) -> None:
    opened = await setup.world({"instructions": {"max_chars": 50}}, instructions="é" * 100).client().open()
    text = opened.result["instructions"]
    assert text.count("é") == 50
    assert "cut" in text[-60:]


@widely
async def test_a_reserved_name_is_ours_and_stays_callable(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    assert (await client.search("hammers")).outcome.local
    meta = "call_destructive_tool" if setup.revision == "2024-11-05" else "call_read_tool"
    reply = await client.call(meta, {"name": "search_tools", "arguments": {"q": 1}})
    assert json.loads(reply.text) == ["search_tools", '{"q":1}']


@widely
async def test_pinned_and_app_tools_are_listed_beside_ours(setup: Setup) -> None:
    world = setup.world({"tools": {"pin": ["mail__*"], "pin_apps": True}})
    client = await world.opened()
    for reply in (await client.list(), await client.list()):
        shown = set(reply.names)
        assert {"mail__send", "mail__list_unread", "search_tools"} <= shown
        assert ("ui__board" in shown) is (setup.revision != "2024-11-05")


@widely
async def test_hidden_tools_are_neither_found_nor_callable(setup: Setup) -> None:
    world = setup.world({"tools": {"hide": ["mail__*"]}})
    client = await world.warm()
    found = await client.search("send an email")
    assert not [name for name in words(found.text) if name.startswith("mail__")]
    inner = await client.call("call_destructive_tool", {"name": "mail__send"})
    assert inner.is_error
    direct = await client.call("mail__send")
    assert direct.error["code"] == -32602
    assert world.server.calls == []


@legacy_only
async def test_a_session_is_the_key_where_no_credential_is(setup: Setup) -> None:
    world = setup.world()
    one, two = await world.opened(()), await world.opened(())
    await one.list()
    assert (await one.search("email")).outcome.local
    assert not (await two.search("email")).outcome.local


@modern_only
async def test_without_credential_and_session_nothing_is_kept(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened(())
    await client.list()
    assert not (await client.search("email")).outcome.local
    assert not (await client.search("email")).outcome.local


@modern_only
async def test_anonymous_callers_share_when_the_operator_says_so(setup: Setup) -> None:
    world = setup.world({"caller": {"anonymous": "shared"}})
    await (await world.opened(())).list()
    assert (await world.client(()).search("email")).outcome.local


@widely
async def test_two_callers_never_see_each_others_tools(setup: Setup) -> None:
    mine, yours = (
        raw((*TOOLS[:2], tool("alpha__secret", "Open the vault"))),
        raw((*TOOLS[:2], tool("beta__hidden", "Open the vault"))),
    )
    world = setup.world(tokens={"alice": mine, "bob": yours})
    alice, bob = await world.opened(ALICE), await world.opened(BOB)
    await alice.list()
    await bob.list()
    for client, own, other in (
        (alice, "alpha__secret", "beta__hidden"),
        (bob, "beta__hidden", "alpha__secret"),
    ):
        replies = [
            await client.search("open the vault"),
            await client.call("describe_tool", {"names": [own, other]}),
            await client.call("call_destructive_tool", {"name": other}),
            await client.call("call_destructive_tool", {"name": other[:-1]}),
            await client.call("call_read_tool", {"name": own}),
        ]
        assert own in replies[0].text
        for reply in replies[:1] + replies[4:]:
            assert other not in reply.http.body.decode()
        assert "vault" not in replies[2].http.body.decode()
        assert other not in replies[3].text.replace(other[:-1] + "'", "")
    alice.headers = BOB
    swapped = await alice.search("open the vault")
    assert "alpha__secret" not in swapped.http.body.decode()


@widely
async def test_a_refused_token_is_refused_and_forgotten(setup: Setup) -> None:
    world = setup.world({"catalog": {"refresh_after": 0}}, tokens={"alice": raw()})
    client = await world.warm()
    world.server.tokens = {"bob": raw()}
    refused = await client.list()
    assert refused.status == 401
    assert refused.http.header("www-authenticate") is not None
    after = await client.search("email")
    assert after.status == 401
    assert "mail__send" not in after.http.body.decode()


@widely
async def test_a_caller_without_a_token_gets_the_challenge(setup: Setup) -> None:
    world = setup.world(tokens={"alice": raw()})
    await world.warm()
    stranger = world.client(())
    for reply in (
        await stranger.send("tools/list"),
        await stranger.search("email"),
        await stranger.call("describe_tool", {"names": ["mail__send"]}),
        await stranger.call("call_read_tool", {"name": "files__read_file"}),
    ):
        if reply.status == 200:
            assert reply.is_error
            assert "mail" not in reply.http.body.decode()
            continue
        assert reply.status == 401
        assert reply.http.header("www-authenticate") is not None


@widely
async def test_the_operator_corrects_classes(setup: Setup) -> None:
    world = setup.world({"tools": {"overrides": {"mail__*": "read"}}})
    client = await world.warm()
    reply = await client.call("call_read_tool", {"name": "mail__send"})
    assert world.server.methods == ["tools/call"]
    assert not reply.is_error


@modern_only
async def test_the_lists_own_life_is_kept(setup: Setup) -> None:
    world = setup.world({"catalog": {"max_stale": 0, "refresh_after": 0}})
    genuine = world.server._list

    def short(call, tools):  # type: ignore[no-untyped-def]
        response = genuine(call, tools)
        chunks = tuple(chunk.replace(b'"ttlMs":60000', b'"ttlMs":0    ') for chunk in response.chunks)
        return type(response)(response.status, response.headers, chunks, response.trailers)

    world.server._list = short  # type: ignore[method-assign]
    client = await world.warm()
    assert not (await client.search("email")).outcome.local


async def test_what_one_revision_shows_is_not_served_to_another() -> None:
    """A 2026-07-28 client must not be offered a tool whose annotation is invalid there."""
    setup = Setup(VARIANTS["envoy-buffered"], "2025-11-25", False)
    world = setup.world(sessions=False)
    await (await world.opened()).list()
    world.server.revision = MODERN
    modern = world.client(revision=MODERN)
    found = await modern.search("compute a ratio")
    assert "bad__ratio" not in found.text


@narrowly
async def test_callers_at_the_same_time_stay_apart(setup: Setup) -> None:
    lists = {
        name: raw((*TOOLS[:3], tool(f"{name}__secret", f"Open the vault of {name}")))
        for name in ("alice", "bob", "carol", "dave")
    }
    world = setup.world({"catalog": {"refresh_after": 0}}, tokens=lists)
    clients = {name: await world.opened((("authorization", f"Bearer {name}"),)) for name in lists}

    async def session(name: str, round: int) -> None:
        client, id = clients[name], b'"%s-%d"' % (name.encode(), round)
        inner = {"name": f"{name}__secret", "arguments": {"n": round}}
        replies = [
            await client.send("tools/list", id=id),
            await client.call("search_tools", {"queries": ["open the vault"]}, id),
            await client.call("call_destructive_tool", inner, id),
        ]
        assert f"{name}__secret" in replies[1].text
        assert json.loads(replies[2].text) == [
            f"{name}__secret",
            json.dumps({"n": round}, separators=(",", ":")),
        ]
        for reply in replies:
            assert reply.message["id"] == id
            for other in set(lists) - {name}:
                assert f"{other}__secret" not in reply.http.body.decode()

    await asyncio.gather(*(session(name, round) for round in range(4) for name in lists))
