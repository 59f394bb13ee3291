"""The fixture server refuses what strict servers refuse; else the tests behind it would prove nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.expect import echoed, names
from tests.harness import servers
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.processes import free_ports


@pytest.fixture(scope="module")
def _office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Fixture]:
    (port,) = free_ports(1)
    office = servers.fixture(port, tmp_path_factory.mktemp("fixture"))
    with office.process:
        office.process.wait_ready(office.ready)
        yield office


@pytest.fixture
def office(_office: servers.Fixture) -> servers.Fixture:
    _office.reset()
    return _office


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mcp-name", "fixture_write"),
        ("mcp-name", "=?base64?!!?="),
        ("mcp-method", "tools/list"),
        ("mcp-param-region", "west"),
        ("mcp-param-level", "4"),
    ],
)
async def test_headers_must_agree_with_the_body(office: servers.Fixture, header: str, value: str) -> None:
    params = {"name": "fixture_region", "arguments": {"region": "north", "level": 3}}
    right = {"mcp-param-region": "north", "mcp-param-level": "3"}
    async with Wire(office.url, MODERN) as wire:
        fine = await wire.request("tools/call", params, **right)
        wrong = await wire.request("tools/call", params, **{**right, header: value})
        missing = await wire.request("tools/call", params)
    assert echoed(fine.text)["arguments"] == params["arguments"]
    assert (wrong.status, wrong.error["code"]) == (400, -32020)
    assert (missing.status, missing.error["code"]) == (400, -32020)


async def test_repeated_headers_are_refused(office: servers.Fixture) -> None:
    async with Wire(office.url, MODERN) as wire:
        params = {"name": "fixture_echo", "arguments": {}}
        headers = [*wire.headers("tools/call", "fixture_echo").items(), ("mcp-name", "fixture_echo")]
        answer = await wire.http.post(
            wire.url, content=wire.encode("tools/call", params, "1"), headers=headers
        )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32020


async def test_modern_requests_need_their_metadata_and_a_known_method(office: servers.Fixture) -> None:
    async with Wire(office.url, MODERN) as wire:
        bare = await wire.post(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', wire.headers("tools/list"))
        unknown = await wire.request("resources/list", {})
        batch = await wire.post(b"[]", wire.headers("tools/list"))
    assert (bare.status, bare.error["code"]) == (400, -32602)
    assert (unknown.status, unknown.error["code"]) == (404, -32601)
    assert batch.status == 400


async def test_sessions_and_pages(office: servers.Fixture) -> None:
    office.set(page_size=200)
    async with Wire(office.url, LEGACY[-1]) as wire:
        first = (await wire.list_tools()).result
        second = (await wire.list_tools(first["nextCursor"])).result
        assert (await wire.list_tools("elsewhere")).error["code"] == -32602
        wire.session = "dead"
        assert (await wire.list_tools()).status == 404
        wire.session = None
        assert (await wire.list_tools()).status == 400
    assert len(first["tools"]) == 200
    assert not set(names(first["tools"])) & set(names(second["tools"]))


async def test_tokens(office: servers.Fixture) -> None:
    office.set(tokens={"a": ["paywell__*"]}, require_token=True)
    async with Wire(office.url, MODERN, "a") as wire:
        assert {name.partition("__")[0] for name in names((await wire.list_tools()).result["tools"])} == {
            "paywell"
        }
        assert (await wire.call("fixture_echo", {})).error["code"] == -32602
        for token in ("b", None):
            wire.token = token
            answer = await wire.list_tools()
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Bearer resource_metadata=")


async def test_changed_retry_is_refused(office: servers.Fixture) -> None:
    """The state of a multi-round-trip request is bound to the arguments, ``1`` and ``1.0`` told apart."""
    async with Wire(office.url, MODERN) as wire:
        first = (await wire.call("fixture_elicit", {"n": 1})).result
        more = {"requestState": first["requestState"], "inputResponses": {"q": {"action": "accept"}}}
        same = await wire.request("tools/call", {"name": "fixture_elicit", "arguments": {"n": 1}, **more})
        other = await wire.request("tools/call", {"name": "fixture_elicit", "arguments": {"n": 1.0}, **more})
    assert echoed(same.text)["answer"] == {"action": "accept"}
    assert other.error["data"] == {"reason": "invalid_request_state"}
