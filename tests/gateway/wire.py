"""What crosses the two HTTP sides of the gateway, and what the processor says back.

``Answer`` is wider than the core's ``Command``: it can say everything a ``ProcessingResponse`` can say wrong,
so that a planted fault needs no loophole in the contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from extproc.exchange import messages as core
from extproc.exchange.messages import Headers, Side


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``headers`` without pseudo headers, names lower case."""

    method: str
    path: str
    headers: Headers
    body: bytes = b""
    trailers: Headers = ()

    def header(self, name: str) -> str | None:
        return first(self.headers, name)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """``chunks`` are the pieces as they arrive; their borders mean nothing to HTTP."""

    status: int
    headers: Headers = ()
    chunks: tuple[bytes, ...] = ()
    trailers: Headers = ()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def header(self, name: str) -> str | None:
        return first(self.headers, name)


def first(headers: Headers, name: str) -> str | None:
    """The first value of a header, None where there is none."""
    return next((value for key, value in headers if key == name), None)


# Answers --------------------------------------------------------------------------------------------------

AppendAction = Literal["overwrite", "append", "add-if-absent", "overwrite-if-exists"]


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str
    action: AppendAction = "overwrite"


@dataclass(frozen=True, slots=True)
class Mutation:
    """Removals happen before sets, whatever order the message had."""

    set: tuple[Setting, ...] = ()
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.remove)

    @classmethod
    def of(cls, headers: Headers = (), remove: Sequence[str] = ()) -> Mutation:
        return cls(tuple(Setting(*item) for item in headers), tuple(remove))


@dataclass(frozen=True, slots=True)
class Whole:
    """``body_mutation.body``"""

    data: bytes


@dataclass(frozen=True, slots=True)
class Cleared:
    """``body_mutation.clear_body``"""


@dataclass(frozen=True, slots=True)
class Streamed:
    """``body_mutation.streamed_response``"""

    data: bytes
    end_of_stream: bool = False


BodyMutation: TypeAlias = Whole | Cleared | Streamed | None


@dataclass(frozen=True, slots=True)
class HeadersAnswer:
    side: Side
    mutation: Mutation = field(default_factory=Mutation)
    mode: core.ModeOverride | None = None
    extras: frozenset[str] = frozenset()
    """Other fields set, by their protobuf names: ``clear_route_cache``, ``continue_and_replace``."""


@dataclass(frozen=True, slots=True)
class BodyAnswer:
    side: Side
    body: BodyMutation = None
    mutation: Mutation = field(default_factory=Mutation)
    mode: core.ModeOverride | None = None
    extras: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TrailersAnswer:
    side: Side
    mutation: Mutation = field(default_factory=Mutation)


@dataclass(frozen=True, slots=True)
class ImmediateAnswer:
    status: int
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Closed:
    """The processor ended the stream with status OK."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The processor ended the stream with an error."""


Answer: TypeAlias = HeadersAnswer | BodyAnswer | TrailersAnswer | ImmediateAnswer | Closed | Broken


def lift(command: core.Command) -> Iterator[Answer]:
    """The message a driver sends for a command; ``Warn`` and ``Observe`` send none.

    Raises ``TypeError`` for ``Decide``, which a driver resolves before anything is sent.
    """
    match command:
        case core.AnswerHeaders(side, set_, remove, mode):
            yield HeadersAnswer(side, Mutation.of(set_, remove), mode)
        case core.AnswerBody(side, body, set_, remove):
            change: BodyMutation = None if body is None else Whole(body) if body else Cleared()
            yield BodyAnswer(side, change, Mutation.of(set_, remove))
        case core.StreamBody(side, chunk, end_of_stream):
            yield BodyAnswer(side, Streamed(chunk, end_of_stream))
        case core.AnswerTrailers(side):
            yield TrailersAnswer(side)
        case core.Immediate(status, headers, body):
            yield ImmediateAnswer(status, headers, body)
        case core.Close():
            yield Closed()
        case core.Warn() | core.Observe():
            return
        case core.Decide():
            raise TypeError("a decision has to be made before anything is sent")
