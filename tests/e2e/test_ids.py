"""Every id comes back exactly, with its JSON type, although Envoy's MCP router loses string ids of lists."""

from __future__ import annotations

import json
import secrets

import pytest

from tests.e2e.expect import LISTED, found, names
from tests.harness.client import MODERN, Answer, Wire
from tests.harness.stack import Stack

IDS = ["1", "0", "-7", "9007199254740993", "123456789012345678901", '"abc"', '"1"', '""', '"ąž \\" 0"']


def check(answer: Answer, number: str) -> None:
    assert answer.status == 200, answer.body
    given, expected = answer.response["id"], json.loads(number)
    assert given == expected
    assert type(given) is type(expected)


@pytest.mark.parametrize("number", IDS)
async def test_joined_servers(joined: Stack, number: str) -> None:
    async with Wire(joined.url, "2025-06-18", secrets.token_hex(8)) as wire:
        cold = await wire.search("give back the arguments as they came", number=number)
        check(cold, number)
        assert joined.name("fixture_echo") in found(cold.text)
        check(await wire.search("echo", number=number), number)
        check(await wire.read("no_such_tool", {}, number=number), number)
    async with Wire(joined.url, "2025-06-18", secrets.token_hex(8)) as wire:
        listed = await wire.list_tools(number=number)
        check(listed, number)
        assert names(listed.result["tools"]) == LISTED


@pytest.mark.parametrize("number", IDS)
async def test_calls_keep_what_the_raw_route_keeps(joined: Stack, number: str) -> None:
    """A forwarded call carries the client's id; what the gateway does with it is the same on both routes."""
    name = joined.name("fixture_echo")
    async with Wire(joined.url, "2025-06-18", secrets.token_hex(8)) as wire:
        await wire.list_tools()
        ours = await wire.read(name, {"text": "x"}, number=number)
        wire.url = joined.raw_url
        raw = await wire.call(name, {"text": "x"}, number=number)
    assert ours.body == raw.body
    if raw.status == 200:
        check(ours, number)


@pytest.mark.parametrize("number", IDS)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-11-25", MODERN])
async def test_single_upstream(single: Stack, version: str, number: str) -> None:
    async with Wire(single.url, version, secrets.token_hex(8)) as wire:
        check(await wire.search("echo", number=number), number)
        check(await wire.list_tools(number=number), number)
        check(await wire.read("fixture_echo", {"text": "x"}, number=number), number)
