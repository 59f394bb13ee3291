"""A small HTTP/1.1 load generator: keeps its own cost far below what it measures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter


class Connection:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        lines = [f"POST {path} HTTP/1.1", "host: bench", "content-type: application/json"]
        lines += ["accept: application/json, text/event-stream", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head[9:12])
        if "transfer-encoding: chunked" in head:
            return status, await self._chunks()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0] or 0)
        return status, await self._reader.readexactly(length)

    async def _chunks(self) -> bytes:
        parts = []
        while size := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return b"".join(parts)

    def close(self) -> None:
        self._writer.close()


async def times(port: int, path: str, body: bytes, headers: Mapping[str, str], count: int) -> list[float]:
    """Seconds of ``count`` requests, one after the other on one connection."""
    connection = await Connection.open(port)
    out = []
    for _ in range(count):
        began = perf_counter()
        status, answer = await connection.post(path, body, headers)
        out.append(perf_counter() - began)
        check(status, answer)
    connection.close()
    return out


async def rate(
    port: int, path: str, body: bytes, headers: Mapping[str, str], connections: int, seconds: float
) -> float:
    """Requests a second over ``connections`` connections."""
    stop = perf_counter() + seconds
    done = 0

    async def worker() -> None:
        nonlocal done
        connection = await Connection.open(port)
        while perf_counter() < stop:
            check(*await connection.post(path, body, headers))
            done += 1
        connection.close()

    began = perf_counter()
    await asyncio.gather(*(worker() for _ in range(connections)))
    return done / (perf_counter() - began)


def check(status: int, answer: bytes) -> None:
    if status != 200 or b'"error"' in answer or b'"isError":true' in answer:
        raise RuntimeError(f"status {status}: {answer[:300]!r}")
