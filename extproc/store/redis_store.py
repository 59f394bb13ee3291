"""A store shared between replicas in Valkey or Redis.

Slow, full, gone or filled with something else, it is never an error: a question becomes a miss, a write is
lost, and a number goes up.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import zstandard
from cachetools import TTLCache
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from extproc.catalog.caller import CallerKey
from extproc.catalog.model import Catalogue, Tool
from extproc.store.counters import Counters
from extproc.store.remote import OnChange, Record
from extproc.store.sealing import Sealer, SealError

WRITE_PATIENCE = 20
"""Writes happen behind the answer and may take this many times the read timeout."""
CONNECTIONS = 32
WRITES = 8
MAX_WAITING = 10_000
"""Writes at once, and waiting behind them; more are left out."""
HELD = 60.0
"""Seconds for which a catalogue that was written or found is taken to be there."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
"""Seconds for which a store that failed is not asked."""
MAX_INFLATED = 512 * 1024 * 1024

_T = TypeVar("_T")


class _Caller(msgspec.Struct, array_like=True):
    digest: bytes
    learned: float
    life: float


class _Blob(msgspec.Struct, array_like=True):
    complete: bool
    tools: list[Tool]


class _Change(msgspec.Struct, array_like=True):
    origin: bytes
    key: bytes
    digest: bytes | None
    life: float


class RedisStore:
    """``timeout`` in seconds for one question.  ``keep`` in seconds is added to a list's life.

    ``wall`` gives seconds since the epoch: replicas compare ages by it.
    """

    def __init__(
        self,
        url: str,
        sealer: Sealer,
        *,
        timeout: float,
        keep: float,
        counters: Counters | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.counters = counters or Counters()
        self.on_change: OnChange = lambda key, digest, life: None
        self._sealer = sealer
        self._timeout = timeout
        self._keep = keep
        self._wall = wall
        self._origin = os.urandom(8)
        writing = max(timeout * WRITE_PATIENCE, 0.001)
        # One repeat, at once: a connection kept since before the store's restart is no trouble.
        once = Retry(NoBackoff(), 1)
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=None,
            socket_timeout=writing,
            socket_connect_timeout=writing,
            retry=once,
        )
        self._redis = Redis.from_pool(pool)
        # A subscription is silent for as long as nothing happens, so it has no read deadline.
        self._watching = Redis.from_url(url, socket_connect_timeout=writing, socket_keepalive=True)
        self._channel = sealer.address("changes")
        self._waiting = 0
        self._writes = asyncio.Semaphore(WRITES)
        self._catalogue_writes = asyncio.Lock()
        self._held: TTLCache[bytes, bool] = TTLCache(4_096, HELD)
        self._failures = 0
        self._until = 0.0
        self._watcher: asyncio.Task[None] | None = None

    # Reading ----------------------------------------------------------------------------------------------

    async def record(self, key: CallerKey) -> Record | None:
        self._watch()
        sealed = await self._read(self._sealer.address("caller", key))
        if sealed is None:
            return None
        try:
            held = msgspec.msgpack.decode(sealed, type=_Caller)
        except msgspec.MsgspecError:
            self.counters.shared_rejected += 1
            return None
        return Record(held.digest, max(0.0, self._wall() - held.learned), held.life)

    async def catalogue(self, digest: bytes) -> Catalogue | None:
        plain = await self._read(self._sealer.address("catalogue", digest))
        if plain is None:
            return None
        catalogue = await asyncio.to_thread(_unpack, plain)
        if catalogue is None or catalogue.digest != digest:
            self.counters.shared_rejected += 1
            return None
        return catalogue

    async def _read(self, address: str) -> bytes | None:
        sealed = await self._guarded(self._timeout, lambda: self._redis.get(address))
        if not isinstance(sealed, bytes):
            return None
        try:
            return self._sealer.open(address, sealed)
        except SealError:
            self.counters.shared_rejected += 1
            return None

    # Writing ----------------------------------------------------------------------------------------------

    async def publish(self, key: CallerKey, catalogue: Catalogue, life: float) -> None:
        self._watch()
        learned = self._wall()
        if self._waiting >= MAX_WAITING:
            self.counters.shared_skipped += 1
            return
        self._waiting += 1
        try:
            async with self._writes:
                await self._publish(key, catalogue, learned, life)
        finally:
            self._waiting -= 1

    async def _publish(self, key: CallerKey, catalogue: Catalogue, learned: float, life: float) -> None:
        seconds = max(1, int(life + self._keep))
        # The catalogue goes first, and lives longer, so that no caller's entry points nowhere.
        if not await self._publish_catalogue(catalogue, 2 * seconds):
            return
        address = self._sealer.address("caller", key)
        entry = msgspec.msgpack.encode(_Caller(catalogue.digest, learned, life))
        sealed = self._sealer.seal(address, entry)

        async def write() -> bool:
            await self._redis.set(address, sealed, ex=seconds)
            await self._tell(key, catalogue.digest, life)
            return True

        if await self._guarded(self._timeout * WRITE_PATIENCE, write):
            self.counters.published += 1

    async def _publish_catalogue(self, catalogue: Catalogue, seconds: int) -> bool:
        """Once for however many callers; true when the store has it."""
        blob = self._sealer.address("catalogue", catalogue.digest)
        patience = self._timeout * WRITE_PATIENCE
        async with self._catalogue_writes:
            if catalogue.digest in self._held:
                return True
            held = await self._guarded(patience, lambda: self._redis.expire(blob, seconds))
            if held is None:
                return False
            if not held:
                sealed = await asyncio.to_thread(lambda: self._sealer.seal(blob, _pack(catalogue)))
                if not await self._guarded(patience, lambda: self._redis.set(blob, sealed, ex=seconds)):
                    return False
            self._held[catalogue.digest] = True
            return True

    async def forget(self, key: CallerKey) -> None:
        await self._guarded(self._timeout * WRITE_PATIENCE, lambda: self._forget(key))

    async def _forget(self, key: CallerKey) -> None:
        await self._redis.delete(self._sealer.address("caller", key))
        await self._tell(key, None, 0.0)

    async def _tell(self, key: CallerKey, digest: bytes | None, life: float) -> None:
        change = msgspec.msgpack.encode(_Change(self._origin, key, digest, life))
        await self._redis.publish(self._channel, self._sealer.seal(self._channel, change))

    # Trouble ----------------------------------------------------------------------------------------------

    async def _guarded(self, timeout: float, work: Callable[[], Awaitable[_T]]) -> _T | None:  # noqa: ASYNC109
        if time.monotonic() < self._until:
            self.counters.shared_skipped += 1
            return None
        try:
            async with asyncio.timeout(timeout):
                done = await work()
        except TimeoutError:
            self.counters.shared_timeouts += 1
            self._pause()
            return None
        except (RedisError, OSError, ValueError):
            self.counters.shared_errors += 1
            self._pause()
            return None
        self._failures = 0
        return done

    def _pause(self) -> None:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures, 10))
        self._failures += 1
        self._until = time.monotonic() + pause * random.uniform(0.5, 1.0)

    # Changes elsewhere ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        failures = 0
        while True:
            try:
                async with self._watching.pubsub(ignore_subscribe_messages=True) as subscription:
                    await subscription.subscribe(self._channel)
                    failures = 0
                    async for message in subscription.listen():
                        self._heard(message.get("data"))
            except (RedisError, OSError):
                failures += 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 10))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    def _heard(self, data: object) -> None:
        try:
            plain = self._sealer.open(self._channel, data) if isinstance(data, bytes) else b""
            change = msgspec.msgpack.decode(plain, type=_Change)
        except (SealError, msgspec.MsgspecError):
            self.counters.shared_rejected += 1
            return
        if change.origin != self._origin:
            self.on_change(change.key, change.digest, change.life)

    async def aclose(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        for client in (self._redis, self._watching):
            await _quietly(client.aclose())


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (RedisError, OSError):
        return


def _pack(catalogue: Catalogue) -> bytes:
    plain = msgspec.msgpack.encode(_Blob(catalogue.complete, list(catalogue.tools)))
    return zstandard.ZstdCompressor(level=3).compress(plain)


def _unpack(packed: bytes) -> Catalogue | None:
    try:
        plain = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_INFLATED)
        blob = msgspec.msgpack.decode(plain, type=_Blob)
    except (zstandard.ZstdError, msgspec.MsgspecError):
        return None
    return Catalogue.of(blob.tools, complete=blob.complete)
