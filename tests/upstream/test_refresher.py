from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from dataclasses import dataclass

import pytest

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Catalogue
from extproc.rewriter.meta_tools import Meta
from extproc.search import ToolIndex
from extproc.settings import Settings
from extproc.store import CatalogueStore, Cold, Warm
from extproc.upstream import Failed, Reason, Refresher, Unauthorized, UpstreamClient, refresher

from .conftest import LEGACY, caller
from .servers import McpServer, Recorder, Request, Write, answer, serving, until

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresher, "SPREAD", 0.0)
    monkeypatch.setattr(refresher, "SETTLE", 0.0)


@dataclass
class World:
    mcp: McpServer
    server: Recorder
    store: CatalogueStore
    client: UpstreamClient
    refresher: Refresher
    now: list[float]

    def names(self, who: CallerContext) -> list[str] | None:
        view = self.store.view(who.key)
        return [tool.name for tool in view.catalogue] if isinstance(view, Warm) else None

    async def idle(self) -> None:
        await until(lambda: not (self.refresher._waiting or self.refresher._running))


@pytest.fixture
async def world(executor: Executor) -> AsyncIterator[World]:
    mcp = McpServer()
    now = [1000.0]
    async with serving(mcp) as server:
        settings = Settings.model_validate(
            {"catalog": {"url": server.url, "ttl": 100, "max_stale": 1000, "timeout": 10}}
        )
        store = CatalogueStore(settings, ToolIndex.build, lambda: now[0], executor)
        client = UpstreamClient(settings, executor, lambda: now[0])
        made = Refresher(store, client, settings, lambda: now[0])
        yield World(mcp, server, store, client, made, now)
        await made.aclose()
        await client.aclose()


ANN, BOB = caller(name="ann"), caller(name="bob")


async def test_one_fetch_however_many_wait(world: World) -> None:
    world.mcp.delay = 0.05
    waiters = [asyncio.ensure_future(world.refresher.obtain(ANN)) for _ in range(50)]
    await asyncio.sleep(0.01)
    waiters[0].cancel()
    outcomes = await asyncio.gather(*waiters[1:])
    assert all(isinstance(outcome, Warm) for outcome in outcomes)
    assert world.server.methods() == ["tools/list"]
    assert world.names(ANN) == ["a", "b", "c"]
    assert world.names(BOB) is None


async def test_without_a_key_every_request_fetches_and_nothing_stays(world: World) -> None:
    nobody = caller(key=None)
    assert isinstance(await world.refresher.obtain(nobody), Warm)
    assert isinstance(await world.refresher.obtain(nobody), Warm)
    world.refresher.warm_up(nobody)
    world.refresher.used(nobody)
    await world.idle()
    assert len(world.server.requests) == 2
    assert world.store.callers == 0


async def test_warm_up_learns_once_and_only_when_cold(world: World) -> None:
    world.refresher.warm_up(ANN)
    world.refresher.warm_up(ANN)
    await world.idle()
    world.refresher.warm_up(ANN)
    await world.idle()
    assert world.names(ANN) == ["a", "b", "c"]
    assert len(world.server.requests) == 1
    assert world.refresher.counters.warmed_up == 1


async def test_a_warm_up_is_left_out_when_the_client_was_faster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher, "SETTLE", 0.05)
    world.refresher.warm_up(ANN)
    await world.store.learn(ANN.key, Catalogue.of([]))
    await world.idle()
    assert world.server.requests == []


async def test_an_aging_list_is_refreshed_behind_the_search(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.refresher.used(ANN)
    await world.idle()
    assert len(world.server.requests) == 1
    world.mcp.tools = ["a", "b", "c", "new"]
    world.now[0] += 100
    assert world.names(ANN) == ["a", "b", "c"]
    world.refresher.used(ANN)
    world.refresher.used(ANN)
    await world.idle()
    assert world.names(ANN) == ["a", "b", "c", "new"]
    assert len(world.server.requests) == 2
    assert world.refresher.counters.refreshed == 1


async def test_a_route_through_the_filter_is_told_of_and_never_learned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(world.refresher, "_warn", lambda setting, text: told.append(setting))
    world.mcp.tools = [str(name) for name in Meta]
    outcome = await world.refresher.obtain(ANN)
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.FILTERED
    assert world.names(ANN) is None
    assert told == ["catalog.url"]


async def test_a_marked_list_is_refreshed(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.mcp.tools = ["other"]
    world.store.mark_stale(ANN.key)
    world.refresher.used(ANN)
    await world.idle()
    assert world.names(ANN) == ["other"]


async def test_a_first_page_is_completed(world: World) -> None:
    world.mcp.tools = [f"t{n}" for n in range(9)]
    world.mcp.page_size = 2
    await world.store.learn(ANN.key, Catalogue.of([], complete=False))
    world.refresher.complete(ANN)
    await world.idle()
    assert world.names(ANN) == world.mcp.tools
    view = world.store.view(ANN.key)
    assert isinstance(view, Warm)
    assert view.catalogue.complete


async def test_an_upstream_that_fails_leaves_the_old_list_and_is_not_hammered(world: World) -> None:
    await world.refresher.obtain(ANN)

    async def broken(request: Request, write: Write) -> bool:
        await write(answer(b"", 500))
        return True

    world.mcp.before = broken
    world.now[0] += 100
    for _ in range(30):
        world.refresher.used(ANN)
        await world.idle()
    assert len(world.server.requests) == 2
    assert world.names(ANN) == ["a", "b", "c"]
    world.now[0] += 2
    for _ in range(30):
        world.refresher.used(ANN)
        await world.idle()
    assert len(world.server.requests) == 3
    world.mcp.before = None
    world.now[0] += 10
    world.refresher.used(ANN)
    await world.idle()
    assert not world.store.stale(ANN.key)


async def test_an_old_list_ends_with_its_stale_time(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.now[0] += 1_100
    assert world.store.view(ANN.key) == Cold()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_drops_the_caller_and_comes_back_whole(world: World, status: int) -> None:
    await world.refresher.obtain(ANN)
    await world.refresher.obtain(BOB)

    async def refuse(request: Request, write: Write) -> bool:
        if request.header("authorization") != "Bearer ann":
            return False
        await write(answer(b"no", status, "text/plain", www_authenticate="Bearer"))
        return True

    world.mcp.before = refuse
    world.now[0] += 100
    world.refresher.used(ANN)
    await world.idle()
    assert world.names(ANN) is None
    assert world.names(BOB) is not None
    assert world.refresher.counters.refused == 1
    outcome = await world.refresher.obtain(ANN)
    assert isinstance(outcome, Unauthorized)
    assert outcome.status == status


async def test_a_server_that_is_missing_for_one_refresh_comes_back_soon(world: World) -> None:
    world.mcp.tools = ["files__read", "mail__send"]
    await world.refresher.obtain(ANN)
    world.mcp.tools = ["files__read"]
    world.now[0] += 100
    world.refresher.used(ANN)
    await world.idle()
    assert world.names(ANN) == ["files__read"]
    world.mcp.tools = ["files__read", "mail__send"]
    world.now[0] += 30
    world.refresher.used(ANN)
    await world.idle()
    assert world.names(ANN) == ["files__read", "mail__send"]


async def test_a_fetch_begun_before_a_refusal_does_not_revive_the_caller(world: World) -> None:
    world.mcp.delay = 0.05
    waiting = asyncio.ensure_future(world.refresher.obtain(ANN))
    await until(lambda: world.server.requests)
    world.now[0] += 1
    world.store.drop(ANN.key)
    world.now[0] += 1
    assert isinstance(await waiting, Warm)
    assert world.names(ANN) is None


async def test_callers_never_get_each_others_lists(world: World) -> None:
    async def own(request: Request, write: Write) -> bool:
        who = (request.header("authorization") or "").removeprefix("Bearer ")
        tools = [{"name": f"only-{who}", "inputSchema": {"type": "object"}}]
        await asyncio.sleep(0.001 * (hash(who) % 5))
        await write(answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": tools}}))
        return True

    world.mcp.before = own
    people = [caller(name=f"p{n}") for n in range(60)]
    await asyncio.gather(*(world.refresher.obtain(who) for who in people for _ in range(2)))
    for n, who in enumerate(people):
        assert world.names(who) == [f"only-p{n}"]


async def test_a_failing_index_is_a_failure_of_ours_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(catalogue: Catalogue) -> ToolIndex:
        raise RuntimeError("no")

    monkeypatch.setattr(world.store, "_build_index", fail)
    assert await world.refresher.obtain(ANN) == Failed(Reason.INTERNAL, "RuntimeError")


async def test_legacy_callers_warm_up_through_an_own_session(world: World) -> None:
    who = caller(LEGACY)
    world.refresher.warm_up(who)
    await world.idle()
    assert world.names(who) == ["a", "b", "c"]
    assert world.server.methods() == ["initialize", "notifications/initialized", "tools/list"]


# A client's own list ---------------------------------------------------------------------------------------


async def settled(world: World, who: CallerContext = ANN) -> None:
    await world.refresher.settled(who.key or b"", 60)


async def test_an_own_list_is_followed_by_a_fetch_however_young_the_held_one_is(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.mcp.tools = ["a"]
    world.refresher.listed(ANN)
    assert world.refresher.rereads(ANN.key)
    assert world.names(ANN) == ["a", "b", "c"]
    await settled(world)
    assert world.names(ANN) == ["a"]
    assert not world.refresher.rereads(ANN.key)
    assert world.refresher.counters.reread == 1
    assert len(world.server.requests) == 2


async def test_own_lists_during_a_fetch_share_the_next_one(world: World) -> None:
    """The one at hand may have been answered before they came."""
    await world.refresher.obtain(ANN)
    world.mcp.delay = 0.05
    world.refresher.listed(ANN)
    await until(lambda: len(world.server.requests) == 2)
    first = asyncio.ensure_future(settled(world))
    await asyncio.sleep(0)
    for _ in range(20):
        world.refresher.listed(ANN)
    second = asyncio.ensure_future(settled(world))
    await first
    assert not second.done()
    world.mcp.tools = ["a"]
    await second
    assert world.names(ANN) == ["a"]
    assert len(world.server.requests) == 3
    assert not world.refresher.rereads(ANN.key)


async def test_an_own_list_does_not_trust_a_fetch_that_began_before_it(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.mcp.delay = 0.05
    waiting = asyncio.ensure_future(world.refresher.obtain(ANN))
    await until(lambda: len(world.server.requests) == 2)
    world.refresher.listed(ANN)
    world.refresher.listed(ANN)
    await waiting
    world.mcp.tools = ["a"]
    await settled(world)
    assert world.names(ANN) == ["a"]
    assert len(world.server.requests) == 3


async def test_who_waits_for_a_slow_fetch_waits_a_bounded_time(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.mcp.delay = 5
    world.refresher.listed(ANN)
    await world.refresher.settled(ANN.key or b"", 0.01)
    assert world.refresher.rereads(ANN.key)
    assert world.names(ANN) == ["a", "b", "c"]


async def test_own_lists_do_not_hammer_a_route_that_fails(world: World) -> None:
    await world.refresher.obtain(ANN)

    async def broken(request: Request, write: Write) -> bool:
        await write(answer(b"", 500))
        return True

    world.mcp.before = broken
    for _ in range(30):
        world.refresher.listed(ANN)
        await settled(world)
    assert len(world.server.requests) == 2
    assert world.names(ANN) == ["a", "b", "c"]
    world.mcp.before, world.mcp.tools = None, ["a"]
    world.now[0] += 3
    world.refresher.listed(ANN)
    await settled(world)
    assert world.names(ANN) == ["a"]


async def test_own_lists_leave_a_broken_circuit_alone(world: World) -> None:
    people = [caller(name=f"p{n}") for n in range(8)]
    for who in people:
        await world.refresher.obtain(who)

    async def broken(request: Request, write: Write) -> bool:
        await write(answer(b"", 500))
        return True

    world.mcp.before = broken
    world.server.requests.clear()
    for who in people:
        world.refresher.listed(who)
        await settled(world, who)
    assert len(world.server.requests) == 5


async def test_an_own_list_of_a_caller_refused_meanwhile_drops_it(world: World) -> None:
    await world.refresher.obtain(ANN)
    world.mcp.tokens = set()
    world.now[0] += 1
    world.refresher.listed(ANN)
    await settled(world)
    assert world.names(ANN) is None


async def test_an_own_list_of_a_caller_nobody_knows_fetches_nothing(world: World) -> None:
    world.refresher.listed(ANN)
    world.refresher.listed(caller(key=None))
    await settled(world)
    assert world.server.requests == []


async def test_without_a_route_an_own_list_makes_the_next_search_ask(executor: Executor) -> None:
    settings = Settings()
    store = CatalogueStore(settings, ToolIndex.build, lambda: 0.0, executor)
    made = Refresher(store, UpstreamClient(settings, executor), settings, lambda: 0.0)
    await store.learn(ANN.key, Catalogue.of([]))
    made.listed(ANN)
    assert not made.rereads(ANN.key)
    listing, searching = store.view(ANN.key), store.view(ANN.key, searches=True)
    assert isinstance(listing, Warm)
    assert listing.fresh
    assert isinstance(searching, Warm)
    assert not searching.fresh
