"""How side requests end: closed unions of values, never exceptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from extproc.catalog.model import Catalogue
from extproc.exchange.messages import Headers


class Reason(StrEnum):
    """Why nothing usable came back; the values are metric labels."""

    NO_ROUTE = "no_route"
    """``catalog.url`` is not set."""
    BACKING_OFF = "backing_off"
    """The route failed several times in a row and is left alone for a while."""
    BUSY = "busy"
    """The deadline passed while waiting for one of the ``catalog.max_fetches`` places."""
    TIMEOUT = "timeout"
    CONNECT = "connect"
    RESET = "reset"
    """The connection broke after it stood."""
    STATUS = "status"
    """A status other than success, 401 and 403."""
    REDIRECT = "redirect"
    """A redirect that leaves the origin of ``catalog.url``, or goes on and on."""
    ENCODING = "encoding"
    """A content coding nobody asked for that cannot be undone within the limits."""
    TOO_LARGE = "too_large"
    """More than ``limits.response_body`` bytes."""
    MALFORMED = "malformed"
    """No JSON-RPC answer to the request that was sent."""
    RPC_ERROR = "rpc_error"
    FILTERED = "filtered"
    """The route lists the six tools: it leads back through the filter."""
    CURSOR_CYCLE = "cursor_cycle"
    TOO_MANY_PAGES = "too_many_pages"
    TOO_MANY_TOOLS = "too_many_tools"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Fetched:
    """All pages of a caller's list.

    ``ttl`` in seconds, the shortest of all pages, None when no page says.  ``cut`` says why the catalogue is
    incomplete: a pager that never ends still leaves its tools usable.
    """

    catalogue: Catalogue
    ttl: float | None
    cut: Reason | None = None


@dataclass(frozen=True, slots=True)
class Unauthorized:
    """The upstream's own 401 or 403, to be handed to this caller and nobody else."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The upstream's own 404 for the caller's live session: the client has to initialize again."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """``detail`` is for the operator's log: a status or an error code, never content."""

    reason: Reason
    detail: str = ""


FetchOutcome: TypeAlias = Fetched | Unauthorized | Failed


@dataclass(frozen=True, slots=True)
class CallResult:
    """``raw`` is the ``result`` member exactly as it came."""

    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CallError:
    """A JSON-RPC error.  ``raw`` is the ``error`` member exactly as it came."""

    code: int
    message: str = field(repr=False)
    raw: bytes = field(repr=False)


CallOutcome: TypeAlias = CallResult | CallError | Failed
