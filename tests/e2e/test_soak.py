"""Fifty clients at once: no error, no wrong answer, no growing memory.  ``make soak`` takes a minute."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Iterator

import pytest

from tests.e2e.expect import LISTED, echoed, found, names
from tests.fixture_server.state import label
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.stack import Stack

SECONDS = float(os.environ.get("SOAK_SECONDS", "10"))
CLIENTS = 50
GROWTH = 24 * 1024 * 1024
"""Bytes the processor may grow by after the first part of the run."""
PARTS = ["tracklane", "forgehub", "quillmail", "paywell", "inkwell"]


@pytest.fixture
def own(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack.single_upstream(tmp_path_factory.mktemp("soak"), gateway=gateway) as running:
        yield running


async def client(own: Stack, number: int, token: str, part: str, end: float) -> int:
    """One client that checks each answer against its own request; returns how many it got."""
    rng = random.Random(number)
    answers = 0
    async with Wire(own.url, MODERN if number % 2 else LEGACY[-1], token) as wire:
        assert (await wire.list_tools()).status == 200
        while time.monotonic() < end:
            answers += 1
            mark = f"{number}-{answers}-{rng.random()}"
            match rng.randrange(5):
                case 0:
                    assert names((await wire.list_tools(number=str(answers))).result["tools"]) == LISTED
                case 1:
                    hits = found((await wire.search(part, "fixture_echo", number=f'"{mark}"')).text)
                    assert "fixture_echo" in hits
                    assert {hit.partition("__")[0] for hit in hits} <= {
                        part,
                        *(h for h in hits if "__" not in h),
                    }
                case 2:
                    described = await wire.describe("fixture_echo")
                    assert found(described.text)[0] == "fixture_echo"
                case 3:
                    said = echoed((await wire.write("fixture_write", {"text": mark})).text)
                    assert said["arguments"] == {"text": mark}
                    assert said["caller"] == label(token)
                case _:
                    said = echoed((await wire.read("fixture_echo", {"text": mark}, number=f'"{mark}"')).text)
                    assert said == {
                        "tool": "fixture_echo",
                        "arguments": {"text": mark},
                        "caller": label(token),
                    }
    return answers


async def test_fifty_clients(own: Stack) -> None:
    tokens = [secrets.token_hex(8) for _ in range(CLIENTS)]
    parts = [PARTS[number % len(PARTS)] for number in range(CLIENTS)]
    seen = {token: [f"{part}__*", "fixture_*"] for token, part in zip(tokens, parts, strict=True)}
    own.office.set(tokens=seen)
    first, whole = SECONDS / 3, SECONDS
    start = time.monotonic()
    clients = [
        asyncio.create_task(client(own, number, token, part, start + whole))
        for number, (token, part) in enumerate(zip(tokens, parts, strict=True))
    ]
    await asyncio.sleep(first)
    before = own.processor.process.rss()
    answers = await asyncio.gather(*clients)
    after = own.processor.process.rss()
    grown = after - before
    rate = sum(answers) / whole
    print(f"\n{sum(answers)} answers ({rate:.0f}/s), {before / 2**20:.1f} MiB, then {after / 2**20:.1f} MiB")
    assert min(answers) > 0
    assert grown < GROWTH
    assert "Traceback" not in own.processor.process.log_text()
