"""Every rule of the table refuses (or drops) what it says, and only there."""

from __future__ import annotations

import pytest

from extproc.exchange.messages import BodyMode, Dialect

from .faults import FAULTS, Fault
from .peer import Gateway
from .rules import RULES, Effect, Refusal
from .scripted import Scripted
from .wire import HttpRequest, HttpResponse

REQUEST = HttpRequest(
    "POST",
    "/mcp",
    (("content-type", "application/json"), ("content-length", "13"), ("host", "a.test")),
    b'{"some":"it"}',
)


def upstream(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, (("content-type", "application/json"), ("content-length", "2")), (b"{}",))


def with_trailers(fault: Fault) -> HttpRequest:
    config = fault.config
    if config.request_trailers and config.request_body is not BodyMode.FULL_DUPLEX:
        return HttpRequest(REQUEST.method, REQUEST.path, REQUEST.headers, REQUEST.body, (("x-sum", "1"),))
    return REQUEST


CASES = [
    pytest.param(fault, dialect, id=f"{fault.rule}-{number}-{dialect.name.lower()}")
    for number, fault in enumerate(FAULTS)
    for dialect in fault.dialects
]


@pytest.mark.parametrize(("fault", "dialect"), CASES)
async def test_planted_fault_has_the_effect_of_its_rule(fault: Fault, dialect: Dialect) -> None:
    effect = RULES[fault.rule].effects.get(dialect)
    other = fault.config.named(dialect=dialect)
    if effect is Effect.REFUSED:
        with pytest.raises(Refusal) as caught:
            await Gateway(other, Scripted(fault.script), upstream).send(with_trailers(fault))
        assert caught.value.rule == fault.rule
        return
    found, dropped = await played(Gateway(other, Scripted(fault.script), upstream), with_trailers(fault))
    if effect is Effect.DROPPED:
        assert (found, fault.rule in dropped) == (None, True)
    else:
        assert fault.rule not in (found, *dropped)


async def played(gateway: Gateway, request: HttpRequest) -> tuple[str | None, tuple[str, ...]]:
    try:
        return None, (await gateway.send(request)).dropped
    except Refusal as refusal:
        return refusal.rule, ()


def test_every_rule_and_dialect_has_a_planted_fault() -> None:
    planted = {(fault.rule, dialect) for fault in FAULTS for dialect in fault.dialects}
    assert {(rule.name, dialect) for rule in RULES.values() for dialect in rule.effects} <= planted
    assert {fault.rule for fault in FAULTS} <= set(RULES)
