"""Which event is welcome in which phase of an exchange, and what it leads to: data, read by the machine."""

from __future__ import annotations

from enum import StrEnum, auto

from extproc.exchange.messages import BodyArrived, Event, HeadersArrived, Side, TrailersArrived, Word


class Phase(Word):
    START = auto()
    COLLECTING = auto()
    DECIDING_REQUEST = auto()
    FORWARDED = auto()
    READING = auto()
    DECIDING_RESPONSE = auto()
    PASSING = auto()
    CLOSED = auto()


class Kind(Word):
    REQUEST_HEADERS = auto()
    REQUEST_BODY = auto()
    REQUEST_TRAILERS = auto()
    RESPONSE_HEADERS = auto()
    RESPONSE_BODY = auto()
    RESPONSE_TRAILERS = auto()


class Step(StrEnum):
    """What the machine does with an event; each is a method of the exchange."""

    REQUEST_HEADERS = "request_headers"
    REQUEST_BODY = "request_body"
    REQUEST_TRAILERS = "request_trailers"
    HEADERS_SKIPPED = "headers_skipped"
    LOCAL_REPLY = "local_reply"
    RESPONSE_HEADERS = "response_headers"
    RESPONSE_BODY = "response_body"
    RESPONSE_TRAILERS = "response_trailers"
    BODY_WITHOUT_HEADERS = "body_without_headers"
    PASS = "pass"
    OUT_OF_ORDER = "out_of_order"


TRANSITIONS: dict[tuple[Phase, Kind], Step] = {
    (Phase.START, Kind.REQUEST_HEADERS): Step.REQUEST_HEADERS,
    (Phase.START, Kind.REQUEST_BODY): Step.HEADERS_SKIPPED,
    # The gateway's own answers (401, 413, 503) come without the phases before them.
    (Phase.START, Kind.RESPONSE_HEADERS): Step.LOCAL_REPLY,
    (Phase.COLLECTING, Kind.REQUEST_BODY): Step.REQUEST_BODY,
    (Phase.COLLECTING, Kind.REQUEST_TRAILERS): Step.REQUEST_TRAILERS,
    (Phase.COLLECTING, Kind.RESPONSE_HEADERS): Step.LOCAL_REPLY,
    (Phase.FORWARDED, Kind.REQUEST_TRAILERS): Step.PASS,
    (Phase.FORWARDED, Kind.RESPONSE_HEADERS): Step.RESPONSE_HEADERS,
    (Phase.FORWARDED, Kind.RESPONSE_BODY): Step.BODY_WITHOUT_HEADERS,
    (Phase.READING, Kind.REQUEST_TRAILERS): Step.PASS,
    (Phase.READING, Kind.RESPONSE_BODY): Step.RESPONSE_BODY,
    (Phase.READING, Kind.RESPONSE_TRAILERS): Step.RESPONSE_TRAILERS,
    (Phase.PASSING, Kind.REQUEST_BODY): Step.PASS,
    (Phase.PASSING, Kind.REQUEST_TRAILERS): Step.PASS,
    (Phase.PASSING, Kind.RESPONSE_HEADERS): Step.PASS,
    (Phase.PASSING, Kind.RESPONSE_BODY): Step.PASS,
    (Phase.PASSING, Kind.RESPONSE_TRAILERS): Step.PASS,
}

_KINDS: dict[tuple[type, Side], Kind] = {
    (HeadersArrived, Side.REQUEST): Kind.REQUEST_HEADERS,
    (BodyArrived, Side.REQUEST): Kind.REQUEST_BODY,
    (TrailersArrived, Side.REQUEST): Kind.REQUEST_TRAILERS,
    (HeadersArrived, Side.RESPONSE): Kind.RESPONSE_HEADERS,
    (BodyArrived, Side.RESPONSE): Kind.RESPONSE_BODY,
    (TrailersArrived, Side.RESPONSE): Kind.RESPONSE_TRAILERS,
}


_STEPS = {
    (phase, *event): step
    for (phase, kind), step in TRANSITIONS.items()
    for event, its in _KINDS.items()
    if its is kind
}


def step(phase: Phase, event: Event) -> Step:
    """What ``event`` leads to in ``phase``."""
    return _STEPS.get((phase, type(event), event.side), Step.OUT_OF_ORDER)
