"""The processor dies under load: nothing leaks, the gateway reports errors, all is well when it is back."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.expect import LISTED, echoed, found, names
from tests.harness import stack
from tests.harness.client import MODERN, Answer, Wire
from tests.harness.stack import Stack

RAW = [b"tracklane__", b"paywell__", b"fixture_delete"]
"""Words of the raw catalogue that no search below asks for."""


@pytest.fixture
def own(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A set-up of its own: other tests would suffer from the outage."""
    with stack.single_upstream(tmp_path_factory.mktemp("outage"), gateway=gateway) as running:
        yield running


def judge(kind: str, answer: Answer, text: str) -> str:
    """``fine`` or ``failed``; asserts that it is one of these and that nothing of the catalogue shows."""
    if answer.status >= 500:
        for word in RAW:
            assert word not in answer.body
        return "failed"
    assert answer.status == 200
    match kind:
        case "list":
            assert names(answer.result["tools"]) == LISTED
        case "search":
            assert "fixture_echo" in found(answer.text)
        case _:
            if answer.is_error:
                assert "again" in answer.text
            else:
                assert echoed(answer.text)["arguments"] == {"text": text}
    return "fine"


async def load(own: Stack, counts: Counter[tuple[str, str]], phase: list[str]) -> None:
    async with Wire(own.url, MODERN, secrets.token_hex(8)) as wire:
        turn = 0
        while phase[0] != "over":
            turn += 1
            started, text = phase[0], secrets.token_hex(4)
            kind = ("list", "search", "call")[turn % 3]
            try:
                match kind:
                    case "list":
                        answer = await wire.list_tools(number=str(turn))
                    case "search":
                        answer = await wire.search("fixture_echo", limit=1, number=str(turn))
                    case _:
                        answer = await wire.read("fixture_echo", {"text": text}, number=str(turn))
            except httpx.RemoteProtocolError:
                outcome = "failed"
            else:
                outcome = judge(kind, answer, text)
            if started == phase[0]:
                counts[started, outcome] += 1
            await asyncio.sleep(0.01)


async def test_processor_killed_under_load(own: Stack) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    phase = ["before"]
    workers = [asyncio.create_task(load(own, counts, phase)) for _ in range(20)]
    await reached(workers, counts, ("before", "fine"), 100)
    own.processor.kill()
    phase[0] = "down"
    await reached(workers, counts, ("down", "failed"), 100)
    phase[0] = "returning"
    await asyncio.to_thread(own.processor.start)
    await settled(own)
    phase[0] = "after"
    await reached(workers, counts, ("after", "fine"), 100)
    phase[0] = "over"
    await asyncio.gather(*workers)
    assert counts["before", "failed"] == 0
    assert counts["down", "fine"] == 0
    assert counts["after", "failed"] == 0


async def reached(
    workers: list[asyncio.Task[None]], counts: Counter[tuple[str, str]], key: tuple[str, str], number: int
) -> None:
    """Until ``number`` answers are of this kind; a worker's failed assertion ends the test at once."""
    end = time.monotonic() + 60
    while counts[key] < number:
        assert time.monotonic() < end, f"only {counts[key]} answers of {key}: {counts}"
        for worker in workers:
            if worker.done():
                worker.result()
        await asyncio.sleep(0.02)


async def settled(own: Stack) -> None:
    """Until the gateway has connected to the new process: its first attempts may be in back-off."""
    end = time.monotonic() + 20
    good = 0
    async with Wire(own.url, MODERN, secrets.token_hex(8)) as wire:
        while good < 20:
            assert time.monotonic() < end, "the gateway did not find the processor again"
            good = good + 1 if (await wire.list_tools()).status == 200 else 0
            await asyncio.sleep(0.05)


async def test_without_a_processor_nothing_is_shown(own: Stack, gateway: str) -> None:
    own.processor.stop()
    async with Wire(own.url, MODERN, secrets.token_hex(8)) as wire:
        for answer in (
            await wire.list_tools(),
            await wire.search("echo"),
            await wire.read("fixture_echo", {}),
        ):
            assert answer.status >= 500
            assert len(answer.body) < 200
            assert b"fixture" not in answer.body
            if gateway == "envoy":
                assert answer.body == b""
