"""A gateway's configuration, the processor's end of the stream, and what one exchange came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from extproc.exchange.messages import BodyMode, Dialect, Event, Opening, Side

from .chunking import Chunker, whole
from .wire import Answer, HttpRequest, HttpResponse


class Stream(Protocol):
    """The processor's end of one gRPC stream."""

    async def receive(self, event: Event) -> Sequence[Answer]:
        """Everything the processor sends before it waits for the next message."""

    async def end(self) -> None:
        """The gateway ends its side."""


Open: TypeAlias = Callable[[Opening], Stream]
Upstream: TypeAlias = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True, slots=True)
class Config:
    """A gateway's ext_proc configuration and its habits."""

    dialect: Dialect = Dialect.ENVOY
    request_headers: bool = True
    request_body: BodyMode = BodyMode.BUFFERED
    response_headers: bool = True
    response_body: BodyMode = BodyMode.NONE
    request_trailers: bool = False
    response_trailers: bool = False
    allow_mode_override: bool = True
    buffer_limit: int = 1 << 20
    """Bytes; beyond it a buffered request is a 413 (agentgateway: 500), a buffered response a 500."""
    request_chunks: Chunker = whole
    response_chunks: Chunker | None = None
    """None keeps the upstream's own chunks."""
    empty_end: bool = False
    """The end of a body is told in an empty message of its own."""
    trailers_end: bool = False
    """With trailers to come a buffered body does not say end_of_stream."""
    request_attributes: tuple[str, ...] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    """Attributes the gateway itself computes, for example from a verified token."""
    strip: tuple[str, ...] = ()
    """Request headers a policy removes before the processor sees them (agentgateway: ``authorization``)."""
    profile: str = ""

    def named(self, **changes: object) -> Config:
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What either end saw.  ``local`` is true when the processor answered in the upstream's place."""

    client: HttpResponse
    upstream: HttpRequest | None
    local: bool
    dropped: tuple[str, ...]
    events: tuple[Event, ...]
    answers: tuple[Answer, ...]
    deliveries: tuple[tuple[int, bytes], ...]
    """Pieces of the response, each with how many upstream chunks had been read when it left."""

    def told(self, side: Side) -> int:
        """Messages the processor was sent about one side."""
        return sum(event.side is side for event in self.events)
