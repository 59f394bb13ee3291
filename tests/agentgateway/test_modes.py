"""Modes that cannot work are refused, and the log says which line to write in either gateway's words."""

from __future__ import annotations

import pytest

from extproc.exchange.messages import BodyMode, Dialect
from tests.gateway.config import Config
from tests.gateway.peer import Gateway
from tests.gateway.rules import Refusal
from tests.scenarios.client import Client
from tests.scenarios.test_configurations import SETUP
from tests.scenarios.upstream import MODERN
from tests.scenarios.world import ALICE

LINES = {
    "request_body_mode": ("request_body_mode: BUFFERED", "requestBodyMode: buffered"),
    "request_header_mode": ("request_header_mode: SEND", "requestHeaderMode: send"),
    "response_header_mode": ("response_header_mode: SEND", "responseHeaderMode: send"),
    "allow_mode_override": ("allow_mode_override: true", "allowModeOverride: true"),
}
BASE = SETUP.variant.config
CASES = {
    "none": ("request_body_mode", BASE.named(request_body=BodyMode.NONE)),
    "partial": ("request_body_mode", BASE.named(request_body=BodyMode.BUFFERED_PARTIAL)),
    "streamed": ("request_body_mode", BASE.named(request_body=BodyMode.STREAMED)),
    "no request headers": ("request_header_mode", BASE.named(request_headers=False)),
    "no response headers": (
        "response_header_mode",
        BASE.named(response_headers=False, response_body=BodyMode.BUFFERED),
    ),
    "no override": ("allow_mode_override", BASE.named(allow_mode_override=False)),
}


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("case", CASES)
async def test_the_log_has_the_line_for_either_gateway(case: str, dialect: Dialect) -> None:
    setting, config = CASES[case]
    if case == "streamed" and dialect is Dialect.AGENTGATEWAY:
        pytest.skip("agentgateway has no STREAMED body mode")
    world = SETUP.world()
    reply = await listing(Gateway(config.named(dialect=dialect), world.core, world.server))
    assert b"mail__send" not in reply
    (warning,) = {each.setting: each for each in world.core.warnings}.values()
    assert warning.setting == setting
    assert "agentgateway's processingOptions" in warning.text
    for line in LINES[setting]:
        assert line in warning.text


async def listing(gateway: Gateway) -> bytes:
    """What a client gets for ``tools/list``; empty where the gateway itself ends the exchange."""
    client = Client(gateway, MODERN, ALICE)
    try:
        return (await client.list()).http.body
    except (Refusal, AssertionError):
        return b""


def test_every_mode_that_is_refused_is_a_case() -> None:
    from extproc.exchange.modes import REQUEST_RULES

    refused = {mode for mode, rule in REQUEST_RULES.items() if rule.refusal}
    assert refused == {config.request_body for _, config in CASES.values()} - {BodyMode.BUFFERED}
    assert isinstance(BASE, Config)
