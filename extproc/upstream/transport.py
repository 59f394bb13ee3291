"""HTTP requests to one configured URL, with bounds on everything that comes back."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urljoin, urlsplit

from extproc.exchange.messages import Headers
from extproc.upstream.connections import Connections, Exchange, TransportError
from extproc.upstream.outcomes import Reason

MAX_REDIRECTS = 2
_STEP = 256 * 1024

__all__ = ["Head", "Transport", "TransportError"]


@dataclass(slots=True)
class Head:
    """The head of an answer and a way to read the rest.  Header names are lower-case."""

    status: int
    headers: Headers
    _exchange: Exchange
    _limit: int

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The decoded body in pieces, as they arrive.  Raises :class:`TransportError`."""
        left = self._limit
        decoder = _decoder(self.header("content-encoding").strip().lower())
        try:
            async for chunk in self._exchange.body():
                for piece in decoder.feed(chunk):
                    left -= len(piece)
                    if left < 0:
                        raise TransportError(Reason.TOO_LARGE)
                    yield piece
            yield decoder.finish()
        except zlib.error:
            raise TransportError(Reason.ENCODING, "broken") from None

    async def read(self) -> bytes:
        """The whole body, decoded.  Raises :class:`TransportError`."""
        return b"".join([piece async for piece in self.chunks()])


class Transport:
    """Sends requests to ``url``; no other origin is ever asked.  ``limit`` in bytes of a decoded body."""

    def __init__(self, url: str, *, connections: int, limit: int) -> None:
        self._url = urlsplit(url)
        self._limit = limit
        self._connections = Connections(self._url, connections)

    @asynccontextmanager
    async def send(
        self, method: str, headers: Headers, body: bytes = b"", *, limit: int | None = None
    ) -> AsyncIterator[Head]:
        """Send one request; deadlines are the caller's.

        Raises :class:`TransportError`.  Redirects are followed within the same scheme, host and port only,
        and only those that repeat the method (307, 308).
        """
        raw = self._raw(headers, body)
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            exchange = await self._connections.acquire()
            try:
                await exchange.start(method.encode(), _target(url), raw, body)
                head = Head(exchange.status, _readable(exchange), exchange, limit or self._limit)
                if head.status in (307, 308):
                    url = self._next(url, head.header("location"))
                    continue
                if 300 <= head.status < 400:
                    raise TransportError(Reason.REDIRECT, str(head.status))
                yield head
                return
            finally:
                self._connections.release(exchange)
        raise TransportError(Reason.REDIRECT, "too many")

    def _raw(self, headers: Headers, body: bytes) -> list[tuple[bytes, bytes]]:
        netloc = self._url.netloc.rpartition("@")[2]
        try:
            return [
                (b"host", netloc.encode("ascii")),
                *((name.encode("ascii"), value.encode("latin-1")) for name, value in headers),
                (b"content-length", b"%d" % len(body)),
            ]
        except UnicodeEncodeError:
            raise TransportError(Reason.MALFORMED, "header") from None

    def _next(self, url: SplitResult, location: str) -> SplitResult:
        try:
            target = urlsplit(urljoin(url.geturl(), location))
            same = _origin(target) == _origin(self._url)
        except ValueError:
            raise TransportError(Reason.REDIRECT, "unreadable location") from None
        if not same:
            raise TransportError(Reason.REDIRECT, "another origin")
        return target

    async def aclose(self) -> None:
        await self._connections.aclose()


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _target(url: SplitResult) -> bytes:
    path = url.path or "/"
    return (
        f"{path}?{url.query}".encode("latin-1", "replace") if url.query else path.encode("latin-1", "replace")
    )


def _readable(exchange: Exchange) -> Headers:
    return tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in exchange.headers
    )


class _Decoder(Protocol):
    def feed(self, chunk: bytes) -> Iterator[bytes]: ...

    def finish(self) -> bytes: ...


class _Identity:
    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk

    def finish(self) -> bytes:
        return b""


class _Inflate:
    """Inflates in bounded steps, so that a small body cannot become a large one at once."""

    def __init__(self, wbits: int) -> None:
        self._state = zlib.decompressobj(wbits)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            piece = self._state.decompress(chunk, _STEP)
            if piece:
                yield piece
            elif self._state.eof:
                return
            chunk = self._state.unconsumed_tail

    def finish(self) -> bytes:
        return self._state.flush()


def _decoder(coding: str) -> _Decoder:
    match coding:
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Inflate(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Inflate(zlib.MAX_WBITS)
        case _:
            raise TransportError(Reason.ENCODING, "not asked for")
