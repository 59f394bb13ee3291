"""After a client's own list a tool that went away is gone, whether the server answered that list or not."""

from __future__ import annotations

import asyncio
import time

import pytest

from extproc import profiles
from extproc.catalog.model import Catalogue
from extproc.search import ToolIndex
from extproc.search.engine import Engine
from tests.upstream.servers import McpServer as Route
from tests.upstream.servers import serving

from .tools import TOOLS, raw, tool
from .world import Setup, everywhere, legacy_only, narrowly, widely

GONE, WORDS = "files__read_file", "read a text file"
FEWER = raw(tuple(one for one in TOOLS if one["name"] != GONE))


@everywhere
async def test_the_search_after_an_own_list_asks_the_server_where_the_list_did_not(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    assert GONE in (await client.search(WORDS)).text
    world.server.tools = FEWER
    listed = await client.list()
    assert (listed.outcome.local, world.server.calls) == (True, [])
    assert GONE not in (await client.search(WORDS)).text
    assert world.server.methods[-1] == "tools/list"
    world.server.calls.clear()
    assert (await client.search(WORDS)).outcome.local
    """Once for each own list, not for each search."""
    assert world.server.calls == []


@widely
async def test_lists_alone_cost_the_server_nothing(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    for _ in range(5):
        assert (await client.list()).outcome.local
    assert world.server.calls == []


@narrowly
async def test_a_call_after_an_own_list_is_checked_against_what_is_held(setup: Setup) -> None:
    """The server judges it anyway, so it waits for nothing."""
    world = setup.world()
    client = await world.warm()
    await client.list()
    await client.call("call_destructive_tool", {"name": "files__delete_file", "arguments": {"path": "/a"}})
    assert world.server.methods == ["tools/call"]


@widely
async def test_with_a_route_the_list_is_read_again_behind_the_answer(setup: Setup) -> None:
    route = Route(tools=[GONE, "files__write_file"], needs_session=False)
    async with serving(route) as served:
        world = setup.world({"catalog": {"url": served.url}})
        client = await world.opened()
        assert GONE in (await client.search(GONE)).text
        world.server.calls.clear()
        served.requests.clear()
        route.tools, route.delay = ["files__write_file"], 0.05
        listed = await client.list()
        assert (listed.outcome.local, world.server.calls) == (True, [])
        answers = await asyncio.gather(*(client.search(GONE) for _ in range(5)))
        assert [GONE in each.text for each in answers] == [False] * 5
        assert served.methods().count("tools/list") == 1
        assert world.server.calls == []
        refused = await client.call("call_destructive_tool", {"name": GONE})
        assert refused.is_error
        assert world.server.calls == []


@narrowly
async def test_a_route_that_fails_leaves_the_held_list(setup: Setup) -> None:
    route = Route(tools=[GONE, "files__write_file"], needs_session=False)
    async with serving(route) as served:
        world = setup.world({"catalog": {"url": served.url, "timeout": 0.3}})
        client = await world.opened()
        assert GONE in (await client.search(GONE)).text
        world.server.calls.clear()
        route.delay = 30.0
        assert (await client.list()).outcome.local
        assert GONE in (await client.search(GONE)).text
        assert world.server.calls == []


@narrowly
async def test_a_search_waits_for_the_index_of_the_list_before_it(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The six are answered before the list is indexed; the old index serves nobody in between."""
    world = setup.world({"catalog": {"refresh_after": 0.0}})
    client = await world.warm()
    assert GONE in (await client.search(WORDS)).text

    class Slow(ToolIndex):
        @classmethod
        def build(cls, catalogue: Catalogue, engine: Engine | None = None) -> ToolIndex:
            time.sleep(0.2)
            return ToolIndex.build(catalogue, engine)

    monkeypatch.setattr(profiles, "ToolIndex", Slow)
    world.server.tools = raw((*TOOLS[1:], tool("garden__mow", "Mow the lawn")))
    await client.list()
    found = await client.search(WORDS)
    assert GONE not in found.text
    assert found.outcome.local


@everywhere
async def test_each_path_has_a_list_of_its_own(setup: Setup) -> None:
    """One processor may stand in front of several servers, and a caller may use the same token for all."""
    world = setup.world()
    client = await world.warm()
    other = world.client()
    other.path = "/mcp/other?set=b"
    world.server.tools = FEWER
    await other.open()
    assert not (await other.list()).outcome.local
    assert GONE not in (await other.search(WORDS)).text
    assert GONE in (await client.search(WORDS)).text


@legacy_only
async def test_an_empty_list_outside_of_a_session_takes_nothing_away(setup: Setup) -> None:
    """Gateways that join servers answer a list without a session by nothing at all."""
    world = setup.world({"catalog": {"refresh_after": 0}})
    client = await world.warm()
    world.server.sessions, world.server.tools = False, ()
    stray = world.client()
    assert "search_tools" in (await stray.list()).names
    world.server.sessions, world.server.tools = True, raw(TOOLS)
    assert GONE in (await client.search(WORDS)).text


@legacy_only
async def test_a_server_without_sessions_may_come_to_list_nothing(setup: Setup) -> None:
    world = setup.world({"catalog": {"refresh_after": 0}}, sessions=False)
    client = await world.warm()
    world.server.tools = ()
    await client.list()
    assert GONE not in (await client.search(WORDS)).text
