"""Two processors and one shared store: what one learned the other knows, and one may die."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.expect import found
from tests.e2e.office import bodies, hits, requests, token, until
from tests.e2e.shared_store import SharedStore, needs_store
from tests.harness import servers
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.gateway import PROCESSOR_CLUSTER, SINGLE_UPSTREAM, Envoy
from tests.harness.processes import free_ports
from tests.harness.processor import Processor

pytestmark = needs_store

def with_replica(gateway: Envoy, port: int) -> None:
    """A second processor in the shipped file's cluster; its retry policy makes use of it."""
    (cluster,) = [
        each for each in gateway.config["static_resources"]["clusters"] if each["name"] == PROCESSOR_CLUSTER
    ]
    address = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}
    cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].append({"endpoint": address})


@dataclass
class Pair:
    office: servers.Fixture
    store: SharedStore
    first: Processor
    second: Processor
    gateway: Envoy
    """Both processors in one cluster."""
    one: Envoy
    other: Envoy
    """Each with one of the processors."""


@contextlib.contextmanager
def pair(folder: Path, *, shared: bool = True, **settings: Any) -> Iterator[Pair]:
    (port,) = free_ports(1)
    office = servers.fixture(port, folder)
    store = SharedStore(folder)
    sections: dict[str, Any] = {"search": {"embedder": "none"}, **(store.settings() if shared else {})}
    for section, values in settings.items():
        sections[section] = {**sections.get(section, {}), **values}
    first, second = (Processor(folder, name=name, **sections) for name in ("first", "second"))
    gateways = []
    for name, processor in (("both", first), ("one", first), ("other", second)):
        (folder / name).mkdir()
        gateways.append(Envoy(SINGLE_UPSTREAM, {"office": port}, processor.port, folder / name))
    both, one, other = gateways
    with_replica(both, second.port)
    with contextlib.ExitStack() as ends:
        for process in (store.process, office.process, first.process, second.process):
            ends.callback(process.stop)
        for gateway in gateways:
            ends.callback(gateway.stop)
        store.start()
        office.process.start()
        for processor in (first, second):
            processor.launch()
        office.process.wait_ready(office.ready)
        for processor in (first, second):
            processor.process.wait_ready(processor.ready)
        for gateway in gateways:
            gateway.start()
        yield Pair(office, store, first, second, both, one, other)


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Pair]:
    with pair(tmp_path) as running:
        yield running


def events(processor: Processor) -> Counter[str]:
    """What the store of a processor counts."""
    counts: Counter[str] = Counter()
    for line in processor.metrics().splitlines():
        if match := re.match(r'toolsearch_store_events_total{.*"(\w+)"} (\S+)', line):
            counts[match[1]] += int(float(match[2]))
    return counts


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_a_replica_that_never_saw_the_caller_answers_warm(replicas: Pair, version: str) -> None:
    caller = token()
    async with Wire(replicas.one.url(), version, caller) as wire:
        assert "fixture_echo" in await hits(wire, "fixture_echo")
        await published(replicas.first)
        replicas.office.forget()
        wire.url = replicas.other.url()
        assert "fixture_echo" in await hits(wire, "fixture_echo")
        answer = await wire.read("fixture_echo", {"text": "x"})
        assert not answer.is_error
        sent = bodies(replicas.office, "tools/list")
    assert sent == []
    assert events(replicas.second)["recalled"] >= 1


async def published(processor: Processor, callers: int = 1) -> None:
    async def done() -> bool:
        return events(processor)["published"] >= callers

    await until(done, "the lists in the shared store")


async def test_another_callers_list_is_not_recalled(replicas: Pair) -> None:
    async with Wire(replicas.one.url(), MODERN, token()) as wire:
        await hits(wire, "fixture_echo")
        await published(replicas.first)
    replicas.office.forget()
    async with Wire(replicas.other.url(), MODERN, token()) as wire:
        await hits(wire, "fixture_echo")
    assert len(bodies(replicas.office, "tools/list")) == 1


class Load:
    """Clients that search all the time.  ``counts`` has (phase it began in, outcome)."""

    def __init__(self, url: str, clients: int) -> None:
        self.url = url
        self.tokens = [token() for _ in range(clients)]
        self.phase = "warming"
        self.counts: Counter[tuple[str, str]] = Counter()
        self.cut = 0
        """Searches that were under way when their processor died."""

    async def client(self, caller: str) -> None:
        async with Wire(self.url, MODERN, caller) as wire:
            number = 0
            while self.phase != "over":
                number += 1
                began = self.phase
                outcome = await self.search(wire, number)
                if outcome == "failed" and began != self.phase:
                    self.cut += 1
                    outcome = await self.search(wire, number)
                self.counts[began, outcome] += 1
                await asyncio.sleep(0.01)

    @staticmethod
    async def search(wire: Wire, number: int) -> str:
        try:
            answer = await wire.search("fixture_echo", limit=1, number=str(number))
        except httpx.HTTPError:
            return "failed"
        if answer.status != 200:
            return "failed"
        assert found(answer.text) == ["fixture_echo"]
        return "fine"

    async def reach(self, phase: str, number: int, workers: list[asyncio.Task[None]]) -> None:
        end = time.monotonic() + 60
        while self.counts[phase, "fine"] < number:
            assert time.monotonic() < end, f"only {self.counts}"
            for worker in workers:
                if worker.done():
                    worker.result()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("route", [False, True])
async def test_one_of_two_is_killed_under_load(tmp_path: Path, route: bool) -> None:
    """No search that begins afterwards fails, and nobody lists again: the other knows every caller."""
    with pair(tmp_path) as running:
        if route:
            for processor in (running.first, running.second):
                processor.configure("catalog", url=running.gateway.url("/mcp/all"))
                processor.stop()
                await asyncio.to_thread(processor.start)
        load = Load(running.gateway.url(), 20)
        for caller in load.tokens:
            async with Wire(running.one.url(), MODERN, caller) as wire:
                await hits(wire, "fixture_echo")
        await published(running.first, len(load.tokens))
        running.office.forget()
        workers = [asyncio.create_task(load.client(caller)) for caller in load.tokens]
        await load.reach("warming", 400, workers)
        load.phase = "killed"
        running.first.kill()
        await load.reach("killed", 400, workers)
        load.phase = "over"
        await asyncio.gather(*workers)
        listed = requests(running.office, "tools/list")
    assert load.counts["killed", "failed"] == 0, load.counts
    assert load.cut <= len(load.tokens)
    """Only what was in the middle of an exchange at that moment was cut, and was fine when asked again."""
    assert load.counts["warming", "failed"] == 0, load.counts
    assert listed == []
    """Neither before nor after."""


async def test_the_store_dies_under_load(replicas: Pair) -> None:
    """Then each replica goes on alone: nothing fails, and a metric says so."""
    load = Load(replicas.gateway.url(), 10)
    workers = [asyncio.create_task(load.client(caller)) for caller in load.tokens]
    await load.reach("warming", 200, workers)
    load.phase = "alone"
    replicas.store.process.kill()
    newcomers = Load(replicas.gateway.url(), 10)
    newcomers.phase = "alone"
    more = [asyncio.create_task(newcomers.client(caller)) for caller in newcomers.tokens]
    await load.reach("alone", 200, workers)
    await newcomers.reach("alone", 100, more)
    load.phase = newcomers.phase = "over"
    await asyncio.gather(*workers, *more)
    assert load.counts["warming", "failed"] == load.counts["alone", "failed"] == 0
    assert newcomers.counts["alone", "failed"] == 0
    trouble = events(replicas.first) + events(replicas.second)
    assert trouble["shared_errors"] + trouble["shared_timeouts"] > 0
    assert 'outcome="failed"} ' not in replicas.first.metrics().replace('outcome="failed"} 0.0', "")
