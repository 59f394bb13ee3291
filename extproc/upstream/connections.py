"""A pool of HTTP/1.1 connections to one origin: h11 for the protocol, asyncio streams for the bytes.

General clients keep cookies of one caller for the next, read proxies and ``.netrc`` from the environment,
re-encode header values and inflate bodies without a limit.  Here a request is what is sent and nothing else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult

import certifi
import h11

from extproc.upstream.outcomes import Reason

KEEPALIVE = 4.0
"""Seconds an idle connection is kept: below the 5 s after which common servers close it themselves."""
MAX_HEAD = 128 * 1024
"""Bytes of an answer's head."""
_READ = 64 * 1024

RawHeaders = Sequence[tuple[bytes, bytes]]


class TransportError(Exception):
    """No usable HTTP answer.  ``early`` is true when no byte of an answer had arrived."""

    def __init__(self, reason: Reason, detail: str = "", *, early: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.early = early


@dataclass(slots=True)
class _Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: h11.Connection
    idle_since: float = 0.0

    def alive(self, now: float) -> bool:
        """Whether an idle connection may carry a request: not old, not closed, nothing unasked for on it."""
        # A byte that nobody asked for means that the two ends disagree about where an answer ended.
        unasked = bool(self.reader._buffer)  # type: ignore[attr-defined]
        return (
            now - self.idle_since < KEEPALIVE
            and not unasked
            and not self.reader.at_eof()
            and not self.writer.is_closing()
        )


class Exchange:
    """One request on one connection; iterate :meth:`body` after :meth:`start`."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._head_seen = False
        self.status = 0
        self.headers: RawHeaders = ()

    async def start(self, method: bytes, target: bytes, headers: RawHeaders, body: bytes) -> None:
        """Send the request and read the answer's head.  Raises :class:`TransportError`."""
        protocol, writer = self._link.protocol, self._link.writer
        try:
            data = protocol.send(h11.Request(method=method, target=target, headers=list(headers)))
            assert data is not None
            data += protocol.send(h11.Data(body)) or b""
            data += protocol.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError:
            raise TransportError(Reason.MALFORMED, "header") from None
        try:
            writer.write(data)
            await writer.drain()
        except OSError as error:
            raise TransportError(Reason.RESET, type(error).__name__, early=True) from None
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                self._head_seen = True
                self.status = event.status_code
                self.headers = event.headers.raw_items()
                return
            if not isinstance(event, h11.InformationalResponse):
                raise TransportError(Reason.RESET, "closed", early=True)

    async def body(self) -> AsyncIterator[bytes]:
        """Pieces as they arrive.  Raises :class:`TransportError`."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise TransportError(Reason.RESET, "closed")

    async def _next(self) -> object:
        protocol, reader = self._link.protocol, self._link.reader
        early = not self._head_seen
        try:
            while (event := protocol.next_event()) is h11.NEED_DATA:
                protocol.receive_data(await reader.read(_READ))
        except h11.RemoteProtocolError:
            # A connection that ends before a head is a protocol error to h11 and a reset to us.
            early = early and protocol.trailing_data[0] == b""
            raise TransportError(Reason.RESET, "protocol", early=early) from None
        except OSError as error:
            raise TransportError(Reason.RESET, type(error).__name__, early=early) from None
        return event


class Connections:
    """At most ``most`` connections at once to the origin of ``url``."""

    def __init__(self, url: SplitResult, most: int) -> None:
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._tls = _trusted() if url.scheme == "https" else None
        self._places = asyncio.Semaphore(most)
        self._idle: list[_Link] = []

    async def acquire(self) -> Exchange:
        """An exchange on a kept or a new connection; hand it back with :meth:`release`.

        Raises :class:`TransportError`.
        """
        await self._places.acquire()
        try:
            now = asyncio.get_running_loop().time()
            while self._idle:
                link = self._idle.pop()
                if link.alive(now):
                    return Exchange(link)
                link.writer.close()
            return Exchange(await self._open())
        except BaseException:
            self._places.release()
            raise

    def release(self, exchange: Exchange) -> None:
        """Keep the connection when its answer was read to the end, close it otherwise."""
        link = exchange._link
        self._places.release()
        protocol = link.protocol
        if protocol.our_state is h11.DONE and _ended(protocol):
            protocol.start_next_cycle()
            link.idle_since = asyncio.get_running_loop().time()
            self._idle.append(link)
        else:
            link.writer.close()

    async def _open(self) -> _Link:
        try:
            reader, writer = await asyncio.open_connection(
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._host if self._tls else None,
            )
        except OSError as error:
            raise TransportError(Reason.CONNECT, type(error).__name__, early=True) from None
        return _Link(reader, writer, h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD))

    async def aclose(self) -> None:
        """Close what is idle."""
        links, self._idle = self._idle, []
        for link in links:
            link.writer.close()
        await asyncio.gather(*(link.writer.wait_closed() for link in links), return_exceptions=True)


def _ended(protocol: h11.Connection) -> bool:
    """Whether the answer is over and nothing came behind it, looking only at what has arrived."""
    try:
        while protocol.their_state is h11.SEND_BODY:
            if protocol.next_event() is h11.NEED_DATA:
                return False
    except h11.RemoteProtocolError:
        return False
    return protocol.their_state is h11.DONE and protocol.trailing_data == (b"", False)


def _trusted() -> ssl.SSLContext:
    """The machine's authorities (``SSL_CERT_FILE`` included) besides the public ones of certifi."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
