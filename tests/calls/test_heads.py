"""Where a gateway has no streaming mode, only the head of a call's answer is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.rules import AGENTGATEWAY
from tests.gateway.variants import VARIANTS
from tests.gateway.wire import HttpRequest, HttpResponse
from tests.scenarios.tools import raw
from tests.scenarios.upstream import MODERN
from tests.scenarios.world import Setup

HEAD_ONLY = [
    Setup(variant, revision, False)
    for variant in VARIANTS.values()
    if variant.config.dialect is AGENTGATEWAY and not variant.duplex
    for revision in ("2025-11-25", MODERN)
]
INVALID = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params: to is missing"}}'


@pytest.mark.parametrize("setup", HEAD_ONLY, ids=str)
async def test_a_calls_answer_is_never_held_back(setup: Setup) -> None:
    """Its body passes as it came and when it came; a lost write is told all the same, by the status."""
    world = setup.world(tools=raw())
    client = await world.warm()
    chunks = (INVALID[:20], INVALID[20:])
    kind = (("content-type", "application/json"),)
    answers = {"all": HttpResponse(200, kind, chunks), "lost": HttpResponse(503, (), (b"upstream reset",))}
    now = "all"

    def answer(request: HttpRequest) -> HttpResponse:
        return answers[now]

    world.server._handle = answer  # type: ignore[method-assign]
    call: dict[str, Any] = {"name": "mail__send", "arguments": {}}
    reply = await client.call("call_destructive_tool", call)
    assert reply.http.body == INVALID
    now = "lost"
    lost = await client.call("call_destructive_tool", call)
    assert lost.is_error
    assert "does not mark the tool idempotent" in lost.text
