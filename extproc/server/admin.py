"""``/metrics``, ``/healthz`` and ``/readyz`` over plain HTTP/1.1, one request per connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

_READ_TIMEOUT = 5.0
_MAX_HEAD = 16 * 1024
_TEXT = "text/plain; charset=utf-8"


class Admin:
    """The administration endpoint.  ``ready`` is asked at every ``/readyz``."""

    def __init__(self, registry: CollectorRegistry, ready: Callable[[], bool]) -> None:
        self._registry = registry
        self._ready = ready
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port.  Raises ``OSError`` when the address cannot be had."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_MAX_HEAD)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._respond(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()

    def _respond(self, head: bytes) -> bytes:
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, b"not an HTTP/1 request\n")
        method, target, _ = parts
        if method not in (b"GET", b"HEAD"):
            return _response(
                HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", extra="allow: GET, HEAD\r\n"
            )
        return self._page(target.partition(b"?")[0], bodiless=method == b"HEAD")

    def _page(self, path: bytes, bodiless: bool) -> bytes:
        match path:
            case b"/metrics":
                page = generate_latest(self._registry)
                return _response(HTTPStatus.OK, page, CONTENT_TYPE_PLAIN_0_0_4, bodiless=bodiless)
            case b"/healthz":
                return _response(HTTPStatus.OK, b"ok\n", bodiless=bodiless)
            case b"/readyz" if self._ready():
                return _response(HTTPStatus.OK, b"ready\n", bodiless=bodiless)
            case b"/readyz":
                return _response(HTTPStatus.SERVICE_UNAVAILABLE, b"not ready\n", bodiless=bodiless)
            case _:
                return _response(HTTPStatus.NOT_FOUND, b"/metrics, /healthz or /readyz\n", bodiless=bodiless)


def _response(
    status: HTTPStatus, body: bytes, content_type: str = _TEXT, extra: str = "", bodiless: bool = False
) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {content_type}\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n{extra}\r\n"
    )
    return head.encode("ascii") + (b"" if bodiless else body)
