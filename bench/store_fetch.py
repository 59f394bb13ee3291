"""What the catalogue route costs: requests a second and connections.

    python bench/store_fetch.py [--tools 300] [--requests 400] [--at-once 16] [--json]

The server runs in a process of its own and answers a prepared list; it counts the connections it is given.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from extproc.catalog.caller import CallerContext
from extproc.settings import Settings
from extproc.upstream import Call, CallResult, Fetched, UpstreamClient


def _serve(tools: int, ready: Any, stop: Any) -> None:
    listed = [
        {
            "name": f"server{n % 20}__tool_{n}",
            "description": "Does one thing. " * 12,
            "inputSchema": {"type": "object"},
        }
        for n in range(tools)
    ]
    result = json.dumps({"resultType": "complete", "tools": listed, "ttlMs": 60_000, "cacheScope": "private"})
    counts = {"connections": 0}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counts["connections"] += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                message = json.loads(await reader.readexactly(length))
                answer = result if message["method"] == "tools/list" else '{"content":[]}'
                body = f'{{"jsonrpc":"2.0","id":{message["id"]},"result":{answer}}}'.encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        ready.put(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(stop.wait)
        ready.put(counts["connections"])

    asyncio.run(main())


async def _timed(at_once: int, requests: int, one: Callable[[int], Awaitable[None]]) -> float:
    numbers = iter(range(requests))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return requests / (time.perf_counter() - started)


async def measure(port: int, requests: int, at_once: int) -> dict[str, Any]:
    settings = Settings.model_validate(
        {"catalog": {"url": f"http://127.0.0.1:{port}/mcp/all", "timeout": 60}}
    )
    client = UpstreamClient(settings, ThreadPoolExecutor(2))

    def caller(number: int) -> CallerContext:
        token = (("authorization", f"Bearer {number}"),)
        return CallerContext(number.to_bytes(16, "big"), None, "2026-07-28", token)

    async def fetch(number: int) -> None:
        assert isinstance(await client.fetch(caller(number)), Fetched)

    async def batch(number: int) -> None:
        outcomes = await client.call_many(caller(number), [Call("x")] * 10)
        assert isinstance(outcomes, tuple)
        assert all(isinstance(outcome, CallResult) for outcome in outcomes)

    lists = await _timed(at_once, requests, fetch)
    calls = 10 * await _timed(max(1, at_once // 4), max(1, requests // 4), batch)
    await client.aclose()
    return {"lists_per_second": round(lists), "calls_per_second": round(calls)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tools", type=int, default=300)
    options.add_argument("--requests", type=int, default=400)
    options.add_argument("--at-once", type=int, default=16)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Queue(), context.Event()
    server = context.Process(target=_serve, args=(given.tools, ready, stop))
    server.start()
    report = asyncio.run(measure(ready.get(), given.requests, given.at_once))
    stop.set()
    report["connections"] = ready.get()
    server.join()
    if given.json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        print(f"{name.replace('_', ' '):20} {value}")


if __name__ == "__main__":
    main()
