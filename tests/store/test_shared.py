from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from extproc.catalog.model import Catalogue
from extproc.search import ToolIndex
from extproc.settings import Settings
from extproc.store import (
    CatalogueStore,
    Cold,
    StoreSettingsError,
    Warm,
    check_store,
    open_store,
    redis_store,
)
from extproc.store.redis_store import RedisStore
from extproc.store.sealing import Sealer, SealError

from .conftest import Clock, catalogue

A, B = b"a" * 16, b"b" * 16
SERVER = shutil.which("valkey-server") or shutil.which("redis-server")
needs_server = pytest.mark.skipif(
    SERVER is None, reason="no valkey-server or redis-server on this machine to share a store through"
)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def value(client: Redis, key: bytes | str) -> bytes:
    held = await client.get(key)
    assert isinstance(held, bytes)
    return held


@dataclass
class Server:
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *extra: str) -> None:
        assert SERVER is not None
        self.process = subprocess.Popen(
            [SERVER, "--port", str(self.port), "--save", "", "--appendonly", "no", *extra],
            stdout=subprocess.DEVNULL,
        )
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def keys(self) -> dict[bytes, bytes]:
        async with Redis.from_url(self.url) as client:
            return {key: await value(client, key) for key in await client.keys() if isinstance(key, bytes)}


@pytest.fixture(scope="module")
def _server() -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(port)
    yield server
    server.stop()


@pytest.fixture
async def server(_server: Server) -> Server:
    if _server.process is None:
        _server.start()
    async with Redis.from_url(_server.url) as client:
        await client.flushall()
    return _server


@dataclass
class Replica:
    store: CatalogueStore
    remote: RedisStore
    wall: Clock

    async def settled(self) -> None:
        await until(lambda: not self.store._background)


@dataclass
class Replicas:
    executor: Executor
    url: str
    made: list[Replica] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    wall: Clock = field(default_factory=lambda: Clock(1.7e9))

    def __call__(self, key: str = "k" * 32, timeout: float = 5.0, hide: tuple[str, ...] = ()) -> Replica:
        settings = Settings.model_validate(
            {
                "catalog": {"store": self.url, "store_key": key, "store_timeout": timeout},
                "caller": {"key": "c" * 32},
                "tools": {"hide": hide},
            }
        )
        remote = open_store(settings)
        assert isinstance(remote, RedisStore)
        remote._wall = self.wall
        store = CatalogueStore(settings, ToolIndex.build, self.clock, self.executor, remote)
        replica = Replica(store, remote, self.wall)
        self.made.append(replica)
        return replica


@pytest.fixture
async def replicas(executor: Executor, _server: Server) -> AsyncIterator[Replicas]:
    made = Replicas(executor, _server.url)
    yield made
    for replica in made.made:
        await replica.store.aclose()


@needs_server
async def test_a_replica_that_never_saw_the_caller_answers_warm(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    wanted = catalogue([f"t{n}" for n in range(50)])
    await one.store.learn(A, wanted, 60)
    await one.settled()
    replicas.wall.now += 10
    assert two.store.view(A) == Cold()
    view = await two.store.recall(A)
    assert isinstance(view, Warm)
    assert view.catalogue == wanted
    assert view.age == pytest.approx(10)
    assert view.fresh
    assert isinstance(two.store.view(A), Warm)
    assert await two.store.recall(B) == Cold()
    assert await two.store.recall(None) == Cold()
    assert (two.store.counters.recalled, two.store.counters.recall_missed) == (1, 1)
    replicas.clock.now += 51
    view = two.store.view(A)
    assert isinstance(view, Warm)
    assert not view.fresh


@needs_server
async def test_an_incomplete_list_stays_incomplete(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x"], complete=False))
    await one.settled()
    view = await two.store.recall(A)
    assert isinstance(view, Warm)
    assert not view.catalogue.complete
    assert two.store.stale(A)


@needs_server
async def test_many_waiters_ask_once(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x"]))
    await one.settled()
    views = await asyncio.gather(*(two.store.recall(A) for _ in range(20)))
    assert all(isinstance(view, Warm) for view in views)
    assert two.store.counters.recalled == 1


@needs_server
async def test_nothing_readable_is_stored(server: Server, replicas: Replicas) -> None:
    one = replicas()
    wanted = catalogue(["very_secret_tool_name"])
    await one.store.learn(A, wanted)
    await one.store.learn(B, wanted)
    await one.settled()
    held = await server.keys()
    assert len(held) == 3
    everything = b"".join(key + value for key, value in held.items())
    for canary in (
        b"secret",
        b"inputSchema",
        A,
        A.hex().encode(),
        wanted.digest,
        wanted.digest.hex().encode(),
    ):
        assert canary not in everything
    async with Redis.from_url(server.url) as client:
        assert all([0 < await client.ttl(key) <= 2 * 4_200 for key in held])


@needs_server
@pytest.mark.parametrize(
    "other", [{"key": "z" * 32}, {"hide": ("a*",)}], ids=["another key", "another policy"]
)
async def test_replicas_that_differ_do_not_read_each_other(
    server: Server, replicas: Replicas, other: dict[str, object]
) -> None:
    one, two = replicas(), replicas(**other)  # type: ignore[arg-type]
    await one.store.learn(A, catalogue(["x"]))
    await one.settled()
    assert await two.store.recall(A) == Cold()


@needs_server
async def test_swapped_or_damaged_values_are_refused(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x"]))
    await one.store.learn(B, catalogue(["y"]))
    await one.settled()
    async with Redis.from_url(server.url) as client:
        first, second = sorted(await client.keys("toolsearch:caller:*"))
        sealed = await value(client, first)
        await client.set(second, sealed)
        await client.set(first, sealed[:-1] + bytes([sealed[-1] ^ 1]))
    assert await two.store.recall(A) == Cold()
    assert await two.store.recall(B) == Cold()
    assert two.store.counters.shared_rejected == 2


@needs_server
async def test_a_refusal_is_forgotten_everywhere(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x"]))
    await one.settled()
    assert isinstance(await two.store.recall(A), Warm)
    await until(lambda: two.remote._watcher)
    async with Redis.from_url(server.url) as client:
        while (await client.pubsub_numsub(one.remote._channel))[0][1] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    one.store.drop(A)
    assert one.store.view(A) == Cold()
    await until(lambda: not two.store.knows(A))
    assert await two.store.recall(A) == Cold()
    assert await one.store.recall(A) == Cold()


@needs_server
async def test_a_newer_list_reaches_the_other_replicas(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x", "removed"]))
    await one.settled()
    assert isinstance(await two.store.recall(A), Warm)
    async with Redis.from_url(server.url) as client:
        while (await client.pubsub_numsub(one.remote._channel))[0][1] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    replicas.clock.now += 1
    replicas.wall.now += 1
    await one.store.learn(A, catalogue(["x"]))
    await until(lambda: not two.store.knows(A))
    view = await two.store.recall(A)
    assert isinstance(view, Warm)
    assert [tool.name for tool in view.catalogue] == ["x"]
    assert one.store.knows(A)


@needs_server
async def test_a_refresh_by_one_replica_serves_the_others(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x"]))
    await one.settled()
    assert isinstance(await two.store.recall(A), Warm)
    async with Redis.from_url(server.url) as client:
        while (await client.pubsub_numsub(one.remote._channel))[0][1] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    replicas.clock.now += 600
    replicas.wall.now += 600
    assert two.store.stale(A)
    await one.store.learn(A, catalogue(["x"]))
    await until(lambda: not two.store.stale(A))
    view = two.store.view(A)
    assert isinstance(view, Warm)
    assert view.age == 0


@needs_server
async def test_many_callers_at_once_write_their_list_once(
    server: Server, replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas(), replicas()
    packed: list[bytes] = []
    pack = redis_store._pack

    def counting(wanted: Catalogue) -> bytes:
        packed.append(wanted.digest)
        return pack(wanted)

    monkeypatch.setattr(redis_store, "_pack", counting)
    keys = [n.to_bytes(16, "big") for n in range(300)]
    await asyncio.gather(*(one.store.learn(key, catalogue(["x", "y"])) for key in keys))
    await one.settled()
    assert one.store.counters.published == 300
    assert len(packed) == 1
    views = await asyncio.gather(*(two.store.recall(key) for key in keys))
    assert all(isinstance(view, Warm) for view in views), two.store.counters


@needs_server
async def test_what_is_past_its_time_is_not_recalled(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas()
    await one.store.learn(A, catalogue(["x"]))
    await one.settled()
    replicas.wall.now += 4_200
    assert await two.store.recall(A) == Cold()


@needs_server
async def test_a_store_that_is_gone_is_a_miss_and_comes_back(server: Server, replicas: Replicas) -> None:
    one = replicas(timeout=0.2)
    server.stop()
    assert isinstance(await one.store.learn(A, catalogue(["x"])), Warm)
    await one.settled()
    assert isinstance(one.store.view(A), Warm)
    assert await one.store.recall(B) == Cold()
    counters = one.store.counters
    assert counters.shared_errors + counters.shared_timeouts >= 1
    assert counters.shared_skipped >= 1
    server.start()
    one.remote._until = 0.0
    await one.store.learn(A, catalogue(["x", "y"]))
    await one.settled()
    assert counters.published == 1


@needs_server
async def test_a_slow_store_is_a_miss_within_its_time_out(server: Server, replicas: Replicas) -> None:
    one, two = replicas(), replicas(timeout=0.05)
    await one.store.learn(A, catalogue(["x"]))
    await one.settled()
    async with Redis.from_url(server.url) as client:
        await client.client_pause(60_000, all=True)
        assert await two.store.recall(A) == Cold()
        assert two.store.counters.shared_timeouts == 1
        assert await two.store.recall(B) == Cold()
        assert two.store.counters.shared_skipped == 1
    server.stop()


@needs_server
async def test_a_full_store_loses_writes_and_nothing_else(server: Server, replicas: Replicas) -> None:
    server.stop()
    server.start("--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
    one = replicas()
    assert isinstance(await one.store.learn(A, catalogue(["x"])), Warm)
    await one.settled()
    assert one.store.counters.shared_errors == 1
    assert isinstance(one.store.view(A), Warm)
    server.stop()


@needs_server
async def test_something_that_is_no_store_is_a_miss(replicas: Replicas) -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(garbage, "127.0.0.1", 0)
    replicas.url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
    one = replicas()
    assert await one.store.recall(A) == Cold()
    assert one.store.counters.shared_errors + one.store.counters.shared_timeouts == 1
    listening.close()


def test_a_seal_is_bound_to_key_context_and_address() -> None:
    sealer = Sealer(b"k" * 16, b"1")
    sealed = sealer.seal("here", b"plain")
    assert sealer.open("here", sealed) == b"plain"
    assert sealer.seal("here", b"plain") != sealed
    for other, address in (
        (Sealer(b"z" * 16, b"1"), "here"),
        (Sealer(b"k" * 16, b"2"), "here"),
        (sealer, "there"),
    ):
        with pytest.raises(SealError):
            other.open(address, sealed)
    for damaged in (b"", sealed[:5], sealed[:-1], sealed[:-1] + bytes([sealed[-1] ^ 1])):
        with pytest.raises(SealError):
            sealer.open("here", damaged)
    assert sealer.address("caller", A) != sealer.address("catalogue", A) != sealer.address("caller", B)


@pytest.mark.parametrize(
    ("catalog", "caller", "named"),
    [
        ({"store": "redis://h"}, "c", "catalog.store_key"),
        ({"store": "redis://h", "store_key": "short"}, "c", "catalog.store_key"),
        ({"store": "redis://h", "store_key": "k" * 16}, "", "caller.key"),
        ({"store": "http://h", "store_key": "k" * 16}, "c", "catalog.store"),
        ({"store": "redis://h", "store_key": "k" * 16, "store_timeout": 0}, "c", "catalog.store_timeout"),
    ],
)
def test_settings_that_cannot_work_name_the_one_to_change(
    catalog: dict[str, object], caller: str, named: str
) -> None:
    settings = Settings.model_validate({"catalog": catalog, "caller": {"key": caller}})
    with pytest.raises(StoreSettingsError, match=f"^{named}: "):
        check_store(settings)
    with pytest.raises(StoreSettingsError):
        open_store(settings)


def test_without_a_store_there_is_nothing_to_check() -> None:
    assert open_store(Settings()) is None
