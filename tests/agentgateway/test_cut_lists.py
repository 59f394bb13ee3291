"""Lists of which agentgateway passed on a first page only."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from extproc.catalog.model import Catalogue
from extproc.catalog.parse import parse_tool
from extproc.exchange.messages import Dialect
from extproc.rewriter import shortfall
from extproc.settings import Settings, Tools
from tests.agentgateway.support import MODES, behind, metric, setup
from tests.gateway.variants import VARIANTS
from tests.scenarios.upstream import MODERN
from tests.scenarios.world import ALICE, BOB, Setup, World
from tests.upstream.servers import McpServer, answer, serving, until

CUT = "may be cut at a page"


def raw(*names: str) -> list[bytes]:
    return [
        json.dumps({"name": n, "description": "d", "inputSchema": {"type": "object"}}).encode() for n in names
    ]


def named(server: str, count: int) -> list[str]:
    return [f"{server}_t{number}" for number in range(count)]


def catalogue(*names: str, complete: bool = True) -> Catalogue:
    tools = [parse_tool(one, Tools(), modern=False) for one in raw(*names)]
    return Catalogue.of([tool for tool in tools if tool is not None], complete=complete)


def found(world: World, kind: str) -> float:
    return metric(world, "toolsearch_target_lists_total", found=kind)


@pytest.mark.parametrize("size", sorted(shortfall.PAGES))
def test_a_page_of_one_server_is_seen(size: int) -> None:
    tools = catalogue(*named("files", size), *named("mail", 7))
    (cut,) = shortfall.looks_cut(tools, Dialect.AGENTGATEWAY)
    assert cut == shortfall.Shortfall("files", size)
    assert shortfall.looks_cut(tools, Dialect.ENVOY) == ()


def test_names_without_a_server_are_counted_together() -> None:
    tools = catalogue(*(f"get_{number}" for number in range(60)), *(f"set_{number}" for number in range(40)))
    assert shortfall.looks_cut(tools, Dialect.AGENTGATEWAY) == (shortfall.Shortfall("", 100),)


def test_one_server_with_prefixes_of_its_own_is_counted_whole() -> None:
    tools = catalogue(*named("issues", 20), *named("pulls", 30))
    assert shortfall.looks_cut(tools, Dialect.AGENTGATEWAY) == (shortfall.Shortfall("", 50),)


@pytest.mark.parametrize("size", [1, 49, 51, 99, 101, 999])
def test_other_sizes_are_not(size: int) -> None:
    assert shortfall.looks_cut(catalogue(*named("files", size)), Dialect.AGENTGATEWAY) == ()


def test_a_list_that_says_that_it_goes_on_is_not() -> None:
    tools = catalogue(*named("files", 100), complete=False)
    assert shortfall.looks_cut(tools, Dialect.AGENTGATEWAY) == ()


def test_many_servers_make_a_short_note() -> None:
    note = shortfall.note([shortfall.Shortfall("s" * 500 + str(n), 100) for n in range(40)])
    assert len(note) < 500
    assert "35 more servers" in note


def test_hidden_tools_are_not_missed() -> None:
    tools = catalogue("files_read", "files_write")
    offered = ["read", "write", "drop", "purge"]
    assert shortfall.missing("files", offered, tools, Tools()) == 2
    assert shortfall.missing("files", offered, tools, Tools(hide=("files_drop", "purge"))) == 0


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("mode", MODES)
async def test_a_search_in_a_round_list_says_so(
    mode: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = setup(mode, revision).world(tools=raw(*named("files", 100), *named("mail", 3)))
    client = behind(world, (("x-api-key", "k"),))
    await client.open()
    cold = json.loads((await client.search("t5")).text)
    warm = await client.search("t5")
    assert warm.outcome.local
    for note in (cold["note"], json.loads(warm.text)["note"]):
        assert CUT in note
        assert "'files' (100)" in note
    assert found(world, "round") == 1
    assert metric(world, "toolsearch_warnings_total", setting="catalog.targets") == 1
    (record,) = [record for record in caplog.records if "first pages only" in record.getMessage()]
    assert "files" not in record.getMessage()


async def test_a_list_of_the_catalogue_route_is_looked_at_too() -> None:
    """The gateway cuts that one in the same way."""
    route = McpServer(tools=[*named("files", 50), *named("mail", 3)])
    async with serving(route) as served:
        world = setup(revision=MODERN).world({"catalog": {"url": served.url}})
        found_there = await behind(world, ALICE, strip=False).search("t5")
        assert found_there.outcome.local
        assert CUT in json.loads(found_there.text)["note"]
        assert found(world, "round") == 1


@pytest.mark.parametrize("name", ["envoy-buffered", "agentgateway-one-message"])
async def test_other_lists_get_no_note(name: str) -> None:
    size = 100 if name.startswith("envoy") else 101
    world = Setup(VARIANTS[name], MODERN, False).world(tools=raw(*named("files", size)))
    client = world.client()
    await client.list()
    assert "note" not in json.loads((await client.search("t5")).text)
    assert found(world, "round") == 0


# Compared with the servers' own routes ------------------------------------------------------------


def with_targets(**urls: str) -> dict[str, Any]:
    return {"catalog": {"targets": urls}}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_target_that_lists_more_is_told(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    target = McpServer(tools=[f"t{number}" for number in range(9)], page_size=4, tokens={"Bearer alice"})
    async with serving(target) as served:
        world = setup(revision=revision).world(
            with_targets(files=served.url), tools=raw(*named("files", 4), *named("mail", 3))
        )
        client = behind(world, ALICE, strip=False)
        await client.open()
        await client.list()
        await until(lambda: found(world, "more"))
        note = json.loads((await client.search("t1")).text)["note"]
        assert "the gateway cut the list of server 'files'" in note
        assert "9" not in note
        assert "5" not in note
        await until(lambda: not target.sessions)
        assert {request.header("authorization") for request in served.requests} == {"Bearer alice"}
        sessions = {request.header("mcp-session-id") for request in served.requests} - {None}
        assert client.session not in sessions
        (record,) = [record for record in caplog.records if "only a part of the tools" in record.getMessage()]
        assert "files" in record.getMessage()
        assert metric(world, "toolsearch_warnings_total", setting="catalog.targets") == 1


async def test_a_target_that_lists_the_same_settles_a_round_number() -> None:
    target = McpServer(tools=[f"t{number}" for number in range(50)])
    async with serving(target) as served:
        world = setup(revision=MODERN).world(
            with_targets(files=served.url), tools=raw(*named("files", 50), *named("mail", 50))
        )
        client = behind(world, ALICE, strip=False)
        await client.list()
        await until(lambda: found(world, "same"))
        note = json.loads((await client.search("t1")).text)["note"]
        assert "mail" in note
        assert "files" not in note


async def test_equal_lists_are_compared_once() -> None:
    async with serving(McpServer(tools=["t0"])) as served:
        world = setup(revision=MODERN).world(with_targets(files=served.url), tools=raw(*named("files", 1)))
        for headers in (ALICE, BOB, ALICE):
            await behind(world, headers, strip=False).list()
        await until(lambda: found(world, "same"))
        await asyncio.sleep(0.05)
        assert served.methods() == ["tools/list"]
        world.server.tools = raw(*named("files", 2))
        await behind(world, (("authorization", "Bearer carol"),), strip=False).list()
        await until(lambda: found(world, "same") == 2)
        assert served.methods() == ["tools/list"] * 2


async def test_a_target_that_fails_is_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    broken = McpServer()

    async def fail(request: Any, write: Any) -> bool:
        await write(answer(b"no", 500, "text/plain"))
        return True

    broken.before = fail
    async with serving(broken) as served:
        world = setup(revision=MODERN).world(
            with_targets(files=served.url, gone="http://127.0.0.1:1/mcp"), tools=raw(*named("files", 2))
        )
        client = behind(world, ALICE, strip=False)
        await client.list()
        await until(lambda: found(world, "failed") == 2)
        assert "note" not in json.loads((await client.search("t1")).text)
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_comparisons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extproc.upstream.targets.MAX_WAITING", 2)
    async with serving(McpServer(tools=["t0"], delay=60)) as served:
        world = setup(revision=MODERN).world(with_targets(files=served.url))
        for size in range(1, 5):
            world.server.tools = raw(*named("files", size))
            headers = (("authorization", f"Bearer {size}"),)
            await behind(world, headers, strip=False).list()
        await until(lambda: served.requests)
        assert found(world, "skipped") == 2


def test_what_a_target_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    from extproc.cli import main

    assert main(["serve", "--check", "--catalog.targets", "files=http://127.0.0.1:10002/mcp/files"]) == 0
    assert main(["serve", "--check", "--catalog.targets", "files=ftp://u:s3cret@h/x"]) == 2
    said = capsys.readouterr().err
    assert "catalog.targets" in said
    assert "s3cret" not in said


def test_a_replay_asks_no_target() -> None:
    from extproc.replay import offline

    assert offline(Settings.model_validate(with_targets(a="http://h/mcp"))).catalog.targets == {}
