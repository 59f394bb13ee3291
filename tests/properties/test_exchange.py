"""Whatever the bytes, their borders and the decisions: one answer or one pass-through, no exception."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extproc.exchange.messages import (
    Decision,
    Forward,
    Keep,
    PassThrough,
    Replace,
    Reply,
    Request,
    Response,
)
from tests.gateway.chunking import sized
from tests.gateway.config import Outcome
from tests.gateway.core import Core
from tests.gateway.peer import Gateway
from tests.gateway.variants import VARIANTS, Variant
from tests.gateway.wire import HttpRequest, HttpResponse


@dataclass(frozen=True)
class Plan:
    eager: bool

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
        return self.eager or status == 200

    def wants(self, data: bytes) -> bool:
        return self.eager or b"e" in data

    def failure(self) -> bytes:
        return b'{"failed":true}'


bodies = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"", b"{}", b"[]", b'{"a":1}', b"data: {}\n\n", b"data: e\r\n\r\nid: 1\ndata:", b"\xef\xbb\xbf{"]
    ),
)
media = st.sampled_from(
    ["application/json", "text/event-stream", "text/plain", "", "application/octet-stream"]
)
encodings = st.sampled_from([None, "gzip", "br", "identity", "zstd", "gzip, br", "x"])
request_decisions = st.one_of(
    st.just(PassThrough()),
    st.builds(Reply, st.text(max_size=9).map(str.encode), st.integers(200, 599)),
    st.builds(
        Forward,
        st.none() | bodies,
        st.just((("mcp-name", "n"),)),
        st.just(("etag",)),
        st.none() | st.builds(Plan, st.booleans()),
    ),
)
response_decisions = st.just(Keep()) | st.builds(Replace, bodies)


@dataclass(frozen=True)
class Case:
    variant: Variant
    method: str
    body: bytes
    request_size: int
    request_media: str
    response: HttpResponse
    response_size: int
    first: Decision | None
    rest: Decision | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    variant = draw(st.sampled_from(list(VARIANTS.values())))
    answer = draw(bodies)
    headers = [("content-type", draw(media))]
    encoding = draw(encodings)
    if encoding:
        headers.append(("content-encoding", encoding))
    if draw(st.booleans()) and not variant.trailers:
        headers.append(("content-length", str(len(answer))))
    body, first = draw(bodies), draw(st.none() | request_decisions)
    if isinstance(first, Forward) and not body:
        first = replace(first, body=None)  # where there is no body there is no message to replace
    status = draw(st.sampled_from([200, 202, 204, 400, 404, 500]))
    response = HttpResponse(status, tuple(headers), (answer,) if answer else (), variant.trailers)
    return Case(
        variant,
        draw(st.sampled_from(["POST", "POST", "POST", "GET", "DELETE", "PUT"])),
        body,
        draw(st.integers(1, 20)),
        draw(media),
        response,
        draw(st.integers(1, 20)),
        first,
        draw(st.none() | response_decisions),
    )


async def play(case: Case) -> tuple[Outcome, Core, int]:
    calls = 0

    async def decide(message: Request | Response) -> Decision:
        decision = case.first if isinstance(message, Request) else case.rest
        if decision is None:
            raise RuntimeError("planted")
        return decision

    def upstream(request: HttpRequest) -> HttpResponse:
        nonlocal calls
        calls += 1
        return case.response

    core = Core(decide, case.variant.server)
    config = case.variant.config.named(
        request_chunks=sized(case.request_size), response_chunks=sized(case.response_size)
    )
    trailers = case.variant.trailers if case.body else ()
    request = HttpRequest(case.method, "/mcp", (("content-type", case.request_media),), case.body, trailers)
    return await Gateway(config, core, upstream).send(request), core, calls


@settings(max_examples=600, deadline=None)
@given(cases())
def test_one_answer_or_one_pass_through(case: Case) -> None:
    outcome, core, calls = asyncio.run(play(case))
    assert outcome.dropped == ()
    assert calls == (0 if outcome.local else 1)
    if case.first == PassThrough() or not core.asked:
        assert outcome.upstream is not None
        assert outcome.upstream.body == case.body
        assert outcome.client.body == case.response.body
    if isinstance(case.first, Reply) and core.asked:
        assert (outcome.client.status, outcome.client.body) == (case.first.status, case.first.body)
    if case.first is None and core.asked:
        assert outcome.client.status == 500
