"""What flows during a call: progress, questions, long waits, clients that leave, large bodies."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.e2e.expect import LISTED, REWRITTEN, echoed, envoy_only, found, names
from tests.harness.client import LEGACY, MODERN, Wire, official, text_of
from tests.harness.stack import Stack

LONG_CALL_SECONDS = float(os.environ.get("LONG_CALL_SECONDS", "16"))
"""Above the message timeout of the filter (10 s) and Envoy's default route timeout (15 s)."""
MODES = ["legacy", "2026-07-28"]
VERSIONS = [LEGACY[-1], MODERN]


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never became true"
        await asyncio.sleep(0.05)


def fresh() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize("mode", MODES)
async def test_progress_reaches_the_client(single: Stack, mode: str) -> None:
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with official(single.url, mode, token=fresh()) as client:
        await client.list_tools()
        asked = {"name": "fixture_progress", "arguments": {"steps": 4}}
        result = await client.call_tool("call_read_tool", asked, progress_callback=progressed)
    assert steps == [1, 2, 3, 4]
    assert echoed(text_of(result))["arguments"] == {"steps": 4}


async def test_progress_through_joined_servers(joined: Stack) -> None:
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with official(joined.url) as client:
        await client.list_tools()
        asked = {"name": joined.name("fixture_progress"), "arguments": {"steps": 3}}
        await client.call_tool("call_read_tool", asked, progress_callback=progressed)
    assert steps == [1, 2, 3]


@pytest.mark.parametrize("mode", MODES)
async def test_elicitation_during_a_call(single: Stack, mode: str) -> None:
    """Deadlocks when the answer is buffered: the call ends only after the person has replied."""
    questions: list[str] = []

    async def ask(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"answer": "taip"})

    async with official(single.url, mode, token=fresh(), elicitation_callback=ask) as client:
        await client.list_tools()
        asked = {"name": "fixture_elicit", "arguments": {"question": "Tikrai?", "n": 1.0}}
        result = await client.call_tool("call_read_tool", asked)
    assert questions == ["Tikrai?"]
    assert echoed(text_of(result))["answer"]["content"] == {"answer": "taip"}


async def test_retry_with_a_request_state_on_a_cold_processor(single: Stack) -> None:
    """The second round may hit a processor that knows nothing: it learns, and the third round works."""
    asked = {"name": "fixture_elicit", "arguments": {"question": "q", "n": 1.0}}
    async with Wire(single.url, MODERN, fresh()) as wire:
        await wire.list_tools()
        first = (await wire.call("call_read_tool", asked)).result
        assert first["resultType"] == "input_required"
        more = {"requestState": first["requestState"], "inputResponses": {"q": {"action": "decline"}}}
        retry = await wire.request(
            "tools/call", {"name": "call_read_tool", "arguments": asked, **more}, number="2"
        )
    assert echoed(retry.text)["answer"] == {"action": "decline"}
    assert [r["status"] for r in single.office.received()][-1] == 200


async def test_long_calls(single: Stack) -> None:
    async def one(version: str) -> None:
        async with Wire(single.url, version, fresh()) as wire:
            await wire.list_tools()
            answer = await wire.read("fixture_slow", {"seconds": LONG_CALL_SECONDS})
        assert echoed(answer.text)["arguments"] == {"seconds": LONG_CALL_SECONDS}

    await asyncio.gather(*(one(version) for version in VERSIONS))


async def test_client_that_disconnects_cancels_the_call(single: Stack) -> None:
    """2026-07-28: closing the stream is the cancellation, so it must reach the server."""
    async with Wire(single.url, MODERN, fresh()) as wire:
        await wire.list_tools()
        arguments = {"name": "fixture_progress", "arguments": {"steps": 1000}}
        params = {"name": "call_read_tool", "arguments": arguments, "_meta": {"progressToken": "p"}}
        body = wire.encode("tools/call", params, "9")
        headers = wire.headers("tools/call", "call_read_tool")
        async with wire.http.stream("POST", wire.url, content=body, headers=headers) as stream:
            async for line in stream.aiter_lines():
                if "notifications/progress" in line:
                    break
    await until(lambda: single.office.state()["cancelled"] == ["fixture_progress"])
    async with Wire(single.url, MODERN, fresh()) as wire:
        assert (await wire.search("fixture echo")).status == 200


async def test_client_that_leaves_while_the_list_is_fetched(single: Stack) -> None:
    single.office.set(list_delay=1.0)
    async with Wire(single.url, MODERN, token := fresh()) as wire:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.search("echo"), 0.3)
    async with Wire(single.url, MODERN, token) as wire:
        answer = await wire.search("fixture_echo")
    assert "fixture_echo" in found(answer.text)


@pytest.mark.parametrize("version", VERSIONS)
async def test_three_megabyte_argument(single: Stack, version: str) -> None:
    text = "Žąsys plaukia. " * 180_000
    async with Wire(single.url, version, fresh()) as wire:
        await wire.list_tools()
        answer = await wire.write("fixture_write", {"text": text})
    assert len(text.encode()) > 3_000_000
    assert echoed(answer.text)["arguments"] == {"text": text}


async def test_three_megabyte_argument_through_joined_servers(joined: Stack) -> None:
    text = "x" * 3_000_000
    async with Wire(joined.url, "2025-06-18", fresh()) as wire:
        await wire.list_tools()
        answer = await wire.write(joined.name("fixture_write"), {"text": text})
    assert echoed(answer.text)["arguments"] == {"text": text}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_six_megabyte_tool_list(single: Stack, version: str, answers: str) -> None:
    single.office.set(extra_bytes=6_000_000, answers=answers)
    async with Wire(single.url, version, fresh()) as wire:
        listed = await wire.list_tools()
        assert names(listed.result["tools"]) == LISTED
        searched = await wire.search("give back the arguments as they came")
        assert "fixture_echo" in found(searched.text)
        wire.url = single.raw_url
        raw = await wire.list_tools()
    assert len(raw.body) > 6_000_000
    assert len(searched.body) < 100_000


async def test_six_megabyte_tool_list_through_joined_servers(joined: Stack) -> None:
    joined.office.set(extra_bytes=6_000_000)
    async with Wire(joined.url, "2025-06-18", fresh()) as wire:
        searched = await wire.search(joined.name("fixture_echo"))
    assert joined.name("fixture_echo") in found(searched.text)


@pytest.mark.parametrize("version", VERSIONS)
async def test_compressed_tool_list(single: Stack, version: str) -> None:
    single.office.set(compress=True)
    async with Wire(single.url, version, fresh()) as wire:
        assert "gzip" in wire.http.headers["accept-encoding"]
        listed = await wire.list_tools()
        searched = await wire.search("fixture_echo")
    assert names(listed.result["tools"]) == LISTED
    assert "fixture_echo" in found(searched.text)


async def test_large_answers_of_calls_pass(single: Stack) -> None:
    async with Wire(single.url, MODERN, fresh()) as wire:
        await wire.list_tools()
        answer = await wire.read("fixture_big", {"bytes": 20_000_000})
    assert len(answer.text) == 20_000_000


async def test_forwarded_bytes_are_the_client_s_own(single: Stack) -> None:
    """Numbers, escapes, duplicate members and unknown members arrive as they were written."""
    envoy_only(single, REWRITTEN)
    inner = '{"text":"\\u0105\\/","n":1.0,"big":123456789012345678901234567890,"e":1E2,"d":1,"d":2}'
    params = (
        '{"name":"call_read_tool","arguments":{"name":"fixture_echo","arguments":' + inner + "},"
        '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientCapabilities":{},"x/y":1.50},"other":[1e400]}'
    )
    body = '{"jsonrpc":"2.0","id":70000000000000000000001,"method":"tools/call","params":' + params + "}"
    async with Wire(single.url, MODERN, fresh()) as wire:
        await wire.list_tools()
        single.office.forget()
        answer = await wire.post(body.encode(), wire.headers("tools/call", "call_read_tool"))
        assert answer.status == 200, answer.body
    (sent,) = single.office.received()
    raw = base64.b64decode(sent["body"]).decode()
    for part in (inner, '"x/y":1.50', '"other":[1e400]', '"id":70000000000000000000001'):
        assert part in raw
    assert "call_read_tool" not in raw
    assert json.loads(answer.body)["id"] == 70000000000000000000001


async def test_get_stream_carries_notifications(single: Stack) -> None:
    async with Wire(single.url, LEGACY[-1], fresh()) as wire:
        headers = {**wire.headers("get"), "accept": "text/event-stream"}
        async with wire.http.stream("GET", wire.url, headers=headers) as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()
            assert await anext(lines) == ": open"
            assert single.office.notify() == 1
            async for line in lines:
                if "notifications/tools/list_changed" in line:
                    break
    await until(lambda: single.office.state()["streams"] == 0)
