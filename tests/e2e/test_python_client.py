"""The official Python client through the real Envoy, in every mode it has."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from tests.e2e.expect import GUIDANCE, LISTED, echoed, found, names
from tests.harness.client import official, text_of
from tests.harness.gateway import Envoy
from tests.harness.stack import Stack

SINGLE = [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
JOINED = [("legacy", "2025-06-18"), ("auto", "2025-06-18")]


async def first_search(client: Client, tool: str) -> None:
    result = await client.call_tool("search_tools", {"queries": ["give back the arguments as they came"]})
    assert not result.is_error
    assert tool in found(text_of(result))


async def questions_and_progress(stack: Stack, mode: str, token: str) -> None:
    """A call that asks the user and one that reports how far it is, both over one session."""
    steps: list[float] = []

    async def ask(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "taip"})

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with official(stack.url, mode, token=token, elicitation_callback=ask) as client:
        await client.list_tools()
        answered = await client.call_tool("call_read_tool", {"name": "fixture_elicit", "arguments": {}})
        asked = {"name": "fixture_progress", "arguments": {"steps": 3}}
        await client.call_tool("call_read_tool", asked, progress_callback=progressed)
    assert echoed(text_of(answered))["answer"]["content"] == {"answer": "taip"}
    assert steps == [1, 2, 3]


async def whole_conversation(client: Client, stack: Stack) -> None:
    """Everything a user does: list, search, describe, call each class, and be corrected."""
    echo, write, delete = (stack.name(tool) for tool in ("fixture_echo", "fixture_write", "fixture_delete"))
    listed = await client.list_tools()
    assert names(listed.tools) == LISTED
    assert listed.next_cursor is None

    await first_search(client, echo)

    described = await client.call_tool("describe_tool", {"names": [echo]})
    assert found(text_of(described))[0] == echo
    assert '"text"' in text_of(described)

    for meta, tool in (
        ("call_read_tool", echo),
        ("call_write_tool", write),
        ("call_destructive_tool", delete),
    ):
        result = await client.call_tool(meta, {"name": tool, "arguments": {"text": f"ąž {meta}"}})
        assert not result.is_error, text_of(result)
        said = echoed(text_of(result))
        assert said["arguments"] == {"text": f"ąž {meta}"}
        assert tool.endswith(said["tool"])

    refused = await client.call_tool("call_read_tool", {"name": delete, "arguments": {}})
    assert refused.is_error
    assert "call_destructive_tool" in text_of(refused)

    unknown = await client.call_tool("call_read_tool", {"name": echo + "s", "arguments": {}})
    assert unknown.is_error
    assert echo in text_of(unknown)


@pytest.mark.parametrize(("mode", "version"), SINGLE)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_single_upstream(single: Stack, mode: str, version: str, answers: str) -> None:
    single.office.set(answers=answers)
    async with official(single.url, mode, token="someone") as client:
        assert client.protocol_version == version
        await whole_conversation(client, single)


@pytest.mark.parametrize(("mode", "version"), JOINED)
async def test_joined_servers(joined: Stack, mode: str, version: str) -> None:
    async with official(joined.url, mode) as client:
        # Envoy's router joins in one revision only.
        assert client.protocol_version == version or not isinstance(joined.gateway, Envoy)
        await whole_conversation(client, joined)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_guidance_comes_before_the_upstream_instructions(single: Stack, mode: str) -> None:
    async with official(single.url, mode) as client:
        text = client.instructions or ""
    assert GUIDANCE in text
    assert text.index(GUIDANCE) < text.index("The fixture server answers")


@pytest.mark.parametrize("mode", [mode for mode, _ in SINGLE])
async def test_search_is_the_very_first_call(single: Stack, mode: str) -> None:
    """Cold: nothing was listed before, and the answer is there on the same exchange."""
    async with official(single.url, mode, token=f"cold-{mode}") as client:
        await first_search(client, single.name("fixture_echo"))


async def test_anonymous_modern_caller(single: Stack) -> None:
    """Nothing tells two such callers apart, so nothing of theirs is kept; calls work all the same."""
    async with official(single.url, "2026-07-28") as client:
        await client.list_tools()
        await first_search(client, single.name("fixture_echo"))
        asked = {"name": single.name("fixture_echo"), "arguments": {"text": "x"}}
        called = await client.call_tool("call_read_tool", asked)
        refused = await client.call_tool("call_write_tool", asked)
    assert echoed(text_of(called))["arguments"] == {"text": "x"}
    assert refused.is_error


async def test_describe_is_the_very_first_call(single: Stack) -> None:
    async with official(single.url, "2026-07-28", token="cold-describe") as client:
        result = await client.call_tool("describe_tool", {"names": [single.name("fixture_write")]})
    assert found(text_of(result))[0] == single.name("fixture_write")


async def test_header_arguments_reach_the_upstream(single: Stack) -> None:
    """A strict server refuses the call unless ``Mcp-Param-*`` and ``Mcp-Name`` agree with the body."""
    async with official(single.url, "2026-07-28", token="headers") as client:
        await first_search(client, single.name("fixture_echo"))
        arguments = {"region": "šiaurė", "level": -3, "dry": True, "text": "plain"}
        result = await client.call_tool("call_read_tool", {"name": "fixture_region", "arguments": arguments})
    assert echoed(text_of(result))["arguments"] == arguments
    (call,) = [r for r in single.office.received() if ["mcp-name", "fixture_region"] in r["headers"]]
    sent = {name: value for name, value in call["headers"] if name.startswith("mcp-param-")}
    assert sent == {
        "mcp-param-region": "=?base64?xaFpYXVyxJc=?=",
        "mcp-param-level": "-3",
        "mcp-param-dry": "true",
    }


async def test_tool_with_an_invalid_header_annotation_is_not_offered(single: Stack) -> None:
    async with official(single.url, "2026-07-28", token="invalid-header") as client:
        result = await client.call_tool("search_tools", {"queries": ["fixture_bad_header"]})
    assert "fixture_bad_header" not in found(text_of(result))


async def test_servers_that_others_wrote(joined: Stack) -> None:
    async with official(joined.url) as client:
        for query, expected in (
            ("current time in a timezone", joined.name("get_current_time", "time")),
            ("list files in a directory", joined.name("list_directory", "files")),
            ("show the commit history", joined.name("git_log", "git")),
            ("read the whole knowledge graph", joined.name("read_graph", "memory")),
        ):
            result = await client.call_tool("search_tools", {"queries": [query], "limit": 10})
            assert expected in found(text_of(result)), query
        listing = {"path": "."}
        for tool, arguments, meta in (
            (joined.name("list_directory", "files"), listing, "call_read_tool"),
            (joined.name("get_current_time", "time"), {"timezone": "Europe/Vilnius"}, "call_read_tool"),
            (joined.name("echo", "everything"), {"message": "labas"}, "call_destructive_tool"),
        ):
            called = await client.call_tool(meta, {"name": tool, "arguments": arguments})
            if called.is_error and "call_" in text_of(called):
                (better,) = {name for name in LISTED if name in text_of(called)} - {meta}
                called = await client.call_tool(better, {"name": tool, "arguments": arguments})
            assert not called.is_error, text_of(called)
    assert joined.gateway.process.running


async def test_raw_route_is_untouched(joined: Stack) -> None:
    async with official(joined.raw_url) as client:
        listed = await client.list_tools()
    assert len(listed.tools) > 300
    assert not set(LISTED) & set(names(listed.tools))
