"""The same promises with both bodies streamed through the processor (``FULL_DUPLEX_STREAMED``)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.expect import FULL_DUPLEX, LISTED, echoed, found, names
from tests.e2e.test_ids import IDS, check
from tests.e2e.test_python_client import SINGLE, questions_and_progress, whole_conversation
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire, official
from tests.harness.gateway import MCP_ROUTER, SINGLE_UPSTREAM
from tests.harness.processes import ROOT
from tests.harness.stack import Stack

MODES = {
    "request_header_mode": "SEND",
    "request_body_mode": "FULL_DUPLEX_STREAMED",
    "request_trailer_mode": "SEND",
    "response_header_mode": "SEND",
    "response_body_mode": "FULL_DUPLEX_STREAMED",
    "response_trailer_mode": "SEND",
}
VERSIONS = [LEGACY[-1], MODERN]
SHIPPED = ROOT / "envoy" / "full-duplex.yaml"
ON = [name for name in stack.gateways() if name in ("envoy", FULL_DUPLEX)]
"""agentgateway with its own file of the kind; the buffered one is for the other tests."""


@pytest.fixture(scope="module", params=["every method", *ON])
def _duplex(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Everything streamed, as agentgateway does unless told otherwise, and the files that are shipped."""
    folder = tmp_path_factory.mktemp("duplex")
    gateway, file = request.param, SHIPPED
    if gateway == "every method":
        gateway, file = "envoy", _streamed(SINGLE_UPSTREAM, folder)
    with stack.single_upstream(folder, file, gateway=gateway) as running:
        yield running


@pytest.fixture
def duplex(_duplex: Stack) -> Stack:
    _duplex.office.reset()
    return _duplex


def _streamed(file: Path, folder: Path) -> Path:
    """The file with every body streamed both ways."""
    config = yaml.safe_load(file.read_text("utf-8"))
    _set_modes(config)
    changed = folder / f"streamed-{file.name}"
    changed.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return changed


def _set_modes(part: Any) -> None:
    match part:
        case {"processing_mode": _}:
            part["processing_mode"] = dict(MODES)
        case dict():
            for value in part.values():
                _set_modes(value)
        case list():
            for value in part:
                _set_modes(value)
        case _:
            pass


def fresh() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize(("mode", "version"), SINGLE)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_whole_conversation(duplex: Stack, mode: str, version: str, answers: str) -> None:
    duplex.office.set(answers=answers)
    async with official(duplex.url, mode, token=fresh()) as client:
        assert client.protocol_version == version
        await whole_conversation(client, duplex)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_elicitation_and_progress(duplex: Stack, mode: str) -> None:
    await questions_and_progress(duplex, mode, fresh())


@pytest.mark.parametrize("version", VERSIONS)
async def test_searches_before_and_after_the_list_is_known(duplex: Stack, version: str) -> None:
    duplex.office.forget()
    async with Wire(duplex.url, version, fresh()) as wire:
        cold = await wire.search("fixture_echo")
        asked = [call for call in duplex.office.received() if call["method"] == "POST"]
        warm = await wire.search("fixture_echo")
        assert found(cold.text)[0] == found(warm.text)[0] == "fixture_echo"
        again = [call for call in duplex.office.received() if call["method"] == "POST"]
    assert len(asked) >= 1
    assert len(again) == len(asked)


@pytest.mark.parametrize("version", VERSIONS)
async def test_large_bodies(duplex: Stack, version: str) -> None:
    text = "Žąsys plaukia. " * 200_000
    duplex.office.set(extra_bytes=6_000_000)
    async with Wire(duplex.url, version, fresh()) as wire:
        listed = await wire.list_tools()
        assert names(listed.result["tools"]) == LISTED
        written = await wire.write("fixture_write", {"text": text})
        big = await wire.read("fixture_big", {"bytes": 5_000_000})
    assert echoed(written.text)["arguments"] == {"text": text}
    assert len(big.text) == 5_000_000


@pytest.mark.parametrize("number", IDS)
async def test_ids(duplex: Stack, number: str) -> None:
    async with Wire(duplex.url, MODERN, fresh()) as wire:
        cold = await wire.search("fixture_echo", number=number)
        check(cold, number)
        assert "fixture_echo" in found(cold.text)
        check(await wire.list_tools(number=number), number)
        check(await wire.read("fixture_echo", {"text": "x"}, number=number), number)


async def test_refusals_and_faults(duplex: Stack) -> None:
    duplex.office.set(tokens={"known": ["fixture_*"]}, require_token=True)
    async with Wire(duplex.url, MODERN, "unknown") as wire:
        refused = await wire.search("anything")
        assert refused.status == 401
        assert "resource_metadata" in refused.headers["www-authenticate"]
        wire.token = "known"
        await wire.list_tools()
        for how, status in (("500", 500), ("403", 403), ("is_error", 200), ("reset", 502)):
            answer = await wire.write("fixture_fail_write", {"how": how})
            lost = how == "reset" and answer.status >= 500
            assert answer.status == status or lost or (status >= 500 and answer.is_error), how


async def test_streams_and_other_verbs_pass(duplex: Stack) -> None:
    async with Wire(duplex.url, LEGACY[-1], fresh()) as wire:
        headers = {**wire.headers("get"), "accept": "text/event-stream"}
        async with wire.http.stream("GET", wire.url, headers=headers) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": open"
            assert duplex.office.notify() == 1
            async for line in lines:
                if "list_changed" in line:
                    break
        for verb in ("OPTIONS", "HEAD", "PUT"):
            assert (await wire.http.request(verb, wire.url, headers=wire.headers("x"))).status_code == 405


async def test_many_at_once(duplex: Stack) -> None:
    async def one(number: int) -> None:
        async with Wire(duplex.url, VERSIONS[number % 2], f"many-{number % 5}") as wire:
            for turn in range(5):
                text = f"{number}-{turn}"
                await wire.list_tools()
                said = await wire.read("fixture_echo", {"text": text}, number=f'"{text}"')
                assert echoed(said.text)["arguments"] == {"text": text}

    await asyncio.gather(*(one(number) for number in range(20)))


@pytest.mark.parametrize("on", ON)
async def test_joined_servers(on: str, tmp_path: Path) -> None:
    """In front of the gateway's own MCP router, which routes by what the processor made of the body."""
    text = "Žąsys plaukia. " * 200_000
    with stack.mcp_router(tmp_path, on, file=_streamed(MCP_ROUTER, tmp_path)) as joined:
        for mode in ("legacy", "auto"):
            async with official(joined.url, mode) as client:
                await whole_conversation(client, joined)
        joined.office.set(extra_bytes=6_000_000)
        async with Wire(joined.url, "2025-06-18", fresh()) as wire:
            assert joined.name("fixture_echo") in found((await wire.search("fixture_echo")).text)
            written = await wire.write(joined.name("fixture_write"), {"text": text})
            assert echoed(written.text)["arguments"] == {"text": text}
