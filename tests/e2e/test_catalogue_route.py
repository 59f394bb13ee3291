"""Catalogues that stay right: read whole, refreshed behind, fetched once for all, dropped when refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.expect import (
    BUFFERED,
    FIRST_PAGE,
    FULL_DUPLEX,
    LISTED,
    UNREAD,
    echoed,
    found,
    lacks,
    names,
)
from tests.e2e.office import bodies, calls, catalogue, finds, hits, listed, requests, token, tool, until
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.processes import free_ports
from tests.harness.stack import Stack

VERSIONS = [LEGACY[-1], MODERN]
SIX = [*LISTED[:3], "call_read_tools", *LISTED[3:]]
LAST = ("kampas__receptai", "receptai")
"""The last tool of the file, and words that find it."""
PLAIN: dict[str, Any] = {"search": {"embedder": "none"}}
"""What is tested here does not depend on the embedder, and words alone start faster."""


def fresh(running: Stack) -> Stack:
    running.office.reset()
    return running


@pytest.fixture(scope="module")
def _lasting(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    catalog = {"headers": ["x-tenant"]}
    folder = tmp_path_factory.mktemp("lasting")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, catalog=catalog, **PLAIN
    ) as running:
        yield running


@pytest.fixture
def lasting(_lasting: Stack) -> Stack:
    """Lists live for the default time."""
    return fresh(_lasting)


@pytest.fixture(scope="module")
def _brief(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    catalog = {"ttl": 1.0, "refresh_after": 0.0, "timeout": 4.0}
    folder = tmp_path_factory.mktemp("brief")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, catalog=catalog, **PLAIN
    ) as running:
        yield running


@pytest.fixture
def brief(_brief: Stack) -> Iterator[Stack]:
    """Lists live for a second and a client's own list is always asked for."""
    yield fresh(_brief)
    _brief.office.replace_catalogue(catalogue())


# All pages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_a_cold_search_sees_every_page(
    lasting: Stack, gateway: str, version: str, answers: str
) -> None:
    lacks(gateway, (BUFFERED, FULL_DUPLEX), FIRST_PAGE)
    lasting.office.set(page_size=50, answers=answers)
    async with Wire(lasting.url, version, token()) as wire:
        answer = await wire.search(LAST[1])
    assert LAST[0] in found(answer.text)
    assert "note" not in json.loads(answer.text)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_first_page_learned_in_passing_is_completed(
    lasting: Stack, gateway: str, version: str
) -> None:
    """Until the other pages are there, answers say that the list goes on."""
    lacks(gateway, (BUFFERED, FULL_DUPLEX), FIRST_PAGE)
    lasting.office.set(page_size=300, list_delay=0.5)
    async with Wire(lasting.url, version, token()) as wire:
        assert names((await wire.list_tools()).result["tools"]) == SIX
        early = await wire.search("create an issue")
        assert "still being read" in json.loads(early.text)["note"]
        assert LAST[0] not in found((await wire.search(LAST[1])).text)
        await finds(wire, *LAST)
        late = await wire.search("create an issue")
        assert "note" not in json.loads(late.text)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_of_a_tool_on_a_later_page_waits_for_it(
    lasting: Stack, gateway: str, version: str
) -> None:
    lacks(gateway, (BUFFERED, FULL_DUPLEX), FIRST_PAGE)
    lasting.office.set(page_size=300)
    async with Wire(lasting.url, version, token()) as wire:
        await wire.list_tools()
        answer = await wire.read(LAST[0], {})
    assert "There is no tool named" not in answer.text


async def test_a_page_that_fails_leaves_the_old_list(brief: Stack) -> None:
    async with Wire(brief.url, MODERN, token()) as wire:
        assert LAST[0] in await hits(wire, LAST[1])
        brief.office.set(faults={"tools/list": "500"})
        brief.office.forget()
        for _ in range(30):
            assert LAST[0] in await hits(wire, LAST[1])
            await asyncio.sleep(0.1)
        tried = len(bodies(brief.office, "tools/list"))
    assert 1 <= tried <= 3
    """A failing upstream is left alone between the tries."""


# Warm-up and refresh ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_caller_that_was_let_in_is_warm_before_it_asks(lasting: Stack, version: str) -> None:
    async with Wire(lasting.url, version, token()) as wire:
        if wire.modern:
            await wire.request("server/discover")
        await listed(lasting.office, 1)
        lasting.office.set(faults={"tools/list": "500"})

        async def warm() -> bool:
            answer = await wire.search("fixture_echo")
            return answer.status == 200 and "fixture_echo" in answer.body.decode()

        await until(warm, "an answer from what was fetched ahead")
    assert len(bodies(lasting.office, "tools/list")) <= 2


async def test_the_old_list_serves_while_the_new_one_is_fetched(brief: Stack) -> None:
    async with Wire(brief.url, MODERN, token()) as wire:
        assert LAST[0] in await hits(wire, LAST[1])
        await asyncio.sleep(1.1)
        brief.office.replace_catalogue([tool("new__gadget", "Polish a gadget")])
        brief.office.set(list_delay=2.0)
        brief.office.forget()
        assert LAST[0] in await hits(wire, LAST[1])
        await listed(brief.office, 1)
        """The refresh is under way and not answered yet; searches do not wait for it."""
        assert LAST[0] in await hits(wire, LAST[1])
        await finds(wire, "new__gadget", "polish a gadget")
        assert LAST[0] not in await hits(wire, LAST[1])
    assert len(bodies(brief.office, "tools/list")) <= 4


async def test_a_list_past_its_stale_time_does_not_serve(
    gateway: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    catalog = {"ttl": 1.0, "refresh_after": 0.0, "max_stale": 1.0}
    folder = tmp_path_factory.mktemp("stale")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, catalog=catalog, **PLAIN
    ) as running:
        async with Wire(running.url, MODERN, token()) as wire:
            assert "fixture_echo" in await hits(wire, "fixture_echo")
            running.office.set(faults={"tools/list": "error"})
            await asyncio.sleep(2.2)
            answer = await wire.search("fixture_echo")
    assert answer.error["code"] == -32603
    """The upstream's own error, on the in-band path."""


# Many at once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_fetch_for_all_that_wait(lasting: Stack, version: str) -> None:
    lasting.office.set(list_delay=1.0)
    async with Wire(lasting.url, version, token()) as wire:
        lasting.office.forget()
        answers = await asyncio.gather(
            *(wire.search("fixture_echo", number=str(number)) for number in range(1, 41)),
            *(wire.describe("fixture_echo") for _ in range(5)),
            *(wire.read("fixture_echo", {"text": "x"}) for _ in range(5)),
        )
        assert all("fixture_echo" in answer.text for answer in answers)
    assert len(bodies(lasting.office, "tools/list")) == 1


async def test_200_cold_callers_on_a_slow_upstream(lasting: Stack) -> None:
    """Every one gets an answer from its own list; the route takes a few at a time, the rest go in-band."""
    groups = sorted({entry["name"].partition("__")[0] for entry in catalogue()})
    callers = {token(): groups[number % len(groups)] for number in range(200)}
    lasting.office.set(list_delay=0.5, tokens={each: [f"{group}__*"] for each, group in callers.items()})

    async def ask(caller: str, group: str) -> None:
        async with Wire(lasting.url, MODERN, caller) as wire:
            answer = await wire.search(group, "create something", limit=10)
            assert answer.status == 200, answer.body
            shown = found(answer.text)
            assert shown
            assert all(name.startswith(f"{group}__") for name in shown)

    await asyncio.gather(*(ask(*each) for each in callers.items()))
    assert len(bodies(lasting.office, "tools/list")) <= 400
    async with Wire(lasting.url, MODERN, next(iter(callers))) as wire:
        lasting.office.forget()
        assert await hits(wire, "create something")
    assert bodies(lasting.office, "tools/list") == []


# Catalogues that change ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_a_tool_that_goes_between_search_and_call(
    lasting: Stack, gateway: str, version: str, answers: str
) -> None:
    """The server's own words stay, it is said that the tool is gone, and the list is read again."""
    lacks(gateway, (BUFFERED,), UNREAD)
    lasting.office.set(answers=answers)
    lasting.office.replace_catalogue([tool("old__gadget", "Polish a gadget"), tool("old__other", "Other")])
    try:
        async with Wire(lasting.url, version, token()) as wire:
            assert "old__gadget" in await hits(wire, "polish a gadget")
            lasting.office.replace_catalogue([tool("new__gadget", "Polish a gadget")])
            answer = await wire.read("old__gadget", {})
            assert answer.error["code"] == -32602
            assert answer.error["message"].startswith("Unknown tool: old__gadget")
            assert "being read again" in answer.error["message"]
            await finds(wire, "new__gadget", "polish a gadget")
            again = await wire.read("old__gadget", {})
            assert again.is_error
            assert "new__gadget" in again.text
    finally:
        lasting.office.replace_catalogue(catalogue())


async def test_a_server_that_is_missing_from_one_refresh_comes_back(brief: Stack) -> None:
    async with Wire(brief.url, MODERN, token()) as wire:
        await finds(wire, *LAST)
        brief.office.replace_catalogue(
            [each for each in catalogue() if not each["name"].startswith("kampas")]
        )
        await finds(wire, *LAST, wanted=False)
        brief.office.replace_catalogue(catalogue())
        await finds(wire, *LAST)


@pytest.mark.parametrize("version", VERSIONS)
async def test_rights_that_shrink_are_seen_within_the_life_of_a_list(brief: Stack, version: str) -> None:
    caller = token()
    brief.office.set(tokens={caller: ["*"]})
    async with Wire(brief.url, version, caller) as wire:
        await finds(wire, *LAST)
        brief.office.set(tokens={caller: ["fixture_*"]})
        await finds(wire, *LAST, wanted=False)
        assert "fixture_echo" in await hits(wire, "fixture_echo")


@pytest.mark.parametrize("version", VERSIONS)
async def test_rights_that_shrink_are_seen_at_once_after_the_clients_own_list(
    brief: Stack, version: str
) -> None:
    caller = token()
    brief.office.set(tokens={caller: ["*"]})
    async with Wire(brief.url, version, caller) as wire:
        assert LAST[0] in await hits(wire, LAST[1])
        brief.office.set(tokens={caller: ["fixture_*"]})
        await wire.list_tools()
        assert LAST[0] not in await hits(wire, LAST[1])
        refused = await wire.read(LAST[0], {})
    assert refused.is_error
    assert calls(brief.office, LAST[0]) == []


# Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refused_caller_is_dropped_and_gets_the_servers_own_answer(
    brief: Stack, version: str
) -> None:
    caller = token()
    brief.office.set(tokens={caller: ["*"]})
    async with Wire(brief.url, version, caller) as wire:
        await finds(wire, *LAST)
        brief.office.set(tokens={token(): ["*"]})

        async def refused() -> bool:
            return (await wire.search(LAST[1])).status == 401

        await until(refused, "the refusal")
        answers = [
            await wire.search(LAST[1]),
            await wire.describe(LAST[0]),
            await wire.read(LAST[0], {}),
            await wire.call("call_read_tools", {"calls": [{"name": LAST[0]}, {"name": "fixture_echo"}]}),
            await wire.list_tools(),
        ]
        wire.url = brief.raw_url
        raw = await wire.list_tools()
    for answer in answers:
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == raw.headers["www-authenticate"]
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert answer.body == raw.body


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_403_carries_the_clients_own_id(lasting: Stack, version: str) -> None:
    lasting.office.set(faults={"tools/list": "403"})
    async with Wire(lasting.url, version, token()) as wire:
        answers = [
            await wire.search("anything", number='"mine"'),
            await wire.read("fixture_echo", {}, number='"mine"'),
        ]
    for answer in answers:
        assert answer.status == 403
        assert answer.response["id"] == "mine"


# Deadlines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", ["slow", "dead"])
async def test_a_missed_deadline_leads_to_the_in_band_path(
    gateway: str, tmp_path_factory: pytest.TempPathFactory, version: str, fault: str
) -> None:
    folder = tmp_path_factory.mktemp("late")
    (nobody,) = free_ports(1)
    catalog: dict[str, object] = {"timeout": 0.3}
    if fault == "dead":
        catalog["url"] = f"http://127.0.0.1:{nobody}/mcp"
    route = fault == "slow"
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=route, catalog=catalog, **PLAIN
    ) as running:
        if route:
            running.office.set(list_delay=1.0)
        async with Wire(running.url, version, token()) as wire:
            call = await wire.read("fixture_echo", {"text": "x"})
            assert "again" in call.text
            assert echoed((await wire.read("fixture_echo", {"text": "x"})).text)["tool"] == "fixture_echo"
        async with Wire(running.url, version, token()) as wire:
            assert "fixture_echo" in await hits(wire, "fixture_echo")


# What goes out ---------------------------------------------------------------------------------------------


async def test_only_credentials_and_named_headers_go_along(lasting: Stack) -> None:
    caller = token()
    extra = {"x-tenant": "acme", "x-other": "private", "x-toolsearch-url": "http://elsewhere.test/"}
    async with Wire(lasting.url, LEGACY[-1], caller, extra=extra) as wire:
        ((opened, _),) = requests(lasting.office, "notifications/initialized")
        lasting.office.forget()
        await wire.search("fixture_echo")
        ((headers, message),) = requests(lasting.office, "tools/list")
    assert headers["authorization"] == f"Bearer {caller}"
    assert headers["x-tenant"] == "acme"
    assert not {"x-other", "x-toolsearch-url"} & headers.keys()
    assert headers["mcp-session-id"] == opened["mcp-session-id"]
    assert isinstance(message["id"], int)
    assert 2**52 <= message["id"] < 2**53
    assert bodies(lasting.office, "initialize") == []
    """The caller's live session was used, and no other opened."""


# Watching --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def listening(wire: Wire) -> AsyncIterator[httpx.Response]:
    """The stream on which the client hears of changes; it has begun when this returns."""
    if wire.modern:
        params = {"notifications": {"toolsListChanged": True}}
        send = wire.http.stream(
            "POST",
            wire.url,
            content=wire.encode("subscriptions/listen", params, '"l"'),
            headers=wire.headers("subscriptions/listen"),
        )
    else:
        send = wire.http.stream("GET", wire.url, headers={**wire.headers(), "accept": "text/event-stream"})
    async with send as answer:
        assert answer.status_code == 200
        yield answer


@pytest.fixture(scope="module")
def watched(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("watching")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, catalog={"watch": True}, **PLAIN
    ) as running:
        yield running


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("watch", [True, False])
async def test_a_change_that_a_stream_tells_is_taken_in_when_watched(
    watched: Stack, lasting: Stack, gateway: str, version: str, watch: bool
) -> None:
    if watch:
        lacks(gateway, (BUFFERED,), UNREAD)
    if watch and version != MODERN:
        lacks(gateway, (FULL_DUPLEX,), "the shipped file keeps GET streams away from the processor")
    running = fresh(watched) if watch else lasting
    running.office.set(ttl_ms=600_000)
    try:
        async with Wire(running.url, version, token()) as wire:
            assert LAST[0] in await hits(wire, LAST[1])
            async with listening(wire) as stream:
                await until(lambda: streams(running, 1), "an open stream")
                running.office.forget()
                assert running.office.replace_catalogue([tool("new__gadget", "Polish a gadget")]) == 1
                told = await first(stream, "tools/list_changed")
                assert told["method"] == "notifications/tools/list_changed"
                if watch:
                    await finds(wire, "new__gadget", "polish a gadget")
                    assert len(bodies(running.office, "tools/list")) == 1
                else:
                    await asyncio.sleep(2.0)
                    assert LAST[0] in await hits(wire, LAST[1])
                    assert bodies(running.office, "tools/list") == []
    finally:
        running.office.replace_catalogue(catalogue())


async def streams(running: Stack, count: int) -> bool:
    return bool(running.office.state()["streams"] >= count)


async def first(stream: httpx.Response, words: str) -> dict[str, object]:
    """The first message with these words, as soon as it is there."""
    async for line in stream.aiter_lines():
        if line.startswith("data:") and words in line:
            message: dict[str, object] = json.loads(line[5:])
            return message
    raise AssertionError(f"the stream ended without {words}")
