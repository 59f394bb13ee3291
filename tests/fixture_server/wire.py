"""HTTP/1.1 over asyncio with full control of the connection.

A ready-made server would hide what the tests are about: resets, half answers, repeated headers, lost clients.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import h11

Headers: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One HTTP request; header names in lower case, repeated headers kept apart."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def header(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)


@dataclass
class Responder:
    """The answer to one request.  Writing to a client that has gone is silently ignored."""

    connection: h11.Connection
    writer: asyncio.StreamWriter
    status: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        extra = [("content-length", str(len(body)))] if status != 204 else []
        await self.start(status, [*(headers or []), *extra])
        await self.chunk(body)
        await self.end()

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        await self._write(h11.Response(status_code=status, headers=headers))

    async def chunk(self, data: bytes) -> None:
        if data:
            await self._write(h11.Data(data=data))

    async def end(self) -> None:
        await self._write(h11.EndOfMessage())

    def abort(self) -> None:
        """Reset the connection: the client sees a broken stream, not an end."""
        self.writer.transport.abort()
        self.gone.set()

    async def _write(self, event: h11.Event) -> None:
        if self.gone.is_set():
            return
        try:
            self.writer.write(self.connection.send(event) or b"")
            await self.writer.drain()
        except (ConnectionError, h11.LocalProtocolError):
            self.gone.set()


Handler: TypeAlias = Callable[[Request, Responder], Awaitable[None]]


async def serve(handler: Handler, host: str, port: int) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, h11.RemoteProtocolError, asyncio.IncompleteReadError):
            await _converse(handler, reader, writer)
        with contextlib.suppress(ConnectionError):
            writer.close()

    return await asyncio.start_server(connected, host, port, limit=1 << 20, backlog=512)


async def _converse(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    while (request := await _receive(connection, reader)) is not None:
        responder = Responder(connection, writer)
        work = asyncio.ensure_future(handler(request, responder))
        watch = asyncio.ensure_future(_until_gone(connection, reader))
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            responder.gone.set()
        try:
            await work
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        if responder.gone.is_set() or connection.our_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _receive(connection: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(1 << 18))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            path, _, query = head.target.decode("latin-1").partition("?")
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers]
            return Request(head.method.decode(), path, query, headers, bytes(body))
        else:
            return None


async def _until_gone(connection: h11.Connection, reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            connection.receive_data(data)
