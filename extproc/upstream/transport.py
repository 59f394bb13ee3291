"""HTTP requests to one configured URL, with bounds on everything that comes back.

The transport of httpx is used without its client on purpose: a client keeps cookies of one caller for the
next, reads proxies and ``.netrc`` from the environment, follows redirects and inflates without a limit.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import certifi
import httpx

from extproc.exchange.messages import Headers
from extproc.upstream.outcomes import Reason

KEEPALIVE = 4.0
"""Seconds an idle connection is kept: below the 5 s after which common servers close it themselves."""
MAX_REDIRECTS = 2
_STEP = 256 * 1024


class TransportError(Exception):
    """No usable HTTP answer.  ``early`` is true when no byte of an answer had arrived."""

    def __init__(self, reason: Reason, detail: str = "", *, early: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.early = early


@dataclass(slots=True)
class Head:
    """The head of an answer and a way to read the rest.  Header names are lower-case."""

    status: int
    headers: Headers
    _response: httpx.Response
    _limit: int

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The decoded body in pieces.  Raises :class:`TransportError`."""
        left = self._limit
        coding = self.header("content-encoding").strip().lower()
        decoder = _decoder(coding)
        try:
            # Without a chunk size: httpx would hold an event back until that many bytes had come.
            async for chunk in self._response.aiter_raw():
                for piece in decoder.feed(chunk):
                    left -= len(piece)
                    if left < 0:
                        raise TransportError(Reason.TOO_LARGE)
                    yield piece
            yield decoder.finish()
        except zlib.error:
            raise TransportError(Reason.ENCODING, "broken") from None
        except httpx.HTTPError as error:
            raise TransportError(Reason.RESET, type(error).__name__) from None

    async def read(self) -> bytes:
        """The whole body, decoded.  Raises :class:`TransportError`."""
        return b"".join([piece async for piece in self.chunks()])


class Transport:
    """A connection pool to ``url``; no other address is ever asked."""

    def __init__(self, url: str, *, connections: int, limit: int) -> None:
        self._url = httpx.URL(url)
        self._limit = limit
        self._http = httpx.AsyncHTTPTransport(
            verify=_trusted() if self._url.scheme == "https" else False,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=KEEPALIVE,
            ),
        )

    @asynccontextmanager
    async def send(
        self, method: str, headers: Headers, body: bytes = b"", *, limit: int | None = None
    ) -> AsyncIterator[Head]:
        """Send one request; deadlines are the caller's.

        Raises :class:`TransportError`.  Redirects are followed within the same scheme, host and port only,
        and only those that repeat the method (307, 308).
        """
        try:
            raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        except UnicodeEncodeError:
            raise TransportError(Reason.MALFORMED, "header") from None
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            request = httpx.Request(method, url, headers=raw, content=body)
            try:
                response = await self._http.handle_async_request(request)
            except httpx.ConnectError as error:
                raise TransportError(Reason.CONNECT, type(error).__name__, early=True) from None
            except httpx.LocalProtocolError:
                raise TransportError(Reason.MALFORMED, "header") from None
            except httpx.HTTPError as error:
                raise TransportError(Reason.RESET, type(error).__name__, early=True) from None
            try:
                if response.status_code in (307, 308):
                    url = self._next(url, response)
                    continue
                if 300 <= response.status_code < 400:
                    raise TransportError(Reason.REDIRECT, str(response.status_code))
                pairs = tuple(
                    (name.decode("latin-1").lower(), value.decode("latin-1"))
                    for name, value in response.headers.raw
                )
                yield Head(response.status_code, pairs, response, limit or self._limit)
                return
            finally:
                await response.aclose()
        raise TransportError(Reason.REDIRECT, "too many")

    def _next(self, url: httpx.URL, response: httpx.Response) -> httpx.URL:
        try:
            target = url.join(response.headers.get("location", ""))
        except httpx.InvalidURL:
            raise TransportError(Reason.REDIRECT, "unreadable location") from None
        if _origin(target) != _origin(self._url):
            raise TransportError(Reason.REDIRECT, "another origin")
        return target

    async def aclose(self) -> None:
        await self._http.aclose()


def _trusted() -> ssl.SSLContext:
    """The machine's authorities (``SSL_CERT_FILE`` included) besides those that come with httpx."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    default = {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, url.port or default


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
