"""The exchange alone, with decisions made by the test, over every gateway configuration."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from extproc.exchange.machine import Exchange
from extproc.exchange.messages import (
    AnswerBody,
    AnswerHeaders,
    BodyArrived,
    BodyMode,
    Decision,
    Dialect,
    Forward,
    HeadersArrived,
    Keep,
    Opening,
    PassThrough,
    Replace,
    Reply,
    Request,
    Response,
    Side,
)
from extproc.settings import Settings
from tests.gateway.core import Core
from tests.gateway.peer import Gateway
from tests.gateway.rules import AGENTGATEWAY
from tests.gateway.variants import VARIANTS, Variant
from tests.gateway.wire import HttpRequest, HttpResponse

every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)

BODY = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"grüße"}}'.encode()
ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"text":"✓ fine"}}'.encode()
EVENTS = (
    b"id: 7\nretry: 10\ndata:\n\n",
    b": keep-alive\n\n",
    b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n',
    b"id: 8\ndata: " + ANSWER + b"\r\n\r\n",
)


@dataclass(frozen=True)
class Plan:
    """Reads 200 answers and wants events that carry a result."""

    @property
    def live(self) -> bool:
        return False

    @property
    def gives_up(self) -> int | None:
        return None

    @property
    def repeatable(self) -> bool:
        return False

    def instead(self, status: int) -> bytes | None:
        return None

    def reads(self, status: int, media_type: str) -> bool:
        return status == 200 and media_type in ("application/json", "text/event-stream")

    def wants(self, data: bytes) -> bool:
        return b'"result"' in data

    def failure(self) -> bytes:
        return b'{"failed":true}'


class PatientPlan(Plan):
    """Lets answers above a hundred bytes go unread."""

    @property
    def gives_up(self) -> int | None:
        return 100


class Script:
    """Decides in order; an exception in the list is raised."""

    def __init__(self, *decisions: Decision | Exception) -> None:
        self._left = list(decisions)

    async def __call__(self, message: Request | Response) -> Decision:
        decision = self._left.pop(0)
        if isinstance(decision, Exception):
            raise decision
        return decision


def request(
    variant: Variant, method: str = "POST", body: bytes = BODY, *more: tuple[str, str]
) -> HttpRequest:
    length = () if variant.trailers else (("content-length", str(len(body))),)
    headers = (("host", "a.test"), ("content-type", "application/json"), ("accept-encoding", "gzip"))
    return HttpRequest(method, "/mcp", (*headers, *length, *more), body, variant.trailers if body else ())


class Server:
    """Answers with given chunks and keeps what it was asked."""

    def __init__(self, variant: Variant, chunks: Sequence[bytes], media: str, *more: tuple[str, str]) -> None:
        length = ("content-length", str(sum(map(len, chunks))))
        framing = () if media == "text/event-stream" or variant.trailers else (length,)
        self._response = HttpResponse(
            200, (("content-type", media), *framing, *more), tuple(chunks), variant.trailers
        )

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._response


def json_server(variant: Variant, body: bytes = ANSWER, *more: tuple[str, str]) -> Server:
    return Server(variant, (body,), "application/json", *more)


def sse_server(variant: Variant) -> Server:
    return Server(variant, EVENTS, "text/event-stream")


@every_variant
async def test_pass_through_touches_nothing(variant: Variant) -> None:
    core = Core(Script(PassThrough()), variant.server)
    sent = request(variant)
    outcome = await Gateway(variant.config, core, sse_server(variant)).send(sent)
    assert outcome.upstream is not None
    assert (outcome.upstream.body, outcome.upstream.trailers) == (BODY, variant.trailers)
    assert outcome.upstream.header("accept-encoding") == "gzip"
    assert (outcome.client.body, outcome.client.trailers) == (b"".join(EVENTS), variant.trailers)
    assert outcome.dropped == ()
    assert (core.errors, core.warnings) == ([], [])


@every_variant
async def test_a_streamed_answer_is_never_held_back(variant: Variant) -> None:
    if not variant.duplex and variant.config.response_body.name == "BUFFERED":
        pytest.skip("a statically buffered response is held by the gateway")
    core = Core(Script(Forward(BODY + b" ")), variant.server)
    config = variant.config.named(response_chunks=None)
    outcome = await Gateway(config, core, sse_server(variant)).send(request(variant))
    assert outcome.deliveries == tuple(enumerate(EVENTS, 1))


@every_variant
@pytest.mark.parametrize("body", [b"{}", BODY * 3, b"x" * 130_000], ids=["short", "long", "large"])
async def test_forwarding_replaces_body_headers_and_length(variant: Variant, body: bytes) -> None:
    if body[:1] == b"x" and "bytes" in variant.name:
        pytest.skip("nothing new in single bytes")
    decision = Forward(body, (("mcp-name", "real"),), ("mcp-param-a", "digest"))
    core = Core(Script(decision), variant.server)
    sent = request(variant, "POST", BODY, ("mcp-name", "a"), ("mcp-param-a", "1"), ("digest", "z"))
    outcome = await Gateway(variant.config, core, json_server(variant)).send(sent)
    up = outcome.upstream
    assert up is not None
    assert up.body == body
    assert (up.values("mcp-name"), up.values("mcp-param-a"), up.values("digest")) == (["real"], [], [])
    assert up.header("content-length") in (None, str(len(body)))
    assert up.trailers == variant.trailers
    assert outcome.client.body == ANSWER
    assert outcome.dropped == ()


@every_variant
async def test_a_reply_never_reaches_the_upstream(variant: Variant) -> None:
    reply = Reply(b'{"a":"\xc3\xa9"}', 400, (("x-why", "1"),))
    outcome = await Gateway(variant.config, Core(Script(reply), variant.server), json_server(variant)).send(
        request(variant)
    )
    assert (outcome.local, outcome.upstream) == (True, None)
    assert (outcome.client.status, outcome.client.body) == (400, b'{"a":"\xc3\xa9"}')
    assert outcome.client.header("content-type") == "application/json"
    assert outcome.client.header("x-why") == "1"


@every_variant
@pytest.mark.parametrize("new", [b"{}", b'{"r":"' + b"y" * 130_000 + b'"}'], ids=["short", "large"])
async def test_a_json_answer_is_replaced(variant: Variant, new: bytes) -> None:
    core = Core(Script(Forward(plan=Plan()), Replace(new)), variant.server)
    server = json_server(variant, ANSWER, ("etag", '"1"'))
    outcome = await Gateway(variant.config, core, server).send(request(variant))
    assert outcome.upstream is not None
    assert outcome.upstream.header("accept-encoding") is None
    assert outcome.client.body == new
    assert outcome.client.header("etag") is None
    assert outcome.client.header("content-length") in (None, str(len(new)))
    assert outcome.client.trailers == variant.trailers
    assert isinstance(core.asked[1], Response)
    assert (core.asked[1].body, core.asked[1].event) == (ANSWER, False)
    assert outcome.dropped == ()


@every_variant
async def test_a_kept_answer_is_the_same(variant: Variant) -> None:
    core = Core(Script(Forward(plan=Plan()), Keep()), variant.server)
    outcome = await Gateway(variant.config, core, json_server(variant)).send(request(variant))
    assert outcome.client.body == ANSWER


@every_variant
async def test_an_answer_announced_as_too_long_to_read_does_not_come_here(variant: Variant) -> None:
    body = b'{"r":"' + b"y" * 300 + b'"}'
    core = Core(Script(Forward(plan=PatientPlan())), variant.server)
    server = json_server(variant, body, ("etag", '"1"'))
    outcome = await Gateway(variant.config, core, server).send(request(variant))
    assert outcome.client.body == body
    # An answer that is read loses its etag, whether it changes in the end or not.
    assert outcome.client.header("etag") == (None if variant.trailers else '"1"')
    assert len(core.asked) == 1


@every_variant
async def test_one_event_is_replaced_and_its_neighbours_stay(variant: Variant) -> None:
    core = Core(Script(Forward(plan=Plan()), Replace(b"{}")), variant.server)
    outcome = await Gateway(variant.config, core, sse_server(variant)).send(request(variant))
    assert outcome.client.body.startswith(b"".join(EVENTS[:3]))
    assert outcome.client.body[len(b"".join(EVENTS[:3])) :].split() == [b"id:", b"8", b"data:", b"{}"]
    assert [m.event for m in core.asked if isinstance(m, Response)] == [True]
    assert outcome.client.trailers == variant.trailers


@every_variant
async def test_a_compressed_answer_is_decoded(variant: Variant) -> None:
    core = Core(Script(Forward(plan=Plan()), Replace(b"{}")), variant.server)
    server = json_server(variant, gzip.compress(ANSWER), ("content-encoding", "gzip"))
    outcome = await Gateway(variant.config, core, server).send(request(variant))
    assert isinstance(core.asked[1], Response)
    assert core.asked[1].body == ANSWER
    assert (outcome.client.body, outcome.client.header("content-encoding")) == (b"{}", None)


@every_variant
async def test_an_unknown_encoding_passes_untouched_and_is_told(variant: Variant) -> None:
    core = Core(Script(Forward(plan=Plan())), variant.server)
    server = json_server(variant, b"\x00\x01", ("content-encoding", "zz"))
    outcome = await Gateway(variant.config, core, server).send(request(variant))
    assert (outcome.client.body, outcome.client.header("content-encoding")) == (b"\x00\x01", "zz")
    assert [warning.setting for warning in core.warnings] == ["content-encoding"]


@every_variant
@pytest.mark.parametrize("sse", [False, True], ids=["json", "sse"])
async def test_trouble_while_reading_never_leaks_the_answer(variant: Variant, sse: bool) -> None:
    core = Core(Script(Forward(plan=Plan()), RuntimeError("planted")), variant.server)
    server = sse_server(variant) if sse else json_server(variant)
    outcome = await Gateway(variant.config, core, server).send(request(variant))
    assert "✓ fine".encode() not in outcome.client.body
    assert b'{"failed":true}' in outcome.client.body
    assert len(core.errors) == 1


@every_variant
async def test_trouble_while_deciding_is_an_answer(variant: Variant) -> None:
    core = Core(Script(RuntimeError("planted")), variant.server)
    outcome = await Gateway(variant.config, core, json_server(variant)).send(request(variant))
    assert (outcome.client.status, outcome.upstream) == (500, None)
    assert b"-32603" in outcome.client.body
    assert b"planted" not in outcome.client.body


@every_variant
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_other_verbs_with_a_message_are_read(variant: Variant, method: str) -> None:
    core = Core(Script(PassThrough()), variant.server)
    await Gateway(variant.config, core, json_server(variant)).send(request(variant, method))
    assert [type(message) for message in core.asked] == [Request]


@every_variant
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "HEAD"])
async def test_other_verbs_pass(variant: Variant, method: str) -> None:
    core = Core(Script(PassThrough()), variant.server)
    outcome = await Gateway(variant.config, core, sse_server(variant)).send(request(variant, method, b""))
    assert outcome.client.body == b"".join(EVENTS)
    assert outcome.upstream is not None
    assert outcome.upstream.method == method


@every_variant
@pytest.mark.parametrize(
    "media_type",
    [
        "application/grpc",
        "application/grpc-web, application/json",
        "application/octet-stream",
        "multipart/form-data; boundary=x",
        "text/plain",
    ],
)
async def test_a_body_is_read_under_any_name(variant: Variant, media_type: str) -> None:
    core = Core(Script(PassThrough()), variant.server)
    sent = request(variant)
    upload = HttpRequest("POST", "/up", (("content-type", media_type),), sent.body, sent.trailers)
    outcome = await Gateway(variant.config, core, json_server(variant)).send(upload)
    assert outcome.upstream is not None
    assert outcome.upstream.body == BODY
    assert [type(message) for message in core.asked].count(Request) == 1


@every_variant
async def test_a_dead_upstream_is_the_gateways_answer(variant: Variant) -> None:
    def dead(request: HttpRequest) -> HttpResponse:
        raise ConnectionError

    core = Core(Script(Forward(plan=Plan())), variant.server)
    outcome = await Gateway(variant.config, core, dead).send(request(variant))
    assert (outcome.client.status, outcome.client.body) == (503, b"upstream connect error")


@every_variant
async def test_a_request_over_the_gateways_buffer_is_the_gateways_answer(variant: Variant) -> None:
    if variant.duplex:
        pytest.skip("no gateway buffer is involved")
    core = Core(Script(), variant.server)
    config = variant.config.named(buffer_limit=10)
    outcome = await Gateway(config, core, json_server(variant)).send(request(variant))
    assert outcome.client.status == (500 if config.dialect is AGENTGATEWAY else 413)


@every_variant
async def test_a_rewritten_call_costs_the_fewest_messages(variant: Variant) -> None:
    core = Core(Script(Forward(BODY + b" ")), variant.server)
    outcome = await Gateway(variant.config, core, sse_server(variant)).send(request(variant))
    closes = not variant.duplex and variant.config.dialect is not AGENTGATEWAY
    if closes and variant.server.early_close == "auto":
        assert outcome.told(Side.RESPONSE) == 0
    else:
        assert outcome.told(Side.RESPONSE) >= 1


class HarmlessPlan(Plan):
    @property
    def repeatable(self) -> bool:
        return True


@pytest.mark.parametrize("mode", [BodyMode.BUFFERED, BodyMode.FULL_DUPLEX])
@pytest.mark.parametrize(
    ("plan", "dialect", "said"),
    [
        (HarmlessPlan(), Dialect.ENVOY, True),
        (HarmlessPlan(), Dialect.AGENTGATEWAY, False),
        (Plan(), Dialect.ENVOY, False),
        (None, Dialect.ENVOY, False),
    ],
)
def test_envoy_is_told_what_may_be_sent_twice(
    plan: Plan | None, dialect: Dialect, said: bool, mode: BodyMode
) -> None:
    exchange = Exchange(Opening(mode, mode, dialect), Settings().server, Settings().limits)
    head = ((":method", "POST"), ("content-type", "application/json"))
    exchange.receive(HeadersArrived(Side.REQUEST, head))
    exchange.receive(BodyArrived(Side.REQUEST, BODY, True))
    told = [
        command.repeatable
        for command in exchange.resume(Forward(BODY + b" ", plan=plan))
        if isinstance(command, AnswerBody | AnswerHeaders)
    ]
    assert told == [said]


def test_a_part_that_stays_as_it_is_goes_back_without_its_bytes() -> None:
    exchange = Exchange(Opening(), Settings().server, Settings().limits)
    head = ((":method", "POST"), ("content-type", "application/json"))
    exchange.receive(HeadersArrived(Side.REQUEST, head))
    exchange.receive(BodyArrived(Side.REQUEST, BODY, True))
    exchange.resume(Forward(plan=Plan()))
    exchange.receive(
        HeadersArrived(Side.RESPONSE, ((":status", "200"), ("content-type", "text/event-stream")))
    )
    assert exchange.receive(BodyArrived(Side.RESPONSE, EVENTS[1])) == [AnswerBody(Side.RESPONSE)]
    half = EVENTS[3][:20]
    assert exchange.receive(BodyArrived(Side.RESPONSE, half)) == [AnswerBody(Side.RESPONSE, b"")]
    exchange.receive(BodyArrived(Side.RESPONSE, EVENTS[3][20:]))
    assert exchange.resume(Keep()) == [AnswerBody(Side.RESPONSE, EVENTS[3])]
