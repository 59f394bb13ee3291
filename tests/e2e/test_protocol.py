"""The corners of the protocol that a rewriting filter gets wrong first."""

from __future__ import annotations

import contextlib
import json
import secrets

import httpx
import pytest

from tests.e2e.expect import LISTED, echoed, found, names
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.stack import Stack

VERSIONS = [*LEGACY, MODERN]


def fresh() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize("version", VERSIONS)
async def test_fields_of_the_era(single: Stack, version: str) -> None:
    """2026-07-28 needs ``resultType``, ``ttlMs`` and ``cacheScope``; older revisions are not given them."""
    async with Wire(single.url, version, fresh()) as wire:
        listed = (await wire.list_tools()).result
        again = (await wire.list_tools(number="2")).result
        searched = (await wire.search("echo")).result
        refused = (await wire.write("fixture_echo", {})).result
    assert names(listed["tools"]) == names(again["tools"]) == LISTED
    assert "nextCursor" not in listed
    modern = version == MODERN
    for result in (listed, again):
        assert ("ttlMs" in result) == ("cacheScope" in result) == ("resultType" in result) == modern
    for result in (searched, refused):
        assert ("resultType" in result) == modern
    assert ("structuredContent" in searched) == (version not in ("2024-11-05", "2025-03-26"))
    assert refused["isError"] is True


@pytest.mark.parametrize("header", ["mcp-name", "mcp-method", "mcp-protocol-version"])
async def test_headers_that_disagree_are_refused_before_rewriting(single: Stack, header: str) -> None:
    """Otherwise a policy on ``Mcp-Name: call_read_tool`` would let a destructive call through."""
    async with Wire(single.url, MODERN, fresh()) as wire:
        await wire.list_tools()
        single.office.forget()
        params = {"name": "call_destructive_tool", "arguments": {"name": "fixture_delete", "arguments": {}}}
        wrong = {
            "mcp-name": "call_read_tool",
            "mcp-method": "tools/list",
            "mcp-protocol-version": "2025-11-25",
        }
        headers = {**wire.headers("tools/call", "call_destructive_tool"), header: wrong[header]}
        answer = await wire.post(wire.encode("tools/call", params, "5"), headers)
    assert answer.status == 400
    assert answer.error["code"] == -32020
    called = [r for r in single.office.received() if ["mcp-name", "fixture_delete"] in r["headers"]]
    assert called == []


async def test_encoded_name_header_is_understood(single: Stack) -> None:
    async with Wire(single.url, MODERN, fresh()) as wire:
        params = {"name": "search_tools", "arguments": {"queries": ["echo"]}}
        name = "=?base64?c2VhcmNoX3Rvb2xz?="
        answer = await wire.request("tools/call", params, **{"mcp-name": name})
    assert "fixture_echo" in found(answer.text)


async def test_cursor_never_shows_the_real_list(single: Stack) -> None:
    single.office.set(page_size=10)
    async with Wire(single.url, MODERN, fresh()) as wire:
        first = await wire.list_tools()
        assert "nextCursor" not in first.result
        for cursor in ("page-10", "", "nonsense"):
            answer = await wire.list_tools(cursor)
            if "result" in answer.response:
                assert names(answer.result["tools"]) == LISTED
            else:
                assert answer.error["code"] == -32602


async def test_batch_of_2025_03_26(single: Stack) -> None:
    """An array may hide a ``tools/list``: either every element is rewritten or the whole is refused."""
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    async with Wire(single.url, "2025-03-26", fresh()) as wire:
        answer = await wire.post(json.dumps(batch).encode(), wire.headers("batch"))
    assert b"tracklane" not in answer.body
    assert b"fixture_write" not in answer.body
    assert answer.status == 400 or {message["id"] for message in answer.messages} == {1, 2}


async def test_resumed_answer_does_not_leak_the_catalogue(single: Stack) -> None:
    """Legacy: the stream of a POST may break and its answer arrive on a GET with ``Last-Event-ID``."""
    async with Wire(single.url, LEGACY[-1], fresh()) as wire:
        single.office.set(resume=True)
        broken = await wire.request("tools/list")
        assert b"tracklane" not in broken.body
        last = [line[4:] for line in broken.body.decode().splitlines() if line.startswith("id: ")]
        if last:
            headers = {**wire.headers("get"), "accept": "text/event-stream", "last-event-id": last[-1]}
            resumed = await wire.http.get(wire.url, headers=headers)
            assert b"tracklane__create_issue" not in resumed.content


async def test_ended_session_is_reported(single: Stack) -> None:
    async with Wire(single.url, LEGACY[-1], fresh()) as wire:
        single.office.end_sessions()
        answer = await wire.search("echo")
        assert answer.status == 404
        assert (await wire.list_tools()).status == 404


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_what_is_not_ours_passes_as_it_came(single: Stack, version: str) -> None:
    """Same status and same bytes as on the raw route."""
    bodies = [
        (b"{", "tools/list", None),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{}}', "resources/list", None),
        (
            b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}',
            "notifications/roots/list_changed",
            None,
        ),
        (b"null", "tools/list", None),
        (b"", "tools/list", None),
    ]
    async with Wire(single.url, version, fresh()) as wire:
        for body, method, name in bodies:
            answers = []
            for url in (single.url, single.raw_url):
                wire.url = url
                answers.append(await wire.post(body, wire.headers(method, name)))
            assert answers[0].status == answers[1].status, body
            assert answers[0].body == answers[1].body, body


async def test_other_verbs_pass(single: Stack) -> None:
    async with Wire(single.url, MODERN, fresh()) as wire:
        for verb in ("OPTIONS", "HEAD", "PUT", "DELETE", "GET"):
            headers = wire.headers("tools/list")
            ours = await wire.http.request(verb, single.url, headers=headers)
            raw = await wire.http.request(verb, single.raw_url, headers=headers)
            assert (ours.status_code, ours.content) == (raw.status_code, raw.content), verb


@pytest.mark.parametrize("fault", ["500", "503", "reset", "half", "error"])
async def test_failing_list_is_never_learned(single: Stack, fault: str) -> None:
    """An upstream that fails is reported as such, shows nothing, and is asked again the next time."""
    async with Wire(single.url, MODERN, fresh()) as wire:
        single.office.set(faults={"tools/list": fault})
        if fault == "half":
            with contextlib.suppress(httpx.RemoteProtocolError):
                assert b"fixture_echo" not in (await wire.search("echo")).body
        else:
            failed = await wire.search("echo")
            assert failed.status >= 500 or "error" in failed.response
        single.office.set(faults={})
        answer = await wire.search("give back the arguments as they came")
    assert "fixture_echo" in found(answer.text)


async def test_direct_calls_pass(single: Stack) -> None:
    async with Wire(single.url, MODERN, fresh()) as wire:
        answer = await wire.call("fixture_echo", {"text": "direct"})
        assert echoed(answer.text)["arguments"] == {"text": "direct"}
        unknown = await wire.call("no_such_tool", {})
    assert unknown.error["code"] == -32602


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_mistakes_of_models_are_answered_usefully(single: Stack, version: str) -> None:
    async with Wire(single.url, version, fresh()) as wire:
        await wire.list_tools()
        as_text = await wire.call("call_read_tool", {"name": "fixture_echo", "arguments": '{"text":"x"}'})
        assert echoed(as_text.text)["arguments"] == {"text": "x"}
        without = await wire.call("call_read_tool", {"name": "fixture_echo"})
        assert echoed(without.text)["arguments"] == {}
        wrong = await wire.call("call_read_tool", {"name": "fixture_echo", "arguments": [1]})
        assert wrong.is_error
        nested = await wire.call("call_read_tool", {"name": "call_write_tool", "arguments": {}})
        assert nested.is_error
        empty = await wire.call("search_tools", {"queries": []})
        assert empty.is_error
        nothing = await wire.call("search_tools")
        assert nothing.is_error
        bare = await wire.call("call_write_tool", {"name": "fixture_unannotated"})
    assert bare.is_error
    assert "call_destructive_tool" in bare.text


async def test_listen_stream_carries_changes(single: Stack) -> None:
    async with Wire(single.url, MODERN, fresh()) as wire:
        body = wire.encode(
            "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, '"listen-1"'
        )
        headers = wire.headers("subscriptions/listen")
        async with wire.http.stream("POST", wire.url, content=body, headers=headers) as stream:
            lines = stream.aiter_lines()
            async for line in lines:
                if "acknowledged" in line:
                    break
            assert single.office.notify() == 1
            async for line in lines:
                if "list_changed" in line:
                    break
            assert '"io.modelcontextprotocol/subscriptionId":"listen-1"' in line
