"""``call_read_tools``: several read-only calls at once, one result for each in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.expect import echoed, names
from tests.e2e.office import bodies, calls, finds, hits, requests, token, under_way, until
from tests.fixture_server.calls import PIXEL
from tests.harness import stack
from tests.harness.client import LEGACY, META, MODERN, Answer, Wire
from tests.harness.stack import Stack

VERSIONS = [LEGACY[-1], MODERN]
PLAIN: dict[str, Any] = {"search": {"embedder": "none"}}
MANY = "call_read_tools"


@pytest.fixture(scope="module")
def _routed(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("batch")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, catalog={"timeout": 5.0}, **PLAIN
    ) as running:
        yield running


@pytest.fixture
def routed(_routed: Stack) -> Stack:
    """A call of a batch has two seconds."""
    _routed.office.reset()
    return _routed


def entry(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def batch(wire: Wire, *entries: dict[str, Any], number: str = "1") -> Answer:
    return await wire.call(MANY, {"calls": list(entries)}, number=number)


def parts(answer: Answer) -> list[list[dict[str, Any]]]:
    """The content blocks of each entry, without the line that names it."""
    found: list[list[dict[str, Any]]] = []
    for block in answer.result["content"]:
        if block["type"] == "text" and block["text"].startswith(f"Call {len(found) + 1} of "):
            found.append([])
        else:
            found[-1].append(block)
    return found


def text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def failed(answer: Answer) -> list[bool]:
    return [one["isError"] for one in answer.result["structuredContent"]["results"]]


# Results ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_results_come_in_the_order_of_the_calls(routed: Stack, version: str, answers: str) -> None:
    routed.office.set(answers=answers)
    async with Wire(routed.url, version, token()) as wire:
        delays = [0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5, 0.05]
        answer = await batch(wire, *(entry("fixture_slow", seconds=delay) for delay in delays), number='"b"')
    assert answer.response["id"] == "b"
    assert [echoed(text(part))["arguments"]["seconds"] for part in parts(answer)] == delays
    assert not answer.is_error
    assert failed(answer) == [False] * 10


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_calls_are_under_way_at_once(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        await hits(wire, "fixture_slow")
        work = asyncio.create_task(batch(wire, *[entry("fixture_slow", seconds=4.0)] * 10))

        async def together() -> bool:
            return under_way(routed.office, "fixture_slow") == 10

        await until(together, "ten calls at the same time")
        assert failed(await work) == [False] * 10


@pytest.mark.parametrize("version", VERSIONS)
async def test_text_images_and_structured_content_are_kept(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await batch(wire, entry("fixture_content"), entry("fixture_echo", text="é 1.0"))
    first, second = parts(answer)
    assert {"type": "image", "data": PIXEL, "mimeType": "image/png"} in first
    assert text(first) == '{"answer": 42}'
    assert echoed(text(second))["arguments"] == {"text": "é 1.0"}
    results = answer.result["structuredContent"]["results"]
    assert results[0] == {"name": "fixture_content", "isError": False, "structuredContent": {"answer": 42}}
    assert "structuredContent" not in results[1]


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_that_fails_or_is_late_does_not_take_the_others_along(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await batch(
            wire,
            entry("fixture_echo", text="before"),
            entry("fixture_slow", seconds=30),
            entry("fixture_fail", how="is_error"),
            entry("fixture_fail", how="500"),
            entry("fixture_fail", how="reset"),
            entry("fixture_fail", how="half"),
            entry("fixture_echo", text="after"),
        )
    shown = [text(part) for part in parts(answer)]
    assert echoed(shown[0])["arguments"] == {"text": "before"}
    assert "timeout" in shown[1]
    assert shown[2] == "The upstream system said no."
    assert "-32603" in shown[3] or "500" in shown[3] or "status" in shown[3]
    assert "again is safe" in shown[4]
    assert "again is safe" in shown[5]
    assert echoed(shown[6])["arguments"] == {"text": "after"}
    assert failed(answer) == [False, True, True, True, True, True, False]
    assert not answer.is_error
    assert len(calls(routed.office, "fixture_fail")) == 4
    """Nothing is sent twice."""


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_server_s_complaint_is_followed_by_the_schema(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await batch(wire, entry("fixture_fail", how="invalid_params"), entry("fixture_echo"))
    shown = text(parts(answer)[0])
    assert "Invalid params: how must be something else" in shown
    assert '"how"' in shown.partition("inputSchema")[2]


async def test_a_tool_that_is_gone_is_said_and_the_list_is_read_again(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        await hits(wire, "fixture_echo")
        before = len(bodies(routed.office, "tools/list"))
        answer = await batch(wire, entry("fixture_fail", how="unknown_tool"), entry("fixture_echo"))
        assert "being read again" in text(parts(answer)[0])

        async def again() -> bool:
            return len(bodies(routed.office, "tools/list")) > before

        await until(again, "a new list")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_403_is_the_answer_of_the_whole(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await batch(
            wire, entry("fixture_echo"), entry("fixture_fail", how="403"), entry("fixture_slow", seconds=30)
        )
    assert answer.status == 403
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="tools:write"'
    assert answer.response["id"] == 1


async def test_a_question_to_the_person_is_left_to_the_single_call(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        answer = await batch(wire, entry("fixture_elicit"), entry("fixture_echo"))
    assert "call it alone with call_read_tool" in text(parts(answer)[0])
    assert failed(answer) == [True, False]


async def test_structured_content_only_where_the_revision_has_it(routed: Stack) -> None:
    async with Wire(routed.url, LEGACY[0], token()) as wire:
        answer = await batch(wire, entry("fixture_content"), entry("fixture_echo"))
    assert "structuredContent" not in answer.result
    assert len(parts(answer)) == 2


# What is sent ----------------------------------------------------------------------------------------------


async def test_each_modern_call_has_its_own_headers(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        answer = await batch(
            wire,
            entry("fixture_region", region="eu", level=3, dry=True),
            entry("fixture_region", region="münchen"),
            entry("fixture_region", text="no header"),
        )
    assert failed(answer) == [False] * 3
    """The server refuses a call whose headers do not fit its arguments."""
    made = [headers for headers, _ in requests(routed.office, "tools/call")]
    assert sorted(headers.get("mcp-param-region", "") for headers in made) == [
        "",
        "=?base64?bcO8bmNoZW4=?=",
        "eu",
    ]
    assert {headers["mcp-name"] for headers in made} == {"fixture_region"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_calls_have_ids_of_their_own_and_offer_nothing(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        params = {
            "name": MANY,
            "arguments": {"calls": [entry("fixture_echo", text="a"), entry("fixture_echo", text="b")]},
            "_meta": {"progressToken": "mine"},
        }
        await wire.request("tools/call", params, number="7")
        sent = calls(routed.office, "fixture_echo")
    ids = [message["id"] for message in sent]
    assert len(set(ids)) == 2
    assert all(isinstance(each, int) and each >= 2**52 for each in ids)
    for message in sent:
        meta = message["params"].get("_meta", {})
        assert "progressToken" not in meta
        assert "task" not in message["params"]
        assert meta.get(f"{META}clientCapabilities", {}) == {}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_batch_of_one_is_a_plain_call(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        params = {
            "name": MANY,
            "arguments": {"calls": [entry("fixture_echo", text="x")]},
            "_meta": {"progressToken": "mine"},
        }
        answer = await wire.request("tools/call", params, number='"only"')
        ((headers, message),) = requests(routed.office, "tools/call")
    assert echoed(answer.text)["arguments"] == {"text": "x"}
    assert message["id"] == "only"
    assert message["params"]["name"] == "fixture_echo"
    assert message["params"]["_meta"]["progressToken"] == "mine"
    assert headers.get("mcp-name", "fixture_echo") == "fixture_echo"


# Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_batch_with_one_that_is_no_read_is_refused_whole(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await batch(
            wire,
            entry("fixture_echo", text="x"),
            entry("fixture_write", text="x"),
            entry("fixture_ecko"),
            entry("fixture_region", level="three"),
            entry("fixture_delete"),
        )
    assert answer.is_error
    assert "No call was made." in answer.text
    assert "Call 2: 'fixture_write' is writing" in answer.text
    assert "Call 3: There is no tool named 'fixture_ecko'" in answer.text
    assert "Call 4: The arguments do not fit 'fixture_region'" in answer.text
    assert "Call 5: 'fixture_delete' is destructive" in answer.text
    assert "Call 1:" not in answer.text
    assert bodies(routed.office, "tools/call") == []


async def test_more_than_ten_or_none_are_refused(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        sizes: list[list[dict[str, Any]]] = [[], [entry("fixture_echo")] * 11]
        for entries in sizes:
            answer = await batch(wire, *entries)
            assert answer.is_error
            assert f"{len(entries)} calls given, 1 to 10 are allowed" in answer.text


@pytest.mark.parametrize("route", [True, False])
async def test_it_is_not_offered_without_a_route_or_when_switched_off(
    gateway: str, tmp_path_factory: pytest.TempPathFactory, route: bool
) -> None:
    settings: dict[str, Any] = {"calls": {"max_batch": 0}} if route else {}
    folder = tmp_path_factory.mktemp("absent")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=route, **settings, **PLAIN
    ) as running:
        async with Wire(running.url, MODERN, token()) as wire:
            assert MANY not in names((await wire.list_tools()).result["tools"])
            answer = await batch(wire, entry("fixture_echo"), entry("fixture_echo"))
            assert answer.is_error
            assert "one by one with call_read_tool" in answer.text
            assert bodies(running.office, "tools/call") == []


async def test_its_size_follows_the_setting(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fewer calls than ten, and results cut with a note where they are too large together."""
    folder = tmp_path_factory.mktemp("bounds")
    settings: dict[str, Any] = {"calls": {"max_batch": 3}, "limits": {"batch_result": 1_000}}
    with stack.single_upstream(folder, gateway=gateway, catalogue_route=True, **settings, **PLAIN) as running:
        async with Wire(running.url, MODERN, token()) as wire:
            listed = {each["name"]: each for each in (await wire.list_tools()).result["tools"]}
            assert listed[MANY]["inputSchema"]["properties"]["calls"]["maxItems"] == 3
            big = [entry("fixture_big", bytes=100_000), entry("fixture_big", bytes=2_000_000)]
            answer = await batch(wire, big[0], entry("fixture_echo", text="small"), big[1])
            refused = await batch(wire, *([entry("fixture_echo")] * 4))
    first, second, third = (text(part) for part in parts(answer))
    assert first.startswith("xxx")
    assert "cut" in first
    assert "call_read_tool" in first
    assert "cut" in third
    assert echoed(second)["arguments"] == {"text": "small"}
    assert sum(map(len, (first, second, third))) <= 4_500
    assert "1 to 3 are allowed" in refused.text


# Cancelling ------------------------------------------------------------------------------------------------


async def started(routed: Stack, count: int) -> None:
    async def enough() -> bool:
        return len(calls(routed.office, "fixture_slow")) >= count

    await until(enough, f"{count} calls under way")


async def test_a_client_that_leaves_cancels_every_call(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        await hits(wire, "fixture_slow")
        work = asyncio.create_task(batch(wire, *[entry("fixture_slow", seconds=60)] * 4))
        await started(routed, 4)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

        async def cancelled() -> bool:
            return bool(routed.office.state()["cancelled"] == ["fixture_slow"] * 4)

        await until(cancelled, "all four cancelled")


async def test_a_legacy_client_that_leaves_cancels_every_call(routed: Stack) -> None:
    async with Wire(routed.url, LEGACY[-1], token()) as wire:
        await hits(wire, "fixture_slow")
        work = asyncio.create_task(batch(wire, *[entry("fixture_slow", seconds=4.8)] * 3))
        await started(routed, 3)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, httpx.HTTPError):
            await work
        await told(routed, [message["id"] for message in calls(routed.office, "fixture_slow")])


async def told(routed: Stack, ids: list[int]) -> None:
    """Until the server has been told that these requests are cancelled."""

    async def all_told() -> bool:
        given = bodies(routed.office, "notifications/cancelled")
        return sorted(ids) == sorted(
            message["params"]["requestId"] for message in given if message["params"]["requestId"] in ids
        )

    await until(all_told, "every call cancelled at the server")


async def test_a_cancellation_ends_the_batch_it_names_and_no_other(routed: Stack) -> None:
    caller = token()
    async with Wire(routed.url, LEGACY[-1], caller) as wire, Wire(routed.url, LEGACY[-1], caller) as twin:
        await hits(wire, "fixture_slow")
        slow = [entry("fixture_slow", seconds=4.8)] * 2
        mine = asyncio.create_task(batch(wire, *slow, number="5"))
        await started(routed, 2)
        ids = [message["id"] for message in calls(routed.office, "fixture_slow")]
        same = asyncio.create_task(batch(twin, *slow, number="5"))
        await started(routed, 4)
        await wire.notify("notifications/cancelled", {"requestId": 5, "reason": "changed my mind"})
        answer = await mine
        assert answer.is_error
        assert "cancelled" in answer.text
        await told(routed, ids)
        assert failed(await same) == [False, False]
    assert len(bodies(routed.office, "notifications/cancelled")) == 3


async def test_a_cold_batch_fetches_the_list_first(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        answer = await batch(wire, entry("fixture_echo", text="a"), entry("fixture_echo", text="b"))
        assert failed(answer) == [False, False]
        assert len(bodies(routed.office, "tools/list")) == 1
        await finds(wire, "fixture_echo", "fixture_echo")


async def test_a_cold_batch_without_a_list_is_an_answer(routed: Stack) -> None:
    routed.office.set(faults={"tools/list": "error"})
    async with Wire(routed.url, MODERN, token()) as wire:
        answer = await batch(wire, entry("fixture_echo"), entry("fixture_echo"))
    assert answer.is_error
    assert "could not be read" in answer.text


async def test_weak_models_shapes_are_understood(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        given: list[dict[str, Any]] = [
            {"name": "fixture_echo", "arguments": '{"text": "string"}'},
            {"name": "fixture_echo", "text": "beside"},
            {"name": "fixture_echo", "parameters": {"text": "other word"}},
        ]
        answer = await batch(wire, *given)
        as_text = await wire.call(MANY, {"calls": json.dumps(given[:2])})
    said = [echoed(text(part))["arguments"]["text"] for part in parts(answer)]
    assert said == ["string", "beside", "other word"]
    assert failed(as_text) == [False, False]
