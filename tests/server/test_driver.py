from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

from extproc.exchange.messages import AnswerHeaders, Forward, Observe, PassThrough, Reply, Side
from extproc.server.driver import MalformedMessage
from extproc.settings import Limits, Server, Settings
from extproc.telemetry import Metrics
from tests.server.stand_ins import (
    Decider,
    Plain,
    body,
    driver,
    feed,
    head,
    kinds,
    response_head,
    run,
    sample,
    warn,
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def outcome(metrics: Metrics, name: str, dialect: str = "envoy") -> float:
    return sample(metrics, "exchanges_total", dialect=dialect, outcome=name)


async def test_every_message_is_answered_in_order(metrics: Metrics) -> None:
    answers = await run(driver(Decider(), metrics), head(), body(), response_head())
    assert kinds(answers) == ["request_headers", "request_body", "response_headers"]
    assert outcome(metrics, "passed") == 1
    assert sample(metrics, "decisions_total", side="request", decision="pass_through") == 1
    assert sample(metrics, "decision_seconds_count", side="request") == 1


async def test_nothing_is_read_or_sent_after_close(metrics: Metrics) -> None:
    answers = await run(driver(Decider(Forward(b"new")), metrics), head(), body(), response_head())
    assert kinds(answers) == ["request_headers", "request_body"]
    assert answers[1].request_body.response.body_mutation.body == b"new"
    assert outcome(metrics, "forwarded") == 1


async def test_what_goes_on_as_it_came_has_passed(metrics: Metrics) -> None:
    answers = await run(driver(Decider(Forward()), metrics), head(), body())
    assert kinds(answers) == ["request_headers", "request_body"]
    assert not answers[1].request_body.response.HasField("body_mutation")
    assert outcome(metrics, "passed") == 1


async def test_a_reply_is_an_immediate_answer(metrics: Metrics) -> None:
    answers = await run(driver(Decider(Reply(b"{}", 200)), metrics), head(), body())
    assert kinds(answers) == ["request_headers", "immediate_response"]
    assert outcome(metrics, "replied") == 1


@pytest.mark.parametrize("place", ["receive", "resume"])
async def test_an_exchange_that_raises_still_answers(
    metrics: Metrics, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = await run(driver(Decider(), metrics, make=partial(Plain, raises_on=place)), head(), body())
    assert answers[-1].immediate_response.body == b"failed"
    assert outcome(metrics, "failed") == 1
    assert "secret-from-the-peer" not in str([vars(record) for record in caplog.records])
    assert "ValueError at server/stand_ins" in str([vars(record) for record in caplog.records])


async def test_a_processor_that_raises_still_answers(metrics: Metrics) -> None:
    answers = await run(driver(Decider(RuntimeError("boom")), metrics), head(), body())
    assert answers[-1].immediate_response.body == b"failed"
    assert outcome(metrics, "failed") == 1


async def test_a_timeout_inside_the_processor_is_a_failure_not_the_deadline(metrics: Metrics) -> None:
    await run(driver(Decider(TimeoutError()), metrics), head(), body())
    assert (outcome(metrics, "failed"), outcome(metrics, "late")) == (1, 0)


async def test_a_failure_to_fail_is_answered_too(metrics: Metrics) -> None:
    make = partial(Plain, raises_on="fail")
    answers = await run(driver(Decider(RuntimeError()), metrics, make=make), head(), body())
    assert answers[-1].immediate_response.status.code == 500
    assert outcome(metrics, "failed") == 1


async def test_an_exchange_that_cannot_be_made_is_answered(metrics: Metrics) -> None:
    def make(*_: object) -> Plain:
        raise LookupError

    answers = await run(driver(Decider(), metrics, make=make), head(), body())
    assert kinds(answers) == ["immediate_response"]


async def test_a_command_that_cannot_be_encoded_is_answered(metrics: Metrics) -> None:
    extra = (AnswerHeaders(Side.REQUEST, (("mcp-name", "工具"),)),)
    answers = await run(driver(Decider(), metrics, make=partial(Plain, extra=extra)), head(), body())
    assert kinds(answers) == ["immediate_response"]
    assert outcome(metrics, "failed") == 1


async def test_a_decision_nobody_knows_is_answered(metrics: Metrics) -> None:
    decider = Decider()
    decider.answer = object()  # type: ignore[assignment]
    answers = await run(driver(decider, metrics), head(), body())
    assert answers[-1].immediate_response.body == b"failed"


async def test_the_deadline_answers_and_cancels_the_decision(metrics: Metrics) -> None:
    decider = Decider(None)
    settings = Settings(server=Server(deadline=0.01))
    answers = await run(driver(decider, metrics, settings), head(), body())
    assert answers[-1].immediate_response.body == b"failed"
    assert decider.cancelled == 1
    assert outcome(metrics, "late") == 1


async def test_a_profile_has_its_own_deadline(metrics: Metrics) -> None:
    profiles = {"fast": Settings(server=Server(deadline=0.01))}
    answers = await run(driver(Decider(None), metrics, profiles=profiles), head(), body(), profile="fast")
    assert outcome(metrics, "late") == 1
    assert len(answers) == 2


async def test_the_opening_carries_the_profile(metrics: Metrics) -> None:
    decider = Decider()
    await run(driver(decider, metrics, profiles={"team": Settings()}), head(), body(), profile="team")
    (message,) = decider.asked
    assert message.opening.profile == "team"  # type: ignore[union-attr]


async def test_a_profile_nobody_configured_is_refused(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    shared = driver(Decider(), metrics, profiles={"team": Settings()})
    for _ in range(2):
        answers = await run(shared, head(), body(), profile="taem")
        assert kinds(answers) == ["immediate_response"]
        assert answers[0].immediate_response.status.code == 500
    assert sample(metrics, "refusals_total", reason="profile") == 2
    assert outcome(metrics, "refused") == 2
    assert len([record for record in caplog.records if "taem" in record.getMessage()]) == 1


async def test_a_malformed_message_ends_the_stream_with_an_error(metrics: Metrics) -> None:
    shared = driver(Decider(), metrics)
    with pytest.raises(MalformedMessage):
        await run(shared, b"\xff\xff")
    with pytest.raises(MalformedMessage):
        await run(shared, head(), b"")
    assert outcome(metrics, "malformed", "unknown") == 1
    assert outcome(metrics, "malformed") == 1
    assert shared.in_flight == 0


async def test_a_warning_is_counted_always_and_logged_once(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    shared = driver(Decider(), metrics, make=partial(Plain, extra=(warn("a.b"), warn("c.d"), warn("a.b"))))
    for _ in range(3):
        answers = await run(shared, head())
        assert kinds(answers) == ["request_headers"]
    assert [record.getMessage() for record in caplog.records] == ["mend a.b", "mend c.d", "mend end"]
    assert sample(metrics, "warnings_total", setting="a.b") == 6


async def test_the_end_of_the_stream_is_told_to_the_exchange(metrics: Metrics) -> None:
    await run(driver(Decider(), metrics), head())
    assert sample(metrics, "warnings_total", setting="end") == 1


async def test_an_exchange_that_closed_is_not_told(metrics: Metrics) -> None:
    await run(driver(Decider(Reply(b"{}")), metrics), head(), body())
    assert sample(metrics, "warnings_total", setting="end") == 0


async def test_an_exchange_that_raises_at_the_end_disturbs_nobody(metrics: Metrics) -> None:
    answers = await run(driver(Decider(), metrics, make=partial(Plain, raises_on="finish")), head())
    assert kinds(answers) == ["request_headers"]
    assert outcome(metrics, "failed") == 1


async def test_a_gateway_that_drops_the_stream_after_its_answer_is_no_cancellation(metrics: Metrics) -> None:
    sent = 0

    async def send(_: bytes) -> None:
        nonlocal sent
        sent += 1
        if sent == 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await driver(Decider(Reply(b"{}")), metrics).run(feed(head(), body()), send)
    assert (outcome(metrics, "replied"), outcome(metrics, "cancelled")) == (1, 0)


class Plan:
    def reads(self, status: int, media_type: str) -> bool:
        return False

    def wants(self, data: bytes) -> bool:
        return False


@pytest.mark.parametrize("answer", [PassThrough(), RuntimeError()])
async def test_response_heads_are_reported_and_never_disturb(
    metrics: Metrics, answer: PassThrough | RuntimeError
) -> None:
    decider = Decider(answer)
    make = partial(Plain, extra=(Observe(Plan(), 401),))
    assert kinds(await run(driver(decider, metrics, make=make), head())) == ["request_headers"]
    assert decider.observed == [401]


async def test_more_exchanges_than_allowed_are_refused(metrics: Metrics) -> None:
    decider = Decider(None)
    settings = Settings(limits=Limits(exchanges=2), server=Server(deadline=0))
    shared = driver(decider, metrics, settings)
    waiting = [asyncio.create_task(run(shared, head(), body())) for _ in range(2)]
    await decider.asked_for(2)
    assert sample(metrics, "exchanges_in_flight") == 2
    answers = await run(shared, head(), body())
    assert answers[0].immediate_response.status.code == 503
    assert sample(metrics, "refusals_total", reason="busy") == 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    decider.answer = PassThrough()
    assert kinds(await run(shared, head(), body())) == ["request_headers", "request_body"]


async def test_more_bytes_than_may_be_held_are_refused(metrics: Metrics) -> None:
    decider = Decider(None)
    settings = Settings(limits=Limits(buffered=100), server=Server(deadline=0))
    shared = driver(decider, metrics, settings)
    waiting = asyncio.create_task(run(shared, head(), body(b"x" * 80)))
    await decider.asked_for(1)
    answers = await run(shared, head(), body(b"y" * 30))
    assert answers[1].immediate_response.status.code == 503
    assert sample(metrics, "refusals_total", reason="busy") == 1
    assert sample(metrics, "warnings_total", setting="limits.buffered") == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    decider.answer = PassThrough()
    for _ in range(3):
        assert kinds(await run(shared, head(), body(b"y" * 80))) == ["request_headers", "request_body"]


async def test_a_stream_that_goes_away_cancels_its_decision(metrics: Metrics) -> None:
    decider = Decider(None)
    shared = driver(decider, metrics)
    task = asyncio.create_task(run(shared, head(), body()))
    await decider.asked_for(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert decider.cancelled == 1
    assert shared.in_flight == 0
    assert outcome(metrics, "cancelled") == 1


async def test_a_decision_holds_back_the_reading(metrics: Metrics) -> None:
    decider = Decider(None)
    read: list[bytes] = []

    async def messages():  # type: ignore[no-untyped-def]
        async for message in feed(head(), body(), response_head()):
            read.append(message)
            yield message

    async def send(_: bytes) -> None:
        pass

    task = asyncio.create_task(driver(decider, metrics).run(messages(), send))
    await decider.asked_for(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(read) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_no_log_record_holds_what_the_peer_sent(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for answer in (PassThrough(), RuntimeError("query-word"), Reply(b"query-word")):
        await run(driver(Decider(answer), metrics), head("/mcp?query-word"), body(b"query-word"))
    assert caplog.records
    assert "query-word" not in str([vars(record) for record in caplog.records])
