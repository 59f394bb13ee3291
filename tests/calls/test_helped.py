"""Errors of calls that a model can mend, in both forms of answer and both forms of error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.exchange.messages import Headers
from tests.gateway.wire import HttpRequest, HttpResponse
from tests.scenarios.client import events
from tests.scenarios.upstream import members
from tests.scenarios.world import Setup, World, widely

PROGRESS = (
    b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n\n'
)
WORDS = {
    "invalid": "Input validation error: 'to' is a required property",
    "unknown": "Tool mail__send not found",
    "other": "The mailbox is full.",
}


def answer(words: str, *, as_result: bool, code: int = -32602, modern: bool = False) -> bytes:
    if not as_result:
        body: dict[str, Any] = {"error": {"code": code, "message": words}}
    else:
        result: dict[str, Any] = {"content": [{"type": "text", "text": words}], "isError": True}
        body = {"result": {**result, "resultType": "complete"} if modern else result}
    return json.dumps({"jsonrpc": "2.0", "id": 1, **body}).encode()


def answering(world: World, body: bytes, *, sse: bool) -> None:
    """Let the server answer every further request like this."""
    kind: Headers = (("content-type", "text/event-stream" if sse else "application/json"),)
    chunks = (PROGRESS, PROGRESS, b"event: message\nid: 7\ndata: " + body + b"\n\n") if sse else (body,)

    def handle(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, kind, chunks)

    world.server._handle = handle  # type: ignore[method-assign]


@widely
@pytest.mark.parametrize("as_result", [True, False])
@pytest.mark.parametrize("words", WORDS)
async def test_the_servers_words_stay_and_what_helps_is_added(
    setup: Setup, words: str, as_result: bool
) -> None:
    world = setup.world()
    client = await world.warm()
    body = answer(WORDS[words], as_result=as_result, modern=setup.modern)
    genuine = world.server._handle
    answering(world, body, sse=setup.sse)
    reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})
    if setup.withholds or (words == "other" and as_result):
        kept = events(reply.http.body)[-1] if setup.sse else reply.http.body
        assert members(kept) == members(body)
        return
    said = (
        "\n".join(block["text"] for block in reply.result["content"]) if as_result else reply.error["message"]
    )
    assert said.startswith(WORDS[words])
    assert ("Its inputSchema: " in said) is (words != "unknown")
    """An error with the code of invalid params means the arguments, whatever it says."""
    assert ("being read again" in said) is (words == "unknown")
    if setup.sse:
        assert reply.http.body.startswith(PROGRESS + PROGRESS + b"event: message\nid: 7\ndata: ")
    world.server._handle = genuine  # type: ignore[method-assign]
    assert (await client.search("email")).outcome.local is (words != "unknown")


@widely
async def test_other_errors_are_left_alone(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    body = answer("Invalid parameter", as_result=False, code=-32000)
    answering(world, body, sse=setup.sse)
    reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})
    assert members(events(reply.http.body)[-1] if setup.sse else reply.http.body) == members(body)


@widely
async def test_events_leave_as_they_come(setup: Setup) -> None:
    """Each piece of the answer goes on before the next one is read."""
    if not setup.sse or setup.variant.config.response_chunks or setup.withholds:
        pytest.skip("no stream that can be followed piece by piece")
    world = setup.world()
    client = await world.warm()
    answering(world, answer(WORDS["invalid"], as_result=True, modern=setup.modern), sse=True)
    reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})
    pieces = reply.outcome.deliveries
    assert [piece for _, piece in pieces[:2]] == [PROGRESS, PROGRESS]
    assert [read for read, _ in pieces[:2]] == [1, 2]
