"""Events in, commands out, and the decisions in between: closed unions, no MCP, no protobuf.

The values are frozen ``msgspec.Struct``: made a dozen times a request, they cost a tenth of what frozen
dataclasses do (docs/decisions/request-path.md).

An *exchange* is one HTTP request and its response as an external processor sees it.  The driver feeds
``Event`` values to :meth:`Exchange.receive` and carries out the ``Command`` values that come back.
``Decide`` asks for a decision, which is handed to :meth:`Exchange.resume`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Protocol, TypeAlias

import msgspec

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Lower-case names; values decoded as latin-1 so that every byte survives."""


class Word(Enum):
    """An enumeration whose members are quick to look up."""

    # The inherited hash is computed in Python each time; these are keys on every request's way.
    __hash__ = object.__hash__


class Side(Word):
    REQUEST = auto()
    RESPONSE = auto()


class BodyMode(Word):
    """Names and numbers of ``ProcessingMode.BodySendMode``."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX = 4


class Dialect(Word):
    """Which gateway family speaks: told apart by how pseudo headers arrive."""

    ENVOY = auto()
    AGENTGATEWAY = auto()


class Opening(msgspec.Struct, frozen=True):
    """What the first message of a gRPC stream says about the exchange."""

    request_mode: BodyMode = BodyMode.BUFFERED
    response_mode: BodyMode = BodyMode.NONE
    dialect: Dialect = Dialect.ENVOY
    attributes: Mapping[str, str] = {}
    """One of them may be a token."""
    profile: str = ""

    def __repr__(self) -> str:
        modes = f"{self.request_mode.name}, {self.response_mode.name}"
        return f"Opening({modes}, {self.dialect.name}, profile={self.profile!r})"


# Events ---------------------------------------------------------------------------------------------------


class HeadersArrived(msgspec.Struct, frozen=True):
    side: Side
    headers: Headers
    end_of_stream: bool = False


class BodyArrived(msgspec.Struct, frozen=True):
    side: Side
    chunk: bytes
    end_of_stream: bool = False


class TrailersArrived(msgspec.Struct, frozen=True):
    side: Side
    headers: Headers = ()


Event: TypeAlias = HeadersArrived | BodyArrived | TrailersArrived

# Commands -------------------------------------------------------------------------------------------------


class ModeOverride(msgspec.Struct, frozen=True):
    """Body modes to ask for in a headers answer; both are stated, as agentgateway reads unset as NONE."""

    request: BodyMode
    response: BodyMode


METADATA_NAMESPACE = "toolsearch"
"""Dynamic metadata of ours; a gateway takes it when its ``receiving_namespaces`` name it."""
REPEATABLE = "repeatable"
"""True there for what :class:`AnswerHeaders` and :class:`AnswerBody` call repeatable."""


class AnswerHeaders(msgspec.Struct, frozen=True):
    """Every set overwrites (``OVERWRITE_IF_EXISTS_OR_ADD``); removals and sets go in one mutation."""

    side: Side
    set: Headers = ()
    remove: tuple[str, ...] = ()
    mode: ModeOverride | None = None
    repeatable: bool = False
    """Told to the gateway: the request may be sent again although it was handed on."""


class AnswerBody(msgspec.Struct, frozen=True):
    """Answer to a BUFFERED or STREAMED body message.  ``body`` None keeps it, ``b""`` clears it."""

    side: Side
    body: bytes | None = None
    set: Headers = ()
    remove: tuple[str, ...] = ()
    repeatable: bool = False


class StreamBody(msgspec.Struct, frozen=True):
    """One chunk in full duplex; the driver splits nothing, chunks are already small enough."""

    side: Side
    chunk: bytes
    end_of_stream: bool = False


class AnswerTrailers(msgspec.Struct, frozen=True):
    side: Side


class Immediate(msgspec.Struct, frozen=True):
    """A local answer in place of the upstream's (ImmediateResponse)."""

    status: int
    headers: Headers
    body: bytes
    details: str = ""


class Close(msgspec.Struct, frozen=True):
    """End the gRPC stream with status OK; nothing is sent after it."""


class Warn(msgspec.Struct, frozen=True):
    """Something the operator has to mend; ``setting`` names it.  Logged once per setting by the driver."""

    setting: str
    text: str


class Request(msgspec.Struct, frozen=True):
    """A whole request, ready to be decided on."""

    headers: Headers
    body: bytes
    opening: Opening


class Response(msgspec.Struct, frozen=True):
    """One answer to be decided on: a whole JSON body, or the data of one server-sent event."""

    status: int
    headers: Headers
    body: bytes
    plan: ResponsePlan
    event: bool


class Decide(msgspec.Struct, frozen=True):
    message: Request | Response


class Observe(msgspec.Struct, frozen=True):
    """The head of the response to a forwarded request with a plan; nothing is waited for."""

    plan: ResponsePlan
    status: int


Command: TypeAlias = (
    AnswerHeaders | AnswerBody | StreamBody | AnswerTrailers | Immediate | Close | Warn | Decide | Observe
)

# Decisions ------------------------------------------------------------------------------------------------


class ResponsePlan(Protocol):
    """What a forwarded request wants from its response; the exchange asks, the rewriter knows."""

    @property
    def live(self) -> bool:
        """Whether the response must flow while it is read: then it is not read where it would be buffered."""

    @property
    def gives_up(self) -> int | None:
        """Bytes of a JSON body after which it is let go unread; None reads up to the limit or fails."""

    @property
    def repeatable(self) -> bool:
        """Whether the forwarded request only reads, so that no harm is done when it is sent once more."""

    def instead(self, status: int) -> bytes | None:
        """A JSON answer, status 200, in place of a response with this status; None lets it come."""

    def reads(self, status: int, media_type: str) -> bool:
        """Whether the body of a response with this head is to be read."""

    def wants(self, data: bytes) -> bool:
        """Whether this event's data is to be decided on (events only; a JSON body always is)."""

    def failure(self) -> bytes:
        """What stands in for an answer that should have been read and cannot be."""


class PassThrough(msgspec.Struct, frozen=True):
    """Nothing is touched and the response is of no interest."""


class Forward(msgspec.Struct, frozen=True):
    """Send the request on: ``body`` None keeps it.  ``plan`` None means the response is of no interest."""

    body: bytes | None = None
    set: Headers = ()
    remove: tuple[str, ...] = ()
    plan: ResponsePlan | None = None


class Reply(msgspec.Struct, frozen=True):
    """A local answer: ``application/json``, any status."""

    body: bytes
    status: int = 200
    headers: Headers = ()


class Keep(msgspec.Struct, frozen=True):
    """The response (or event) goes on as it came."""


class Replace(msgspec.Struct, frozen=True):
    """The response body (or the event's data) becomes ``body``."""

    body: bytes


RequestDecision: TypeAlias = PassThrough | Forward | Reply
ResponseDecision: TypeAlias = Keep | Replace
Decision: TypeAlias = RequestDecision | ResponseDecision
