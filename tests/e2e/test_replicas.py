"""Two processors and one shared store: what one learned the other knows, and one may die.

On Envoy only: how exchanges are spread over processors and tried again is the gateway's own doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.expect import echoed, found
from tests.e2e.office import bodies, hits, requests, token, until
from tests.e2e.shared_store import SharedStore, needs_store
from tests.harness import servers
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.gateway import PROCESSOR_CLUSTER, SINGLE_UPSTREAM, Envoy
from tests.harness.processes import free_ports
from tests.harness.processor import Processor

pytestmark = needs_store
FULL_DUPLEX = SINGLE_UPSTREAM.with_name("full-duplex.yaml")
REPEATING = SINGLE_UPSTREAM.with_name("replicas.yaml")


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
def pair(
    folder: Path, *, shared: bool = True, file: Path = SINGLE_UPSTREAM, **settings: Any
) -> Iterator[Pair]:
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
        gateways.append(Envoy(file, {"office": port}, processor.port, folder / name))
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
    """Clients that search all the time and call and list now and then.

    ``counts`` has (phase it began in, outcome).
    """

    def __init__(self, url: str, clients: int, *, alone: bool = False) -> None:
        """``alone``: replicas may not share, so the first call at each may only load the list."""
        self.url, self.alone = url, alone
        self.tokens = [token() for _ in range(clients)]
        self.phase = "warming"
        self.counts: Counter[tuple[str, str]] = Counter()
        self.cut: Counter[str] = Counter()
        """What came of requests that were under way when their processor died, by kind, and of their
        repetition."""

    async def client(self, caller: str) -> None:
        async with Wire(self.url, MODERN, caller) as wire:
            number = 0
            while self.phase != "over":
                number += 1
                began = self.phase
                outcome = await self.ask(wire, number)
                if outcome != "fine" and began != self.phase:
                    self.cut[f"{self.kind(number)}: {outcome}"] += 1
                    self.cut[f"then {await self.ask(wire, number)}"] += 1
                    continue
                self.counts[began, outcome] += 1
                await asyncio.sleep(0.01)

    async def ask(self, wire: Wire, number: int) -> str:
        """``fine``, or what went wrong.  A wrong answer is no outcome: it fails the test."""
        kind = self.kind(number)
        try:
            if kind == "call":
                answer = await wire.read("fixture_echo", {"text": f"t{number}"}, number=str(number))
            else:
                answer = await wire.search("fixture_echo", limit=1, number=str(number))
        except httpx.RemoteProtocolError as error:
            begun = "without sending complete message body" in str(error)
            return "cut in its answer" if begun else str(error)
        except httpx.HTTPError as error:
            return type(error).__name__
        if answer.status != 200:
            return f"{answer.status} with {len(answer.body)} bytes"
        if kind == "call" and self.alone and answer.is_error:
            assert answer.text.endswith("Make the same call again."), answer.body
        elif kind == "call":
            assert echoed(answer.text)["arguments"] == {"text": f"t{number}"}
        else:
            assert found(answer.text) == ["fixture_echo"], answer.body
        return "fine"

    @staticmethod
    def kind(number: int) -> str:
        return "call" if number % 5 == 0 else "search"

    def failed(self) -> dict[tuple[str, str], int]:
        return {each: count for each, count in self.counts.items() if each[1] != "fine"}

    async def reach(self, phase: str, number: int, workers: list[asyncio.Task[None]]) -> None:
        end = time.monotonic() + 60
        while self.counts[phase, "fine"] < number:
            assert time.monotonic() < end, f"only {self.counts}"
            for worker in workers:
                if worker.done():
                    worker.result()
            await asyncio.sleep(0.02)


async def learned(running: Pair, callers: list[str]) -> None:
    """One replica has seen these callers, and the store knows it."""
    for caller in callers:
        async with Wire(running.one.url(), MODERN, caller) as wire:
            await hits(wire, "fixture_echo")
    await published(running.first, len(callers))
    running.office.forget()


@pytest.mark.parametrize(
    ("file", "route"),
    [
        (SINGLE_UPSTREAM, False),
        (SINGLE_UPSTREAM, True),
        (FULL_DUPLEX, False),
        (REPEATING, False),
    ],
    ids=["buffered", "buffered-with-route", "full-duplex", "repeating"],
)
async def test_one_of_two_is_killed_under_load(tmp_path: Path, route: bool, file: Path) -> None:
    """Nothing that begins afterwards fails, and nobody lists again: the other knows every caller.

    Where the gateway repeats requests, no search fails at all.
    """
    with pair(tmp_path, file=file) as running:
        if route:
            for processor in (running.first, running.second):
                processor.configure("catalog", url=running.gateway.url("/mcp/all"))
                processor.stop()
                await asyncio.to_thread(processor.start)
        load = Load(running.gateway.url(), 20)
        await learned(running, load.tokens)
        workers = [asyncio.create_task(load.client(caller)) for caller in load.tokens]
        await load.reach("warming", 400, workers)
        load.phase = "killed"
        running.first.kill()
        await load.reach("killed", 400, workers)
        load.phase = "over"
        await asyncio.gather(*workers)
        listed = requests(running.office, "tools/list")
    assert load.failed() == {}
    cut = {each for each in load.cut if not each.startswith("then ")}
    kinds = ("call",) if file == REPEATING else ("call", "search")
    assert cut <= {"call: cut in its answer", *(f"{kind}: 500 with 0 bytes" for kind in kinds)}, load.cut
    """Only what was in the middle of an exchange at that moment, with nothing of the catalogue."""
    assert {each for each in load.cut if each.startswith("then ")} <= {"then fine"}, load.cut
    assert load.cut.total() <= 2 * len(load.tokens)
    assert listed == []
    """Neither before nor after."""


@contextlib.asynccontextmanager
async def clients(url: str, callers: list[str]) -> AsyncIterator[list[Wire]]:
    async with contextlib.AsyncExitStack() as opened:
        yield [await opened.enter_async_context(Wire(url, MODERN, caller)) for caller in callers]


def open_exchanges(processor: Processor) -> int:
    (count,) = re.findall(r"^toolsearch_exchanges_in_flight (\S+)$", processor.metrics(), re.MULTILINE)
    return int(float(count))


@pytest.mark.parametrize("file", [SINGLE_UPSTREAM, FULL_DUPLEX], ids=["buffered", "full-duplex"])
async def test_exchanges_that_a_dead_replica_never_answered_are_taken_over(
    tmp_path: Path, file: Path
) -> None:
    """The gateway has sent them and has had no word back: it sends them to the other, nobody notices."""
    callers = [token() for _ in range(20)]
    with pair(tmp_path, file=file) as running:
        await learned(running, callers)
        async with clients(running.gateway.url(), callers) as wires:
            for wire in wires:
                await wire.search("fixture_echo")
            retried = running.gateway.stat("cluster.toolsearch.upstream_rq_retry_success")
            os.killpg(running.first.process.pid, signal.SIGSTOP)
            asked = [asyncio.create_task(wire.search("fixture_echo")) for wire in wires]

            async def only_the_stopped_ones_are_open() -> bool:
                left = sum(not task.done() for task in asked)
                return 0 < left == running.gateway.stat("cluster.toolsearch.upstream_rq_active")

            await until(only_the_stopped_ones_are_open, "searches that hang on the stopped replica")
            await asyncio.sleep(0.3)
            left = sum(not task.done() for task in asked)
            running.first.kill()
            answers = await asyncio.gather(*asked)
            retried = running.gateway.stat("cluster.toolsearch.upstream_rq_retry_success") - retried
        assert [answer.status for answer in answers] == [200] * 20
        assert all(found(answer.text)[0] == "fixture_echo" for answer in answers)
        assert left > 0
        assert retried == left
        assert bodies(running.office, "tools/list") == []


@pytest.mark.parametrize("file", [SINGLE_UPSTREAM, REPEATING], ids=["buffered", "repeating"])
async def test_an_exchange_in_its_middle_is_repeated_by_the_client_or_the_gateway(
    tmp_path: Path, file: Path
) -> None:
    """The filter alone cannot repeat half an exchange: the server may have seen its other half.

    Here each search is one of a caller that nobody knows and waits for the server's list, which can be read
    twice: a gateway that repeats requests does so, and the others fail and are fine when asked again.
    """
    callers = [token() for _ in range(12)]
    with pair(tmp_path, file=file) as running:
        running.office.set(list_delay=6.0)
        async with clients(running.gateway.url(), callers) as wires:
            asked = [asyncio.create_task(wire.search("fixture_echo")) for wire in wires]

            async def all_wait() -> bool:
                return len(bodies(running.office, "tools/list")) == len(callers)

            await until(all_wait, "lists under way")
            lost = open_exchanges(running.first)
            assert lost + open_exchanges(running.second) == len(callers)
            running.first.kill()
            answers = await asyncio.gather(*asked)
            failed = [number for number, answer in enumerate(answers) if answer.status != 200]
            assert lost > 0
            if file == REPEATING:
                assert failed == []
                assert all(found(answer.text)[0] == "fixture_echo" for answer in answers)
                assert len(bodies(running.office, "tools/list")) == len(callers) + lost
                assert not any("undecided" in name for answer in answers for name in answer.headers)
                return
            assert len(failed) == lost
            assert {(answers[number].status, answers[number].body) for number in failed} == {(500, b"")}
            running.office.set(list_delay=0.0)
            for number in failed:
                assert "fixture_echo" in await hits(wires[number], "fixture_echo")


async def test_a_call_that_a_server_has_is_never_repeated(tmp_path: Path) -> None:
    """Not even by a gateway that repeats requests: what the processor has decided on went on."""
    callers = [token() for _ in range(8)]
    with pair(tmp_path, file=REPEATING, tools={"overrides": {"fixture_slow": "write"}}) as running:
        await learned(running, callers)
        async with clients(running.gateway.url(), callers) as wires:
            asked = [asyncio.create_task(wire.write("fixture_slow", {"seconds": 3})) for wire in wires]

            async def all_run() -> bool:
                return len(bodies(running.office, "tools/call")) == len(callers)

            await until(all_run, "calls under way")
            lost = open_exchanges(running.first)
            assert lost + open_exchanges(running.second) == len(callers)
            running.first.kill()
            answers = await asyncio.gather(*asked)
            assert sorted(answer.status for answer in answers) == [200] * (len(callers) - lost) + [500] * lost
            assert lost > 0
            assert len(bodies(running.office, "tools/call")) == len(callers)
            assert running.gateway.stat("cluster.filtered.upstream_rq_retry") == 0


async def gathered(chunks: AsyncIterator[bytes], into: bytearray) -> None:
    async for chunk in chunks:
        into += chunk


@pytest.mark.parametrize(
    "file",
    [SINGLE_UPSTREAM, FULL_DUPLEX, REPEATING],
    ids=["buffered", "full-duplex", "repeating"],
)
async def test_an_answer_on_its_way_is_cut_and_the_call_not_repeated(tmp_path: Path, file: Path) -> None:
    """Its headers are with the client, so the gateway can only break it off."""
    with pair(tmp_path, file=file) as running:
        caller = token()
        await learned(running, [caller])
        arguments = {"steps": 40, "delay": 0.1}
        params = {"name": "call_read_tool", "arguments": {"name": "fixture_progress", "arguments": arguments}}
        async with Wire(running.gateway.url(), MODERN, caller) as wire:
            body = wire.encode("tools/call", {**params, "_meta": {"progressToken": "p"}}, "1")
            headers = wire.headers("tools/call", "call_read_tool")
            seen = bytearray()
            async with wire.http.stream("POST", wire.url, content=body, headers=headers) as answer:
                assert answer.status_code == 200
                chunks = answer.aiter_bytes()
                seen += await anext(chunks)
                (busy,) = [each for each in (running.first, running.second) if open_exchanges(each)]
                busy.kill()
                with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
                    await gathered(chunks, seen)
            assert b"notifications/progress" in seen
            assert b'"result"' not in seen
            assert "fixture_echo" in await hits(wire, "fixture_echo")
        assert len(bodies(running.office, "tools/call")) == 1


@pytest.mark.parametrize(
    ("file", "lame_duck"), [(SINGLE_UPSTREAM, 0.0), (FULL_DUPLEX, 1.0)], ids=["buffered", "full-duplex"]
)
async def test_a_rolling_restart_is_noticed_by_nobody(tmp_path: Path, file: Path, lame_duck: float) -> None:
    """SIGTERM to one, its restart, then the other: no request fails and nobody lists again."""
    with pair(tmp_path, file=file, server={"lame_duck": lame_duck}) as running:
        load = Load(running.gateway.url(), 20)
        await learned(running, load.tokens)
        workers = [asyncio.create_task(load.client(caller)) for caller in load.tokens]
        await load.reach("warming", 200, workers)
        for phase, processor in (("first", running.first), ("second", running.second)):
            load.phase = f"{phase} stops"
            await asyncio.to_thread(processor.stop)
            load.phase = f"{phase} is gone"
            await load.reach(load.phase, 100, workers)
            load.phase = f"{phase} starts"
            await asyncio.to_thread(processor.start)
            load.phase = f"{phase} is back"
            await served(processor, load, workers)
        load.phase = "over"
        await asyncio.gather(*workers)
        listed = requests(running.office, "tools/list")
    assert load.failed() == {}
    assert load.cut == Counter()
    assert listed == []


async def served(processor: Processor, load: Load, workers: list[asyncio.Task[None]]) -> None:
    """Until the gateway has found a restarted processor again."""

    async def asked() -> bool:
        for worker in workers:
            if worker.done():
                worker.result()
        return bool(re.search(r'^toolsearch_exchanges_total{.*"replied"} [1-9]', processor.metrics(), re.M))

    await until(asked, f"exchanges during {load.phase}")


async def test_the_store_dies_under_load(replicas: Pair) -> None:
    """Then each replica goes on alone: nothing fails, and a metric says so."""
    load = Load(replicas.gateway.url(), 10, alone=True)
    workers = [asyncio.create_task(load.client(caller)) for caller in load.tokens]
    await load.reach("warming", 200, workers)
    load.phase = "alone"
    replicas.store.process.kill()
    newcomers = Load(replicas.gateway.url(), 10, alone=True)
    newcomers.phase = "alone"
    more = [asyncio.create_task(newcomers.client(caller)) for caller in newcomers.tokens]
    await load.reach("alone", 200, workers)
    await newcomers.reach("alone", 100, more)
    load.phase = newcomers.phase = "over"
    await asyncio.gather(*workers, *more)
    assert load.failed() == newcomers.failed() == {}
    assert load.cut == newcomers.cut == Counter()
    trouble = events(replicas.first) + events(replicas.second)
    assert trouble["shared_errors"] + trouble["shared_timeouts"] > 0
    assert 'outcome="failed"} ' not in replicas.first.metrics().replace('outcome="failed"} 0.0', "")


async def commanded(store: SharedStore, *command: str) -> None:
    """One command to the server behind the shared store."""
    from redis.asyncio import Redis

    async with Redis.from_url(store.url) as client:
        await client.execute_command(*command)  # type: ignore[no-untyped-call]


async def slow(store: SharedStore) -> None:
    """It takes connections and commands and answers none of them for as long as this lasts."""
    os.killpg(store.process.pid, signal.SIGSTOP)


async def slow_no_more(store: SharedStore) -> None:
    os.killpg(store.process.pid, signal.SIGCONT)


async def full(store: SharedStore) -> None:
    """Less than the server itself takes, and nothing may be pushed out: every write is refused."""
    await commanded(store, "CONFIG", "SET", "maxmemory", "1mb")


async def full_no_more(store: SharedStore) -> None:
    await commanded(store, "CONFIG", "SET", "maxmemory", "0")


TROUBLE = {
    "slow": (slow, slow_no_more, "shared_timeouts"),
    "full": (full, full_no_more, "shared_errors"),
}


@pytest.mark.parametrize("kind", TROUBLE)
async def test_a_slow_or_full_store_means_local_only_and_a_metric(tmp_path: Path, kind: str) -> None:
    """Known callers and newcomers are answered as if there were no store; later it is used again."""
    begin, end, counter = TROUBLE[kind]
    with pair(tmp_path, catalog={"store_timeout": 0.25}) as running:
        load = Load(running.gateway.url(), 10, alone=True)
        await learned(running, load.tokens)
        workers = [asyncio.create_task(load.client(caller)) for caller in load.tokens]
        await load.reach("warming", 100, workers)
        assert events(running.first)[counter] == events(running.second)[counter] == 0
        load.phase = kind
        await begin(running.store)
        newcomers = Load(running.gateway.url(), 10, alone=True)
        newcomers.phase = kind
        more = [asyncio.create_task(newcomers.client(caller)) for caller in newcomers.tokens]
        await newcomers.reach(kind, 100, more)
        await load.reach(kind, 100, workers)
        trouble = events(running.first) + events(running.second)
        load.phase = newcomers.phase = "over"
        await asyncio.gather(*workers, *more)
        assert load.failed() == newcomers.failed() == {}
        assert load.cut == newcomers.cut == Counter()
        assert trouble[counter] > 0
        assert trouble["published"] == len(load.tokens)
        """Nothing more has got into the store."""
        for processor in (running.first, running.second):
            metrics = processor.metrics()
            assert not re.search(
                r'^toolsearch_exchanges_total{.*"(failed|late)"} [1-9]', metrics, re.MULTILINE
            )
        await end(running.store)

        async def used_again() -> bool:
            async with Wire(running.gateway.url(), MODERN, token()) as wire:
                await hits(wire, "fixture_echo")
            return (events(running.first) + events(running.second))["published"] > len(load.tokens)

        await until(used_again, "a list in the store after the trouble")
