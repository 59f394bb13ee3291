"""What the peer does when nobody makes a mistake."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from extproc.exchange.messages import BodyArrived, BodyMode, Event, HeadersArrived, ModeOverride, Side

from .chunking import odd, one_byte, whole
from .config import Config
from .faults import BUFFERED, DUPLEX, body, head
from .peer import Gateway
from .rules import AGENTGATEWAY, ENVOY
from .scripted import Script, Scripted
from .wire import (
    Answer,
    BodyAnswer,
    Cleared,
    Closed,
    HeadersAnswer,
    HttpRequest,
    HttpResponse,
    ImmediateAnswer,
    Mutation,
    Setting,
    Streamed,
    Whole,
)

REQ, RES = Side.REQUEST, Side.RESPONSE
POST = HttpRequest("POST", "/mcp", (("content-length", "5"), ("x-a", "1")), b"hello")
GET = HttpRequest("GET", "/mcp", (("accept", "text/event-stream"),))


def obedient(event: Event) -> Sequence[Answer] | None:
    return None


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, (("x-path", request.path),), (request.body, b"!"), request.trailers)


CONFIGS = {
    f"{dialect.name.lower()}-{name}": config.named(dialect=dialect)
    for dialect in (ENVOY, AGENTGATEWAY)
    for name, config in {
        "buffered": BUFFERED,
        "both-buffered": BUFFERED.named(response_body=BodyMode.BUFFERED),
        "headers-only": BUFFERED.named(request_body=BodyMode.NONE),
        "partial": BUFFERED.named(request_body=BodyMode.BUFFERED_PARTIAL, buffer_limit=2),
        "duplex-whole": DUPLEX.named(request_chunks=whole),
        "duplex-bytes": DUPLEX.named(request_chunks=one_byte, response_chunks=one_byte, empty_end=True),
        "duplex-odd": DUPLEX.named(request_chunks=odd, response_chunks=odd),
    }.items()
}
CONFIGS["agentgateway-two-messages"] = BUFFERED.named(dialect=AGENTGATEWAY, empty_end=True)
CONFIGS["envoy-streamed"] = BUFFERED.named(response_body=BodyMode.STREAMED, response_chunks=one_byte)


def wait_for_end(event: Event) -> Sequence[Answer] | None:
    return () if event == BodyArrived(REQ, POST.body, False) else None


@pytest.mark.parametrize("trailers", [(), (("x-sum", "9"),)], ids=["plain", "trailers"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
async def test_an_obedient_processor_changes_nothing(
    config: Config, trailers: tuple[tuple[str, str], ...]
) -> None:
    request = HttpRequest("POST", "/mcp", POST.headers, POST.body, trailers)
    script = wait_for_end if config.empty_end and config.request_body is BodyMode.BUFFERED else obedient
    outcome = await Gateway(config, Scripted(script), echo).send(request)
    assert outcome.upstream is not None
    assert (outcome.upstream.headers, outcome.upstream.body) == (POST.headers, POST.body)
    assert (outcome.client.body, outcome.client.trailers) == (b"hello!", trailers)
    assert outcome.dropped == ()


async def test_a_get_says_end_of_stream_in_its_headers() -> None:
    outcome = await Gateway(BUFFERED, Scripted(obedient), echo).send(GET)
    assert isinstance(outcome.events[0], HeadersArrived)
    assert outcome.events[0].end_of_stream
    assert outcome.told(REQ) == 1


async def test_phases_that_are_skipped_are_not_sent() -> None:
    config = BUFFERED.named(request_headers=False, response_headers=False)
    outcome = await Gateway(config, Scripted(obedient), echo).send(POST)
    assert [type(event) for event in outcome.events] == [BodyArrived]


async def test_header_mutation_removes_first_then_sets() -> None:
    mutation = Mutation(
        (
            Setting("x-a", "2"),
            Setting("x-b", "1", "append"),
            Setting("x-b", "2", "append"),
            Setting("x-b", "3", "add-if-absent"),
            Setting("x-c", "1", "overwrite-if-exists"),
        ),
        ("x-a",),
    )
    outcome = await Gateway(BUFFERED, Scripted(head(HeadersAnswer(REQ, mutation))), echo).send(POST)
    assert outcome.upstream is not None
    assert outcome.upstream.values("x-a") == ["2"]
    assert outcome.upstream.values("x-b") == ["1", "2"]
    assert outcome.upstream.header("x-c") is None


async def test_a_buffered_body_is_replaced_with_its_length() -> None:
    change = BodyAnswer(REQ, Whole(b"new"), Mutation((Setting("content-length", "3"),)))
    outcome = await Gateway(BUFFERED, Scripted(body(change)), echo).send(POST)
    assert outcome.client.body == b"new!"


async def test_a_buffered_body_is_cleared() -> None:
    change = BodyAnswer(REQ, Cleared(), Mutation((), ("content-length",)))
    outcome = await Gateway(BUFFERED, Scripted(body(change)), echo).send(POST)
    assert outcome.client.body == b"!"


async def test_agentgateway_takes_a_streamed_answer_in_buffered_and_drops_the_length() -> None:
    config = BUFFERED.named(dialect=AGENTGATEWAY)
    outcome = await Gateway(config, Scripted(body(BodyAnswer(REQ, Streamed(b"new", True)))), echo).send(POST)
    assert outcome.upstream is not None
    assert outcome.upstream.header("content-length") is None
    assert outcome.client.body == b"new!"


async def test_a_partial_mutation_replaces_the_first_part_only() -> None:
    config = CONFIGS["envoy-partial"]
    request = HttpRequest("POST", "/mcp", (), b"hello")
    outcome = await Gateway(config, Scripted(body(BodyAnswer(REQ, Whole(b"J")))), echo).send(request)
    assert outcome.client.body == b"Jllo!"
    assert BodyArrived(REQ, b"he", False) in outcome.events


@pytest.mark.parametrize(("dialect", "status", "told"), [(ENVOY, 413, 1), (AGENTGATEWAY, 500, 0)])
async def test_a_request_over_the_buffer_limit(dialect: object, status: int, told: int) -> None:
    config = BUFFERED.named(dialect=dialect, buffer_limit=4)
    outcome = await Gateway(config, Scripted(obedient), echo).send(POST)
    assert outcome.client.status == status
    assert outcome.upstream is None
    assert outcome.told(RES) == told


async def test_a_response_over_the_buffer_limit() -> None:
    config = BUFFERED.named(response_body=BodyMode.BUFFERED, buffer_limit=5)
    outcome = await Gateway(config, Scripted(obedient), echo).send(POST)
    assert (outcome.client.status, outcome.client.body) == (500, b"too large")


@pytest.mark.parametrize(("dialect", "told"), [(ENVOY, 1), (AGENTGATEWAY, 0)])
async def test_a_dead_upstream_is_a_local_reply(dialect: object, told: int) -> None:
    def dead(request: HttpRequest) -> HttpResponse:
        raise ConnectionError

    outcome = await Gateway(BUFFERED.named(dialect=dialect), Scripted(obedient), dead).send(POST)
    assert outcome.client.status == 503
    assert outcome.told(RES) == told


IMMEDIATE = ImmediateAnswer(403, (("x-why", "no"),), b"no")


@pytest.mark.parametrize(
    ("script", "config", "reached"),
    [
        (head(IMMEDIATE), BUFFERED, False),
        (body(IMMEDIATE), BUFFERED, False),
        (body(IMMEDIATE), DUPLEX, False),
        (head(IMMEDIATE, side=RES), BUFFERED, True),
        (body(IMMEDIATE, side=RES), BUFFERED.named(response_body=BodyMode.BUFFERED), True),
    ],
)
async def test_an_immediate_response_ends_the_exchange(script: Script, config: Config, reached: bool) -> None:
    outcome = await Gateway(config, Scripted(script), echo).send(POST)
    assert outcome.local
    assert (outcome.client.status, outcome.client.body) == (403, b"no")
    assert (outcome.upstream is not None) is reached


async def test_envoy_goes_on_alone_after_a_clean_close() -> None:
    outcome = await Gateway(BUFFERED, Scripted(body(BodyAnswer(REQ), Closed())), echo).send(POST)
    assert outcome.client.body == b"hello!"
    assert outcome.told(RES) == 0


async def test_agentgateway_allows_a_close_when_no_response_phase_is_due() -> None:
    config = BUFFERED.named(dialect=AGENTGATEWAY, response_headers=False)
    outcome = await Gateway(config, Scripted(body(BodyAnswer(REQ), Closed())), echo).send(POST)
    assert outcome.client.body == b"hello!"


async def test_a_mode_override_asks_for_the_response_body() -> None:
    override = HeadersAnswer(RES, mode=ModeOverride(BodyMode.BUFFERED, BodyMode.BUFFERED))
    outcome = await Gateway(BUFFERED, Scripted(head(override, side=RES)), echo).send(POST)
    assert outcome.events[-1] == BodyArrived(RES, b"hello!", True)


async def test_pieces_leave_as_soon_as_they_are_answered() -> None:
    outcome = await Gateway(DUPLEX, Scripted(obedient), echo).send(POST)
    assert outcome.deliveries == ((1, b"hello"), (2, b"!"))


async def test_the_gateway_strips_what_its_policies_consume_and_passes_attributes() -> None:
    config = BUFFERED.named(
        strip=("x-a",),
        identity={"sub": "ann"},
        request_attributes=("request.path", "request.headers['x-a']", "request.headers['content-length']"),
    )
    processor = Scripted(obedient)
    outcome = await Gateway(config, processor, echo).send(POST)
    assert outcome.upstream is not None
    assert outcome.upstream.header("x-a") is None
    assert processor._opening.attributes == {
        "sub": "ann",
        "request.path": "/mcp",
        "request.headers['content-length']": "5",
    }
