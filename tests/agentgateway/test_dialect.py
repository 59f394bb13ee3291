"""What agentgateway does in its own way, from its messages to the answer that the client gets."""

from __future__ import annotations

import json

import pytest

from extproc.exchange.messages import BodyMode, Side
from tests.agentgateway.test_cut_lists import named, raw
from tests.gateway.rules import AGENTGATEWAY
from tests.gateway.variants import VARIANTS, Variant
from tests.scenarios.client import Client
from tests.scenarios.upstream import MODERN
from tests.scenarios.world import Setup, World

MODES = [variant for variant in VARIANTS.values() if variant.config.dialect is AGENTGATEWAY]
TOOLS = raw(*named("files", 4), *named("mail", 3), *named("desk", 6))
everywhere = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
eras = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
ends = pytest.mark.parametrize("served", [False, True], ids=["core", "served"])


async def warm(mode: Variant, revision: str, served: bool) -> tuple[World, Client]:
    world = Setup(mode, revision, sse=True, served=served).world(
        {"caller": {"anonymous": "shared"}}, tools=TOOLS
    )
    client = world.client(())
    await client.open()
    await client.list()
    return world, client


def test_every_body_mode_it_has_is_among_them() -> None:
    requests = {mode.config.request_body for mode in MODES}
    responses = {mode.config.response_body for mode in MODES}
    assert requests == {BodyMode.BUFFERED, BodyMode.FULL_DUPLEX}
    assert responses == {BodyMode.NONE, BodyMode.BUFFERED, BodyMode.FULL_DUPLEX}
    assert {mode.config.empty_end for mode in MODES} == {True, False}, (
        "buffered bodies in one or two messages"
    )


@everywhere
@eras
@ends
async def test_tools_are_found_and_called_by_target_and_name(
    mode: Variant, revision: str, served: bool
) -> None:
    _, client = await warm(mode, revision, served)
    found = json.loads((await client.search("t1", server="mail")).text)
    names = [tool["name"] for tool in found["results"][0]["tools"]]
    assert names[0] == "mail_t1"
    assert all(name.startswith("mail_") for name in names)
    legacy = (
        () if revision == MODERN else (("mcp-name", "call_destructive_tool"), ("mcp-method", "tools/call"))
    )
    client.headers = legacy
    called = await client.call("call_destructive_tool", {"name": "mail_t1", "arguments": {"a": 1.0}})
    sent = called.outcome.upstream
    assert sent is not None
    assert called.sent_params["name"] == b'"mail_t1"'
    assert called.sent_params["arguments"].replace(b" ", b"") == b'{"a":1.0}'
    # The gateway compares them with the body where they are present, in either era.
    assert set(sent.values("mcp-name")) <= {"mail_t1"}
    assert set(sent.values("mcp-method")) <= {"tools/call"}
    if revision == MODERN:
        assert len(sent.values("mcp-name")) == 1
    assert "mail_t1" in called.text


@everywhere
@ends
async def test_the_stream_is_never_ended_before_the_response(mode: Variant, served: bool) -> None:
    _, client = await warm(mode, MODERN, served)
    passed = await client.send("resources/list")
    assert passed.outcome.upstream is not None
    assert passed.outcome.told(Side.RESPONSE) >= 1


@everywhere
@ends
async def test_answers_are_events_and_stay_events(mode: Variant, served: bool) -> None:
    _, client = await warm(mode, "2025-11-25", served)
    listed = await client.list()
    cold = Client(client.gateway, client.revision, (("x-api-key", "another"),))
    await cold.open()
    searched = await cold.search("t1")
    assert searched.outcome.upstream is not None
    assert (searched.http.header("content-type") or "").startswith("text/event-stream")
    assert searched.others, "what the server said before its answer is kept"
    assert len(listed.names) == 5
