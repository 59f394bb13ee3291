from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from extproc.upstream import (
    Call,
    CallError,
    CallResult,
    Failed,
    Reason,
    SessionLost,
    Unauthorized,
    UpstreamClient,
)

from .conftest import LEGACY, MODERN, caller
from .servers import (
    STREAM_END,
    STREAM_HEAD,
    Hangup,
    McpServer,
    Recorder,
    Request,
    Write,
    answer,
    event,
    serving,
    until,
)

Make = Callable[..., UpstreamClient]


def raw(text: bytes) -> Any:
    async def write_raw(request: Request, write: Write) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (request.json["id"], text)
        await write(answer(body))

    return write_raw


async def hang(request: Request, write: Write) -> None:
    await asyncio.sleep(30)


async def hangup(request: Request, write: Write) -> None:
    raise Hangup


async def test_each_call_has_its_own_outcome_in_order(make_client: Make) -> None:
    exact = b'{"content":[{"type":"text","text":"\\u0041"}],"n":1.0,"big":12345678901234567890123}'
    mcp = McpServer(
        results={
            "good": raw(exact),
            "error": {"code": -32602, "message": "bad arguments", "data": {"x": 1}},
            "busy": answer(b"", 503),
            "slow": hang,
            "reset": hangup,
        }
    )
    async with serving(mcp) as server:
        client = make_client(server.url)
        outcomes = await client.call_many(
            caller(), [Call(name) for name in ("slow", "good", "error", "busy", "reset")], timeout=0.5
        )
    assert isinstance(outcomes, tuple)
    slow, good, error, busy, reset = outcomes
    assert slow == Failed(Reason.TIMEOUT)
    assert good == CallResult(exact)
    assert isinstance(error, CallError)
    assert (error.code, error.message) == (-32602, "bad arguments")
    assert b'"data": {"x": 1}' in error.raw
    assert busy == Failed(Reason.STATUS, "503")
    assert isinstance(reset, Failed)
    assert reset.reason is Reason.RESET
    assert [request.json["params"]["name"] for request in server.requests].count("reset") == 1


async def test_a_modern_call_carries_its_headers_and_raw_arguments(make_client: Make) -> None:
    arguments = b'{"a":1.0, "b":12345678901234567890123,"a":2}'
    async with serving(McpServer()) as server:
        calls = [
            Call("caf\xe9\r\nx: y", arguments, (("mcp-param-region", "eu"),)),
            Call("plain"),
        ]
        await make_client(server.url).call_many(caller(MODERN), calls)
    sent = next(request for request in server.requests if b"caf" in request.body)
    assert arguments in sent.body
    assert sent.header("mcp-method") == "tools/call"
    assert sent.header("mcp-name") == "=?base64?Y2Fmw6kNCng6IHk=?="
    assert sent.header("mcp-param-region") == "eu"
    meta = sent.json["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert "progressToken" not in meta
    other = next(request for request in server.requests if b"plain" in request.body)
    assert other.header("mcp-param-region") is None
    assert other.json["id"] != sent.json["id"]


async def test_a_legacy_call_has_neither_routing_headers_nor_meta(make_client: Make) -> None:
    mcp = McpServer(sessions={"live": True})
    async with serving(mcp) as server:
        calls = [Call("x", b"{}", (("mcp-param-region", "eu"),))]
        outcomes = await make_client(server.url).call_many(caller(LEGACY, session="live"), calls)
    assert outcomes == (CallResult(b'{"content": []}'),)
    (sent,) = server.requests
    assert sent.header("mcp-name") is None
    assert sent.header("mcp-param-region") is None
    assert sent.json["params"] == {"name": "x", "arguments": {}}


async def test_calls_share_one_own_session(make_client: Make) -> None:
    mcp = McpServer()
    async with serving(mcp) as server:
        client = make_client(server.url)
        outcomes = await client.call_many(caller(LEGACY), [Call("x")] * 4)
        assert isinstance(outcomes, tuple)
        assert all(isinstance(outcome, CallResult) for outcome in outcomes)
        mcp.sessions.clear()
        lost = await client.call_many(caller(LEGACY), [Call("x")] * 2)
        assert lost == (Failed(Reason.STATUS, "404"),) * 2
        again = await client.call_many(caller(LEGACY), [Call("x")])
        assert again == (CallResult(b'{"content": []}'),)
    assert server.methods().count("initialize") == 2


@pytest.mark.parametrize("status", [401, 403])
async def test_one_refusal_stands_for_all_and_ends_the_others(make_client: Make, status: int) -> None:
    mcp = McpServer(
        results={
            "slow": hang,
            "secret": answer(b"scope!", status, "text/plain", www_authenticate='Bearer error="x"'),
        }
    )
    async with serving(mcp) as server:
        outcome = await make_client(server.url).call_many(
            caller(), [Call("slow"), Call("secret")], timeout=30
        )
    assert isinstance(outcome, Unauthorized)
    assert (outcome.status, outcome.body) == (status, b"scope!")
    assert ("www-authenticate", 'Bearer error="x"') in outcome.headers


async def test_a_dead_live_session_is_told_to_the_client(make_client: Make) -> None:
    async with serving(McpServer()) as server:
        outcome = await make_client(server.url).call_many(caller(LEGACY, session="gone"), [Call("x")] * 3)
    assert isinstance(outcome, SessionLost)
    assert (outcome.status, outcome.body) == (404, b"no session")
    assert "initialize" not in server.methods()


async def test_a_servers_own_request_is_declined_and_the_answer_awaited(make_client: Make) -> None:
    async def asks(request: Request, write: Write) -> None:
        await write(
            STREAM_HEAD + event({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {}})
        )
        await until(lambda: any(b'"id":9' in seen.body for seen in server.requests))
        result = {"jsonrpc": "2.0", "id": request.json["id"], "result": {"content": []}}
        await write(event(result) + STREAM_END)

    mcp = McpServer(sessions={"live": True}, results={"asks": asks})
    async with serving(mcp) as server:
        outcomes = await make_client(server.url).call_many(
            caller(LEGACY, session="live"), [Call("asks")], timeout=30
        )
    assert outcomes == (CallResult(b'{"content": []}'),)
    declined = next(request for request in server.requests if b'"id":9' in request.body)
    assert declined.json["error"]["code"] == -32601
    assert declined.header("mcp-session-id") == "live"


def cancelled_ids(server: Recorder) -> set[int]:
    return {
        request.json["params"]["requestId"]
        for request in server.requests
        if request.rpc_method == "notifications/cancelled"
    }


async def test_a_timed_out_legacy_call_is_cancelled(make_client: Make) -> None:
    mcp = McpServer(sessions={"live": True}, results={"slow": hang})
    async with serving(mcp) as server:
        client = make_client(server.url)
        outcomes = await client.call_many(caller(LEGACY, session="live"), [Call("slow")], timeout=0.1)
        await until(lambda: cancelled_ids(server))
    assert outcomes == (Failed(Reason.TIMEOUT),)
    assert cancelled_ids(server) == {server.requests[0].json["id"]}


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_cancelling_the_task_cancels_every_call(make_client: Make, revision: str) -> None:
    mcp = McpServer(sessions={"live": True}, results={"slow": hang})
    async with serving(mcp) as server:
        client = make_client(server.url)
        work = asyncio.ensure_future(
            client.call_many(caller(revision, session="live"), [Call("slow")] * 3, timeout=30)
        )
        await until(lambda: server.active == 3)
        sent = {request.json["id"] for request in server.requests}
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        if revision == LEGACY:
            await until(lambda: len(cancelled_ids(server)) == 3)
            assert cancelled_ids(server) == sent
        else:
            await client.aclose()
            assert cancelled_ids(server) == set()


async def test_calls_are_bounded_over_all_callers(make_client: Make) -> None:
    mcp = McpServer(delay=0.02)
    async with serving(mcp) as server:
        client = make_client(server.url, catalog={"max_fetches": 2})
        await asyncio.gather(
            *(client.call_many(caller(name=f"c{n}"), [Call("x")] * 5, timeout=30) for n in range(10))
        )
    assert 1 < server.peak <= 8


async def test_a_result_is_bounded_by_its_share_of_the_limit(make_client: Make) -> None:
    mcp = McpServer(results={"big": raw(b'{"content":[],"x":"%s"}' % (b"x" * 60_000))})
    async with serving(mcp) as server:
        client = make_client(server.url, limits={"response_body": 100_000})
        outcomes = await client.call_many(caller(), [Call("big"), Call("small")])
        assert outcomes == (Failed(Reason.TOO_LARGE), CallResult(b'{"content": []}'))
        (alone,) = await client.call_many(caller(), [Call("big")])  # type: ignore[misc]
        assert isinstance(alone, CallResult)


async def test_slow_tools_do_not_close_the_route_and_a_dead_one_does(make_client: Make) -> None:
    mcp = McpServer(results={"slow": hang, "down": answer(b"", 502)})
    async with serving(mcp) as server:
        client = make_client(server.url)
        await client.call_many(caller(), [Call("slow")] * 10, timeout=0.05)
        assert not client.backing_off
        await client.call_many(caller(), [Call("down")] * 10)
        assert client.backing_off
        assert await client.call_many(caller(), [Call("x")]) == (Failed(Reason.BACKING_OFF),)


async def test_without_a_route_every_entry_says_so(make_client: Make) -> None:
    assert await make_client("").call_many(caller(), [Call("x")] * 2) == (Failed(Reason.NO_ROUTE),) * 2
