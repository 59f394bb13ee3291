"""A client's own list and every refusal are acted upon at once, through the gateway."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.expect import names
from tests.e2e.office import bodies, calls, catalogue, finds, hits, token, tool, until
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.servers import Fixture
from tests.harness.stack import Stack

VERSIONS = [LEGACY[-1], MODERN]
PLAIN: dict[str, Any] = {"search": {"embedder": "none"}}
WORDS = "polish a gadget"
OLD, NEW = tool("old__gadget", "Polish a gadget"), tool("new__gadget", "Polish a gadget")


@pytest.fixture(scope="module", params=stack.gateways())
def _routed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("routed")
    with stack.single_upstream(folder, gateway=request.param, catalogue_route=True, **PLAIN) as running:
        yield running


@pytest.fixture
def routed(_routed: Stack) -> Iterator[Stack]:
    """With a catalogue route; lists within the default 5 s are answered from memory."""
    yield from showing(_routed)


@pytest.fixture(scope="module", params=stack.gateways())
def _alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack.single_upstream(tmp_path_factory.mktemp("alone"), gateway=request.param, **PLAIN) as running:
        yield running


@pytest.fixture
def alone(_alone: Stack) -> Iterator[Stack]:
    """Without one."""
    yield from showing(_alone)


def showing(running: Stack) -> Iterator[Stack]:
    running.office.reset()
    running.office.replace_catalogue([OLD])
    yield running
    running.office.reset()
    running.office.replace_catalogue(catalogue())


async def test_callers_that_came_together_are_not_refreshed_together(tmp_path: Path) -> None:
    """Their lists are of one age and in use; the server is asked for them again over a part of their life."""
    callers = [token() for _ in range(24)]
    settings = {**PLAIN, "catalog": {"ttl": 4.0}}
    with stack.single_upstream(tmp_path, catalogue_route=True, **settings) as running:
        async with contextlib.AsyncExitStack() as opened:
            wires = [
                await opened.enter_async_context(Wire(running.url, MODERN, caller)) for caller in callers
            ]
            assert all(await asyncio.gather(*(hits(wire, "fixture_echo") for wire in wires)))
            came = times(running.office, len(callers))
            running.office.forget()

            async def all_refreshed() -> bool:
                await asyncio.gather(*(hits(wire, "fixture_echo") for wire in wires))
                return len(bodies(running.office, "tools/list")) >= len(callers)

            await until(all_refreshed, "second lists")
            again = times(running.office, len(callers))
    assert spread(again) > spread(came) + 0.5
    """Two tenths of a life and a second are meant."""


def spread(moments: list[float]) -> float:
    return max(moments) - min(moments)


def times(office: Fixture, count: int) -> list[float]:
    """When the server received the first lists, one for each caller, in seconds."""
    found = [entry["time"] for entry in office.received() if b"tools/list" in base64.b64decode(entry["body"])]
    assert len(found) >= count
    return found[:count]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_own_list_is_answered_at_once_and_read_again_behind(routed: Stack, version: str) -> None:
    """The list does not wait for the server, the search after it does: the removed tool is gone."""
    async with Wire(routed.url, version, token()) as wire:
        await wire.list_tools()
        assert await hits(wire, WORDS)
        routed.office.replace_catalogue([NEW])
        assert "old__gadget" in await hits(wire, WORDS)
        """Nothing has told anybody yet."""
        routed.office.set(list_delay=2.0)
        routed.office.forget()
        async with asyncio.timeout(60):
            own = await wire.list_tools()
        assert "call_read_tools" in names(own.result["tools"])
        answered = [entry["status"] for entry in routed.office.received() if entry["status"]]
        assert answered == []
        """No list has come back from the server by the time the client has its own."""
        shown = await asyncio.gather(*(hits(wire, WORDS) for _ in range(8)))
        assert all("old__gadget" not in each and "new__gadget" in each for each in shown)
        assert len(bodies(routed.office, "tools/list")) == 1
        refused = await wire.read("old__gadget", {})
    assert refused.is_error
    assert calls(routed.office, "old__gadget") == []


async def test_rights_that_shrink_are_seen_after_an_own_list_within_five_seconds(routed: Stack) -> None:
    caller = token()
    routed.office.set(tokens={caller: ["*"]})
    async with Wire(routed.url, MODERN, caller) as wire:
        await wire.list_tools()
        assert "old__gadget" in await hits(wire, WORDS)
        routed.office.set(tokens={caller: ["fixture_*"]})
        await wire.list_tools()
        assert "old__gadget" not in await hits(wire, WORDS)
        assert "fixture_echo" in await hits(wire, "fixture_echo")


async def test_a_caller_refused_meanwhile_is_told_after_its_own_list(routed: Stack) -> None:
    caller = token()
    routed.office.set(tokens={caller: ["*"]})
    async with Wire(routed.url, MODERN, caller) as wire:
        await wire.list_tools()
        routed.office.set(tokens={token(): ["*"]})
        assert (await wire.list_tools()).status == 200
        """Answered from memory, as any search in these five seconds."""
        refused = await wire.search(WORDS)
    assert refused.status == 401
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


async def test_a_route_that_fails_after_an_own_list_leaves_the_old_one(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        await wire.list_tools()
        routed.office.set(faults={"tools/list": "503"})
        routed.office.forget()
        for _ in range(10):
            assert (await wire.list_tools()).status == 200
            assert "old__gadget" in await hits(wire, WORDS)
        assert len(bodies(routed.office, "tools/list")) == 1
        """And it is left alone for a while."""


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_a_route_the_search_after_an_own_list_asks(alone: Stack, version: str) -> None:
    async with Wire(alone.url, version, token()) as wire:
        await wire.list_tools()
        assert "old__gadget" in await hits(wire, WORDS)
        alone.office.replace_catalogue([NEW])
        alone.office.forget()
        for _ in range(3):
            await wire.list_tools()
        assert bodies(alone.office, "tools/list") == []
        """Lists alone cost the server nothing in these five seconds."""
        shown = await hits(wire, WORDS)
        assert "old__gadget" not in shown
        assert "new__gadget" in shown
        await hits(wire, WORDS)
        assert len(bodies(alone.office, "tools/list")) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_401_to_one_call_of_a_warm_batch_is_the_answer(routed: Stack, version: str) -> None:
    """Status, challenge and words are the server's; the others are ended and the caller is forgotten."""
    entries = [
        {"name": "fixture_echo", "arguments": {"text": "x"}},
        {"name": "fixture_fail", "arguments": {"how": "401"}},
        {"name": "fixture_slow", "arguments": {"seconds": 30}},
    ]
    async with Wire(routed.url, version, token()) as wire:
        await finds(wire, "old__gadget", WORDS)
        routed.office.forget()
        answer = await wire.call("call_read_tools", {"calls": entries}, number='"mine"')
        assert bodies(routed.office, "tools/list") == []
        """Warm: the 401 is a call's own."""
        assert answer.status == 401
        assert (
            answer.headers["www-authenticate"] == 'Bearer error="invalid_token", error_description="expired"'
        )
        assert answer.response == {
            "jsonrpc": "2.0",
            "id": "mine",
            "error": {"code": -32600, "message": "Unauthorized"},
        }
        assert await hits(wire, WORDS)
        assert len(bodies(routed.office, "tools/list")) == 1
