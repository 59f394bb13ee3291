"""One way of talking to the route for one caller: a self-contained request or a legacy session."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from extproc.catalog.caller import CallerContext
from extproc.exchange.messages import Headers
from extproc.mcp import revisions, slices
from extproc.settings import Settings

_NAME = "mcp-toolsearch-extproc"
try:
    _VERSION = version(_NAME)
except PackageNotFoundError:
    _VERSION = "0"
CLIENT_INFO = slices.encode({"name": _NAME, "version": _VERSION})

_HOP_BY_HOP = ("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect")
_OF_THE_BODY = ("content-length", "content-type", "content-encoding", "accept", "accept-encoding")
_NEVER_PASSED = frozenset((*_HOP_BY_HOP, *_OF_THE_BODY, "last-event-id"))
_BASE: Headers = (
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("accept-encoding", "identity"),
)


class Ids:
    """Request ids nobody else in a caller's session uses: integers, because Envoy's router loses string
    ids of lists, and between 2^52 and 2^53, above any counter and still exact in a double."""

    def __init__(self) -> None:
        self._last = 2**52 + secrets.randbelow(2**51)

    def next(self) -> int:
        self._last += 1
        return self._last


@dataclass(frozen=True, slots=True)
class Channel:
    """``headers`` go with every request.  ``meta`` is the raw ``_meta`` of modern requests, None in legacy.

    ``session`` is the MCP session the requests run in, ``live`` whether it is the caller's own.
    """

    headers: Headers = field(repr=False)
    meta: bytes | None
    session: str | None = field(default=None, repr=False)
    live: bool = False

    def request_headers(self, method: str, extra: Headers = ()) -> Headers:
        if self.meta is None:
            return (*self.headers, *extra)
        return (*self.headers, ("mcp-method", method), *extra)

    def request_body(self, method: str, params: slices.Members, request_id: int | None) -> bytes:
        """A request, or a notification when ``request_id`` is None."""
        parts: slices.Members = {"jsonrpc": b'"2.0"'}
        if request_id is not None:
            parts["id"] = b"%d" % request_id
        parts["method"] = slices.quote(method)
        if self.meta is not None:
            params = {**params, "_meta": self.meta}
        if params:
            parts["params"] = slices.join(params)
        return slices.join(parts)


def passed_headers(caller: CallerContext, settings: Settings) -> Headers:
    """The caller's credential headers and those named in ``catalog.headers``, nothing else."""
    wanted = {name.lower() for name in (*settings.caller.headers, *settings.catalog.headers)}
    return tuple(
        (name, value)
        for name, value in caller.headers
        if name in wanted and name not in _NEVER_PASSED and not name.startswith(("mcp-", ":"))
    )


def modern(caller: CallerContext, passed: Headers) -> Channel:
    """Every request carries its own metadata; no capability is offered (2026-07-28, lifecycle)."""
    meta = {
        revisions.META_VERSION: slices.quote(caller.revision),
        revisions.META_CAPABILITIES: b"{}",
        "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    }
    return Channel((*_BASE, *passed, ("mcp-protocol-version", caller.revision)), slices.join(meta))


def legacy(revision: str, passed: Headers, session: str | None, *, live: bool) -> Channel:
    """Requests in a session; the version header exists from 2025-06-18 on."""
    return Channel(tuple(_legacy_headers(revision, passed, session)), None, session=session, live=live)


def _legacy_headers(revision: str, passed: Headers, session: str | None) -> Iterable[tuple[str, str]]:
    yield from _BASE
    yield from passed
    if revision >= "2025-06-18":
        yield "mcp-protocol-version", revision
    if session is not None:
        yield "mcp-session-id", session


def opening(passed: Headers) -> Channel:
    """For ``initialize`` itself, which carries neither version nor session."""
    return Channel((*_BASE, *passed), None)
