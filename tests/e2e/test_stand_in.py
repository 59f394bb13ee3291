"""agentgateway's dialect over real connections, wherever the tests run: the shipped files on the stand-in.

What is shown is that the processor serves the dialect as ``tests/gateway/rules.py`` has it; with
``AGENTGATEWAY_BIN`` all the other tests of this folder run on agentgateway itself, or on the stand-in.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.expect import LISTED, echoed, found, names
from tests.e2e.office import catalogue, tool
from tests.e2e.test_ids import check
from tests.e2e.test_python_client import JOINED, SINGLE, questions_and_progress, whole_conversation
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire, official
from tests.harness.gateway import AGENTGATEWAY
from tests.harness.processes import ROOT
from tests.harness.stack import Stack

STAND_IN = ROOT / "tests" / "agentgateway" / "stand_in" / "agentgateway"
VERSIONS = [LEGACY[-1], MODERN]


@pytest.fixture(scope="module")
def binary() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGATEWAY_BIN", str(STAND_IN))
        patch.setenv("STAND_IN_PYTHON", sys.executable)
        yield


@pytest.fixture(scope="module", params=AGENTGATEWAY)
def _alone(
    request: pytest.FixtureRequest, binary: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("alone")
    with stack.single_upstream(folder, gateway=request.param) as running:
        yield running


@pytest.fixture
def alone(_alone: Stack) -> Iterator[Stack]:
    """After each test: the gateway had nothing to object to."""
    _alone.office.reset()
    yield _alone
    assert _alone.gateway.process.log_text() == ""


def fresh() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize(("mode", "version"), SINGLE)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_whole_conversation(alone: Stack, mode: str, version: str, answers: str) -> None:
    alone.office.set(answers=answers)
    async with official(alone.url, mode, token=fresh()) as client:
        assert client.protocol_version == version
        await whole_conversation(client, alone)


@pytest.mark.parametrize("on", AGENTGATEWAY)
async def test_joined_servers(binary: None, on: str, tmp_path: Path) -> None:
    """``<target>_<tool>``: the gateway routes by what the processor made of the body."""
    with stack.mcp_router(tmp_path, on) as joined:
        assert joined.name("fixture_echo") == "office_fixture_echo"
        for mode, _ in JOINED:
            async with official(joined.url, mode) as client:
                await whole_conversation(client, joined)
        assert joined.gateway.process.log_text() == ""


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_questions_and_progress(alone: Stack, mode: str) -> None:
    await questions_and_progress(alone, mode, fresh())


@pytest.mark.parametrize("version", VERSIONS)
async def test_large_bodies_in_one_message_and_in_two(alone: Stack, version: str) -> None:
    """The stand-in ends every other buffered body in a message of its own."""
    text = "Žąsys plaukia. " * 100_000
    alone.office.set(extra_bytes=3_000_000)
    async with Wire(alone.url, version, fresh()) as wire:
        for number in ("1", '"b"'):
            listed = await wire.list_tools(number=number)
            check(listed, number)
            assert names(listed.result["tools"]) == LISTED
            written = await wire.write("fixture_write", {"text": text}, number=number)
            check(written, number)
            assert echoed(written.text)["arguments"] == {"text": text}
        assert len((await wire.read("fixture_big", {"bytes": 3_000_000})).text) == 3_000_000


@pytest.mark.parametrize("version", VERSIONS)
async def test_answers_are_events_and_cold_searches_too(alone: Stack, version: str) -> None:
    async with Wire(alone.url, version, fresh()) as wire:
        cold = await wire.search("fixture_echo")
        called = await wire.read("fixture_echo", {"text": "x"})
    assert "fixture_echo" in found(cold.text)
    assert called.headers["content-type"] == "text/event-stream"
    assert cold.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("header", ["mcp-name", "mcp-method"])
async def test_headers_of_older_revisions_follow_the_body(alone: Stack, header: str) -> None:
    """The gateway compares them with the body wherever they are sent."""
    value = {"mcp-name": "call_read_tool", "mcp-method": "tools/call"}[header]
    async with Wire(alone.url, LEGACY[-1], fresh()) as wire:
        await wire.list_tools()
        asked = {"name": "fixture_echo", "arguments": {"text": "x"}}
        params = {"name": "call_read_tool", "arguments": asked}
        called = await wire.request("tools/call", params, **{header: value})
        assert echoed(called.text)["arguments"] == {"text": "x"}
        # A search that is not known yet becomes a list on its way.
        wire.token = fresh()
        cold = {"name": "search_tools", "arguments": {"queries": ["fixture_echo"]}}
        value = {"mcp-name": "search_tools", "mcp-method": "tools/call"}[header]
        searched = await wire.request("tools/call", cold, **{header: value})
        assert "fixture_echo" in found(searched.text)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_list_that_was_cut_is_suspected(alone: Stack, version: str) -> None:
    alone.office.replace_catalogue([tool(f"polish_gadget_{number}", "Polish") for number in range(60)])
    try:
        for size, cut in ((50, True), (40, False)):
            caller = fresh()
            alone.office.set(page_size=size, tokens={caller: ["polish_*"]})
            async with Wire(alone.url, version, caller) as wire:
                await wire.list_tools()
                searched = json.loads((await wire.search("polish a gadget")).text)
            assert ("may be cut at a page: server 'polish' (50)" in searched.get("note", "")) is cut
        assert re.search(r'toolsearch_target_lists_total{found="round"} [1-9]', alone.processor.metrics())
    finally:
        alone.office.replace_catalogue(catalogue())


async def test_refusals_keep_their_challenge(alone: Stack) -> None:
    alone.office.set(tokens={"known": ["fixture_*"]}, require_token=True)
    async with Wire(alone.url, MODERN, "unknown") as wire:
        refused = await wire.search("anything")
        assert refused.status == 401
        assert "resource_metadata" in refused.headers["www-authenticate"]
        wire.token = "known"
        assert names((await wire.list_tools()).result["tools"]) == LISTED


@pytest.mark.parametrize("on", AGENTGATEWAY)
async def test_the_stand_in_fails_what_agentgateway_fails(binary: None, on: str, tmp_path: Path) -> None:
    """A stream that is ended early is a 500 there, and so is a processor that is gone."""
    with stack.single_upstream(tmp_path, gateway=on, server={"early_close": "always"}) as running:
        async with Wire(running.url, MODERN, fresh()) as wire:
            if on == "agentgateway":
                assert (await wire.call("fixture_echo", {"text": "x"})).status == 500
                assert "early-close" in running.gateway.process.log_text()
            running.processor.stop()
            assert (await wire.list_tools()).status == 500
