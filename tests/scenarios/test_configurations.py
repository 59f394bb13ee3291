"""Gateways configured in ways that cannot work, and callers known by attributes."""

from __future__ import annotations

import pytest

from extproc.exchange.messages import BodyMode, Headers
from tests.gateway.config import Config
from tests.gateway.peer import Gateway
from tests.gateway.rules import AGENTGATEWAY, Refusal
from tests.gateway.variants import VARIANTS
from tests.gateway.wire import HttpRequest

from .client import Client, joined
from .tools import TOOLS, raw
from .upstream import MODERN
from .world import ALICE, Setup, World, legacy_only, modern_only

SETUP = Setup(VARIANTS["envoy-buffered"], MODERN, False)
AGENT = VARIANTS["agentgateway-two-messages"]


def through(world: World, config: Config, headers: Headers = ALICE) -> Client:
    return Client(Gateway(config, world.core, world.server), world.setup.revision, headers)


BROKEN = {
    "request_body_mode": [
        SETUP.variant.config.named(request_body=mode) for mode in (BodyMode.NONE, BodyMode.BUFFERED_PARTIAL)
    ],
    "request_header_mode": [SETUP.variant.config.named(request_headers=False)],
}
CASES = [
    pytest.param(setting, config.named(dialect=dialect), id=f"{setting}-{number}-{dialect.name.lower()}")
    for setting, configs in BROKEN.items()
    for number, config in enumerate(configs)
    for dialect in (SETUP.variant.config.dialect, AGENTGATEWAY)
]


@pytest.mark.parametrize(("setting", "config"), CASES)
async def test_what_cannot_work_is_refused_and_the_setting_named(setting: str, config: Config) -> None:
    world = SETUP.world()
    reply = await through(world, config).list()
    assert reply.status == 500
    assert world.server.calls == []
    assert [warning.setting for warning in world.core.warnings] == [setting]


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_override_that_is_not_allowed_is_told(allowed: bool) -> None:
    world = SETUP.world()
    config = SETUP.variant.config.named(allow_mode_override=allowed)
    gateway = Gateway(config, world.core, world.server)
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":%s}}'
    client = Client(gateway, MODERN, ALICE)
    headers = (
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        *client.message_headers("tools/list", {}),
        *ALICE,
    )
    outcome = await gateway.send(HttpRequest("POST", "/mcp", headers, body % joined(client.meta())))
    assert ("mode-not-allowed" in outcome.dropped) is not allowed
    assert [warning.setting for warning in world.core.warnings] == (
        [] if allowed else ["allow_mode_override"]
    )


async def test_a_response_without_headers_never_carries_the_list() -> None:
    world = SETUP.world()
    config = SETUP.variant.config.named(response_headers=False, response_body=BodyMode.BUFFERED)
    with pytest.raises(Refusal):  # nothing can mend the length without headers: the gateway answers 500
        await through(world, config).list()
    assert [warning.setting for warning in world.core.warnings] == ["response_header_mode"]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("variant", ["agentgateway-two-messages", "agentgateway-duplex-odd"])
async def test_callers_are_told_apart_by_verified_attributes(variant: str, revision: str) -> None:
    setup = Setup(VARIANTS[variant], revision, True)
    world = setup.world({"caller": {"attributes": ["sub"]}})
    config = setup.variant.config.named(strip=("authorization",), identity={"sub": "alice"})
    alice = through(world, config)
    await alice.open()
    await alice.list()
    alice.headers = (("authorization", "Bearer refreshed"),)
    assert (await alice.search("email")).outcome.local
    world.server.tools = raw(TOOLS[:2])
    bob = through(world, config.named(identity={"sub": "bob"}))
    await bob.open()
    found = await bob.search("email")
    assert not found.outcome.local
    assert "mail__send" not in found.http.body.decode()


@modern_only
async def test_a_stripped_credential_isolates_callers(setup: Setup) -> None:
    world = setup.world()
    config = setup.variant.config.named(strip=("authorization",))
    one = Client(Gateway(config, world.core, world.server), MODERN, ALICE, setup.variant.trailers)
    await one.list()
    assert not (await one.search("email")).outcome.local


@legacy_only
async def test_routing_headers_of_a_legacy_client_agree_with_the_rewrite(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    client.headers = (*client.headers, ("mcp-name", "call_destructive_tool"), ("mcp-method", "tools/call"))
    inner = {"name": "mail__send", "arguments": {}}
    reply = await client.call("call_destructive_tool", inner)
    assert reply.outcome.upstream is not None
    assert set(reply.outcome.upstream.values("mcp-name")) <= {"mail__send"}
    assert set(reply.outcome.upstream.values("mcp-method")) <= {"tools/call"}
