"""Messages in any order, decisions at any time: the exchange never raises and never speaks after its end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.exchange.machine import Exchange
from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Close,
    Command,
    Decide,
    Decision,
    Dialect,
    Event,
    Forward,
    Immediate,
    Keep,
    Opening,
    PassThrough,
    Replace,
    Reply,
    Request,
    Side,
    TrailersArrived,
    Warn,
)
from extproc.exchange.messages import HeadersArrived as Head
from extproc.settings import Limits, Server

from .test_exchange import Plan

sides = st.sampled_from(Side)
heads = st.lists(
    st.sampled_from(
        [
            (":method", "POST"),
            (":method", "GET"),
            (":status", "200"),
            (":status", "x"),
            ("content-type", "application/json"),
            ("content-type", "text/event-stream"),
            ("content-encoding", "gzip"),
        ]
    ),
    max_size=4,
).map(tuple)
chunks = st.sampled_from([b"", b"{}", b'{"a":', b"data: e\n\n", b"x" * 400])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Head, sides, heads, st.booleans()),
    st.builds(BodyArrived, sides, chunks, st.booleans()),
    st.builds(TrailersArrived, sides),
)
openings = st.builds(Opening, st.sampled_from(BodyMode), st.sampled_from(BodyMode), st.sampled_from(Dialect))
servers = st.builds(
    Server,
    early_close=st.sampled_from(["auto", "always", "never"]),
    response_mode=st.sampled_from(["auto", "buffered", "streamed"]),
)
request_decisions: st.SearchStrategy[Decision] = st.one_of(
    st.just(PassThrough()),
    st.builds(Reply, chunks),
    st.builds(Forward, st.none() | chunks, plan=st.none() | st.builds(Plan, st.booleans())),
)
response_decisions: st.SearchStrategy[Decision] = st.just(Keep()) | st.builds(Replace, chunks)
steps = st.lists(
    st.tuples(events, request_decisions, response_decisions, st.sampled_from("nnnnlf")), max_size=14
)


@settings(max_examples=500, deadline=None)
@given(openings, servers, steps, st.booleans())
def test_an_exchange_survives_any_peer(
    opening: Opening, server: Server, script: list[tuple[Event, Decision, Decision, str]], small: bool
) -> None:
    exchange = Exchange(opening, server, Limits(request_body=300, response_body=300) if small else Limits())
    waiting: list[Decide] = []
    closed = False

    def take(commands: list[Command]) -> None:
        nonlocal closed
        for command in commands:
            assert not closed or isinstance(command, Warn)
            closed = isinstance(command, Close)
            if isinstance(command, Decide):
                waiting.append(command)
            if isinstance(command, Immediate):
                assert isinstance(commands[commands.index(command) + 1], Close)
        assert len(waiting) <= 1

    for event, first, second, when in script:
        take(exchange.receive(event))
        if when == "f" and not closed:
            waiting.clear()
            take(exchange.fail())
        while waiting and when == "n":
            message = waiting.pop().message
            take(exchange.resume(first if isinstance(message, Request) else second))
    take(exchange.finish())
