"""Two callers with different lists never see each other's tools."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from extproc.gateway import shipped
from extproc.gateway.options import Jwt
from tests.e2e.expect import LISTED, echoed, found, names
from tests.e2e.office import bodies, hits, until
from tests.fixture_server.state import label
from tests.gateway_config.conftest import AUDIENCE, ISSUER, Issuer, issuer
from tests.harness import servers
from tests.harness.client import LEGACY, MODERN, Answer, Wire
from tests.harness.gateway import SINGLE_UPSTREAM, Envoy
from tests.harness.processes import free_ports
from tests.harness.processor import Processor
from tests.harness.stack import Stack

__all__ = ["issuer"]

VERSIONS = [LEGACY[-1], MODERN]
FORGE, PAY, INK = "forgehub", "paywell", "inkwell"
QUERIES = ["delete a repository", "refund a customer", "list the newest entries", "create something"]


class Pair:
    """Tokens of two callers; each may see one server's tools and the echo tool."""

    def __init__(self, stack: Stack) -> None:
        self.forge, self.pay = f"forge-{secrets.token_hex(8)}", f"pay-{secrets.token_hex(8)}"
        self.tokens = {self.forge: [f"{FORGE}__*", "fixture_echo"], self.pay: [f"{PAY}__*", "fixture_echo"]}
        stack.office.set(tokens=self.tokens, anonymous=[f"{INK}__*"])

    def foreign(self, token: str | None) -> list[str]:
        """Words that must not appear in an answer to ``token``."""
        own = {self.forge: FORGE, self.pay: PAY, None: INK}[token]
        return [word for word in (FORGE, PAY, INK) if word != own]


def check(pair: Pair, token: str | None, answer: Answer) -> None:
    assert answer.status == 200, answer.body
    for word in pair.foreign(token):
        assert word.encode() not in answer.body


async def busy(stack: Stack, pair: Pair, token: str | None, version: str, rounds: int) -> None:
    """Search, describe, misspell and call, all the time, and look at every answer."""
    own = {pair.forge: FORGE, pair.pay: PAY, None: INK}[token]
    async with Wire(stack.url, version, token) as wire:
        for turn in range(rounds):
            listed = await wire.list_tools(number=f"{turn + 10}")
            assert names(listed.result["tools"]) == LISTED
            searched = await wire.search(QUERIES[turn % len(QUERIES)], own, limit=10)
            check(pair, token, searched)
            assert any(name.startswith(f"{own}__") for name in found(searched.text))
            check(pair, token, await wire.describe("create_charge", "delete_repository", "search_pages"))
            check(pair, token, await wire.read("list_repositorie", {}))
            check(pair, token, await wire.destroy("refund_charg", {}))
            if token is not None:
                text = f"{token[:5]}-{turn}"
                said = echoed((await wire.read("fixture_echo", {"text": text})).text)
                assert said == {"tool": "fixture_echo", "arguments": {"text": text}, "caller": label(token)}


@pytest.mark.parametrize("version", VERSIONS)
async def test_interleaved_callers(single: Stack, version: str) -> None:
    pair = Pair(single)
    callers = [pair.forge, pair.pay, None] * 3
    await asyncio.gather(*(busy(single, pair, token, version, 6) for token in callers))
    log = single.processor.process.log_text()
    for secret in (pair.forge, pair.pay, *QUERIES):
        assert secret not in log
    metrics = single.processor.metrics()
    for secret in (pair.forge, pair.pay):
        assert secret not in metrics


async def test_token_swapped_in_the_middle_of_a_session(single: Stack) -> None:
    pair = Pair(single)
    async with Wire(single.url, LEGACY[-1], pair.forge) as wire:
        for turn in range(6):
            wire.token = [pair.forge, pair.pay, None][turn % 3]
            own = [FORGE, PAY, INK][turn % 3]
            answer = await wire.search(own, limit=20)
            check(pair, wire.token, answer)
            assert any(name.startswith(f"{own}__") for name in found(answer.text))


@pytest.mark.parametrize("version", VERSIONS)
async def test_unknown_token_gets_the_upstream_refusal(single: Stack, version: str) -> None:
    """401, its challenge and its body arrive as the upstream sent them, on each kind of request."""
    pair = Pair(single)
    async with Wire(single.url, version, pair.forge) as wire:
        await wire.list_tools()
        wire.token = f"revoked-{secrets.token_hex(8)}"
        answers = [
            await wire.list_tools(),
            await wire.search("delete a repository"),
            await wire.describe(f"{FORGE}__delete_repository"),
            await wire.read("fixture_echo", {}),
        ]
        wire.url = single.raw_url
        raw = await wire.list_tools()
    for answer in answers:
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == raw.headers["www-authenticate"]
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert answer.body == raw.body


async def test_missing_token_gets_the_challenge(single: Stack) -> None:
    single.office.set(require_token=True)
    async with Wire(single.url, MODERN) as wire:
        answer = await wire.search("anything")
    assert answer.status == 401
    assert "resource_metadata=" in answer.headers["www-authenticate"]


async def test_insufficient_scope_passes_untouched(single: Stack) -> None:
    async with Wire(single.url, MODERN, secrets.token_hex(8)) as wire:
        await wire.list_tools()
        answer = await wire.write("fixture_fail_write", {"how": "403"})
    assert answer.status == 403
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="tools:write"'


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("token", ["someone", None])
async def test_cold_call(single: Stack, version: str, token: str | None) -> None:
    """Without a catalogue route the first call of an unknown caller learns the list and asks for another."""
    elsewhere = {"host": f"{secrets.token_hex(8)}.test"}
    async with Wire(
        single.url, version, token and f"{token}-{secrets.token_hex(8)}", extra=elsewhere
    ) as wire:
        first = await wire.read("fixture_echo", {"text": "x"})
        assert first.is_error
        assert "again" in first.text
        second = await wire.read("fixture_echo", {"text": "x"})
        wrong = await wire.read("fixture_write", {"text": "x"})
    assert echoed(second.text)["arguments"] == {"text": "x"}
    assert wrong.is_error


async def test_callers_on_joined_servers(joined: Stack) -> None:
    """Each sees what the raw route lists for the same token, which is all that a gateway hands on.

    Envoy's MCP router sends no credentials to its servers, so there everybody has the anonymous list.
    """
    pair = Pair(joined)
    seen: dict[str, set[str]] = {}
    for token in (pair.forge, pair.pay):
        async with Wire(joined.raw_url, "2025-06-18", token) as wire:
            seen[token] = set(names((await wire.list_tools()).result["tools"]))
    async with (
        Wire(joined.url, "2025-06-18", pair.forge) as forge,
        Wire(joined.url, "2025-06-18", pair.pay) as pay,
    ):
        for turn in range(4):
            for wire, token, own in ((forge, pair.forge, FORGE), (pay, pair.pay, PAY)):
                answer = await wire.search(f"{own} {QUERIES[turn]}", limit=20)
                hits = found(answer.text)
                assert hits
                assert set(hits) <= seen[token]


# Verified callers and profiles ------------------------------------------------------------------------------


@contextlib.contextmanager
def behind(gateway: Envoy, office: servers.Fixture, processor: Processor) -> Iterator[None]:
    with contextlib.ExitStack() as ends:
        for stop in (office.process.stop, processor.stop, gateway.stop):
            ends.callback(stop)
        office.process.start()
        processor.launch()
        office.process.wait_ready(office.ready)
        processor.process.wait_ready(processor.ready)
        gateway.start()
        yield


async def test_a_verified_caller_keeps_its_list_with_a_new_token(tmp_path: Path, issuer: Issuer) -> None:
    """A real JWT on the real gateway: the caller is its verified subject, whatever token says so."""
    file = tmp_path / "jwt.yaml"
    options = replace(shipped.SINGLE, jwt=Jwt(ISSUER, AUDIENCE, str(issuer.jwks)))
    file.write_text(shipped.envoy(options, ""), "utf-8")
    claim = "metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['sub']"
    (port,) = free_ports(1)
    office = servers.fixture(port, tmp_path)
    processor = Processor(tmp_path, caller={"attributes": [claim]}, search={"embedder": "none"})
    gateway = Envoy(file, {"office": port}, processor.port, tmp_path)
    with behind(gateway, office, processor):

        async def search(**claims: str) -> int:
            """How many lists the server has been asked for after one search by this caller."""
            made = issuer.token(scope="mcp:tools", jti=secrets.token_hex(4), **claims)
            async with Wire(gateway.url(), MODERN, made) as wire:
                assert "fixture_echo" in await hits(wire, "fixture_echo")
            return len(bodies(office, "tools/list"))

        assert await search(sub="ann") == 1
        assert await search(sub="ann") == 1
        assert await search(sub="bob") == 2
        """Somebody else's list is not used."""
        assert await search(sub="ann") == 2
        assert await search(sub="bob") == 2


@pytest.mark.parametrize("version", VERSIONS)
async def test_profiles_differ_in_everything_that_a_route_may_need(tmp_path: Path, version: str) -> None:
    """Two routes of one gateway on one processor: hides, overrides, catalogue URL, embedder, guidance."""
    (port,) = free_ports(1)
    office = servers.fixture(port, tmp_path)
    readonly = {
        "tools": {"hide": ["fixture_delete", "forgehub__*"], "overrides": {"fixture_write": "read"}},
        "catalog": {"url": office.url},
        "search": {"embedder": "none"},
        "instructions": {"text": "Only reading here; begin with search_tools."},
    }
    processor = Processor(tmp_path, profiles={"readonly": readonly})
    gateway = Envoy(SINGLE_UPSTREAM, {"office": port}, processor.port, tmp_path)
    manager = gateway.config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    routes = manager["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
    with_profile = copy.deepcopy(routes[-1])
    with_profile["match"] = {"path": "/mcp/readonly"}
    with_profile["route"]["prefix_rewrite"] = "/mcp"
    named = [{"key": "x-toolsearch-profile", "value": "readonly"}]
    kind = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
    overrides = {"@type": kind, "overrides": {"grpc_initial_metadata": named}}
    with_profile["typed_per_filter_config"] = {"envoy.filters.http.ext_proc": overrides}
    routes.insert(0, with_profile)
    with behind(gateway, office, processor):
        caller = secrets.token_hex(8)
        async with (
            Wire(gateway.url(), version, caller) as plain,
            Wire(gateway.url("/mcp/readonly"), version, caller) as reading,
        ):
            opened = [await guided(wire) for wire in (plain, reading)]
            assert [text.startswith("Only reading here") for text in opened] == [False, True]
            lists = [names((await wire.list_tools()).result["tools"]) for wire in (plain, reading)]
            assert [len(each) for each in lists] == [len(LISTED), len(LISTED) + 1]
            """Only the one with a URL offers call_read_tools."""
            shown = [await hits(wire, "delete a note fixture_delete") for wire in (plain, reading)]
            assert ["fixture_delete" in each for each in shown] == [True, False]
            shown = [await hits(wire, "forgehub repository") for wire in (plain, reading)]
            assert [any(name.startswith(f"{FORGE}__") for name in each) for each in shown] == [True, False]
            written = [await wire.read("fixture_write", {"text": "x"}) for wire in (plain, reading)]
            assert [answer.is_error for answer in written] == [True, False]

            async def sees_further() -> bool:
                best = [(await hits(wire, "give the buyer the money back"))[0] for wire in (plain, reading)]
                return best[0] != best[1]

            await until(sees_further, "an answer that only an embedder gives")
            """The first searches may be answered by words alone, until every tool is embedded."""


async def guided(wire: Wire) -> str:
    answer = await wire.request("server/discover") if wire.modern else wire.opened
    assert answer is not None
    return str(answer.result["instructions"])
