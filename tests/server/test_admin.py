from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from extproc.server.admin import Admin
from extproc.telemetry import Metrics


class Readiness:
    ready = True


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
async def port(readiness: Readiness) -> AsyncIterator[int]:
    metrics = Metrics()
    metrics.refusals.labels("busy").inc()
    admin = Admin(metrics.registry, lambda: readiness.ready)
    yield await admin.start("127.0.0.1", 0)
    await admin.stop()


async def exchange(port: int, request: bytes) -> tuple[int, bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), head.lower(), body


async def get(port: int, target: str, method: str = "GET") -> tuple[int, bytes, bytes]:
    return await exchange(port, f"{method} {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())


async def test_metrics_are_prometheus_text(port: int) -> None:
    status, head, body = await get(port, "/metrics?x=1")
    assert status == 200
    assert b"content-type: text/plain; version=0.0.4" in head
    assert f"content-length: {len(body)}".encode() in head
    assert b'toolsearch_refusals_total{reason="busy"} 1.0' in body


async def test_health_and_readiness(port: int, readiness: Readiness) -> None:
    assert (await get(port, "/healthz"))[0] == (await get(port, "/readyz"))[0] == 200
    readiness.ready = False
    assert (await get(port, "/readyz"))[0] == 503
    assert (await get(port, "/healthz"))[0] == 200


async def test_head_has_no_body(port: int) -> None:
    status, head, body = await get(port, "/healthz", "HEAD")
    assert (status, body) == (200, b"")
    assert b"content-length: 3" in head


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/3\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
    ],
)
async def test_what_is_not_offered(port: int, request_bytes: bytes, status: int) -> None:
    assert (await exchange(port, request_bytes))[0] == status


async def test_a_head_without_end_is_cut_off_and_others_are_served(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /" + b"x" * 200_000)
    # Closed with unread data: the peer sees an end or a reset, never an answer.
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    assert (await get(port, "/healthz"))[0] == 200
