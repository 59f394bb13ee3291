"""The side-request client against servers that others wrote, directly and through a real gateway."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable

import pytest
import uvicorn
from mcp.server import MCPServer

from extproc.upstream import Call, CallResult, Failed, Fetched, Reason, Unauthorized, UpstreamClient
from tests.harness.stack import Stack

from .conftest import LEGACY, MODERN, caller
from .servers import until

Make = Callable[..., UpstreamClient]
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


@pytest.fixture
async def official() -> AsyncIterator[str]:
    """The official Python SDK's server, its answers being event streams."""
    server = MCPServer("official")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none")
        running = uvicorn.Server(config)
        task = asyncio.create_task(running.serve([listening]))
        await until(lambda: running.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        running.should_exit = True
        await task


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_official_server_in_every_revision(make_client: Make, official: str, revision: str) -> None:
    client = make_client(official)
    who = caller(revision)
    for _ in range(2):
        outcome = await client.fetch(who)
        assert isinstance(outcome, Fetched), outcome
        assert [tool.name for tool in outcome.catalogue] == ["add"]
    calls = [Call("add", b'{"a":1,"b":2}'), Call("nope"), Call("add", b'{"a":20,"b":22}')]
    outcomes = await client.call_many(who, calls)
    assert isinstance(outcomes, tuple)
    first, unknown, last = outcomes
    assert isinstance(first, CallResult)
    assert json.loads(first.raw)["content"][0]["text"] == "3"
    assert isinstance(unknown, CallResult)
    assert json.loads(unknown.raw)["isError"] is True
    assert isinstance(last, CallResult)
    assert json.loads(last.raw)["content"][0]["text"] == "42"
    assert client.sessions == (0 if revision == MODERN else 1)


@pytest.mark.parametrize("answers", ["json", "sse"])
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_pages_tokens_and_refusals_through_a_real_gateway(
    make_client: Make, single: Stack, revision: str, answers: str
) -> None:
    single.office.set(
        answers=answers, page_size=50, require_token=True, tokens={"ann": ["*"], "bob": ["mail*"]}
    )
    client = make_client(single.raw_url, catalog={"timeout": 60})
    every = await client.fetch(caller(revision, name="ann"))
    some = await client.fetch(caller(revision, name="bob"))
    assert isinstance(every, Fetched), every
    assert isinstance(some, Fetched), some
    assert len(every.catalogue) > 100
    assert every.catalogue.complete
    assert {tool.name for tool in some.catalogue} < {tool.name for tool in every.catalogue}
    assert all(tool.name.startswith("mail") for tool in some.catalogue)
    refused = await client.fetch(caller(revision, name="eve"))
    assert isinstance(refused, Unauthorized)
    assert refused.status == 401
    assert "www-authenticate" in dict(refused.headers)


FAULTS = {
    "500": {Reason.STATUS},
    "503": {Reason.STATUS},
    "text": {Reason.STATUS},
    "empty": {Reason.STATUS},
    "reset": {Reason.RESET, Reason.STATUS},
    "half": {Reason.RESET, Reason.MALFORMED},
    "error": {Reason.RPC_ERROR},
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_behind_a_real_gateway_are_failures(
    make_client: Make, single: Stack, fault: str
) -> None:
    single.office.set(faults={"tools/list": fault})
    outcome = await make_client(single.raw_url).fetch(caller(MODERN))
    assert isinstance(outcome, Failed), outcome
    assert outcome.reason in FAULTS[fault]


async def test_the_joined_list_of_a_real_gateway(make_client: Make, joined: Stack) -> None:
    client = make_client(joined.raw_url, catalog={"timeout": 60})
    outcome = await client.fetch(caller(LEGACY))
    assert isinstance(outcome, Fetched), outcome
    servers = {tool.name.partition(joined.separator)[0] for tool in outcome.catalogue}
    assert len(servers) >= 4
    now = joined.name("get_current_time", "time")
    outcomes = await client.call_many(
        caller(LEGACY), [Call(now, b'{"timezone":"UTC"}'), Call(joined.name("nope", "time"))], timeout=60
    )
    assert isinstance(outcomes, tuple)
    assert isinstance(outcomes[0], CallResult)
    assert b"UTC" in outcomes[0].raw
