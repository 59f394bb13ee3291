"""Who is asking, where the gateway takes the credential off before the processor sees it."""

from __future__ import annotations

import logging

import pytest

from extproc.exchange.messages import Headers, Opening
from tests.agentgateway.support import MODES, behind, metric, setup
from tests.gateway.variants import VARIANTS
from tests.scenarios.upstream import MODERN
from tests.scenarios.world import ALICE, Setup
from tests.upstream.servers import McpServer, serving, until

NAMELESS = {"name": "toolsearch_warnings_total", "setting": "caller.attributes"}


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "neither a credential" in record.getMessage()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_callers_without_a_name_are_told_once_and_counted(
    mode: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = setup(mode, revision).world()
    client = behind(world)
    await client.open()
    await client.list()
    await client.search("email")
    (record,) = told(caplog)
    assert record.levelno == logging.WARNING
    assert record.fields == {"setting": "caller.attributes"}  # type: ignore[attr-defined]
    for part in ("requestAttributes", "jwt.sub", "caller.attributes: [sub]", "caller.anonymous: shared"):
        assert part in record.getMessage()
    assert metric(world, **NAMELESS) == 3


async def test_on_envoy_the_mend_is_envoys(caplog: pytest.LogCaptureFixture) -> None:
    world = Setup(VARIANTS["envoy-buffered"], MODERN, False).world()
    await world.client(()).list()
    (record,) = told(caplog)
    assert "request_attributes" in record.getMessage()
    assert "agentgateway" not in record.getMessage()


NAMED: dict[str, tuple[dict[str, object], Headers, dict[str, str]]] = {
    "a credential": ({}, (("x-api-key", "k"),), {}),
    "a verified attribute": ({"caller": {"attributes": ["sub"]}}, ALICE, {"sub": "alice"}),
    "a token attribute": ({"catalog": {"token_attribute": "token"}}, ALICE, {"token": "t"}),
    "shared on purpose": ({"caller": {"anonymous": "shared"}}, ALICE, {}),
}


@pytest.mark.parametrize("case", NAMED)
async def test_named_callers_are_not_warned_about(case: str, caplog: pytest.LogCaptureFixture) -> None:
    settings, headers, identity = NAMED[case]
    world = setup().world(settings)
    client = behind(world, headers, strip=True, **identity)
    await client.open()
    await client.list()
    assert told(caplog) == []
    assert metric(world, **NAMELESS) == 0


async def test_an_attribute_nobody_asked_for_is_no_name(caplog: pytest.LogCaptureFixture) -> None:
    world = setup().world({"caller": {"attributes": ["sub"]}})
    await behind(world, email="a@b.test").open()
    assert told(caplog)


async def test_what_is_not_touched_needs_no_name(caplog: pytest.LogCaptureFixture) -> None:
    world = setup().world()
    client = behind(world)
    client.session, client.opened = "s-0", True
    world.server.open_sessions.add("s-0")
    await client.get()
    await client.send("resources/list")
    await client.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    await client.get("DELETE")
    assert len(world.server.calls) == 2
    assert told(caplog) == []
    assert metric(world, **NAMELESS) == 0


async def test_two_callers_without_a_name_share_nothing() -> None:
    world = setup(revision=MODERN).world()
    await behind(world).list()
    assert not (await behind(world, (("authorization", "Bearer bob"),)).search("email")).outcome.local


# The token, passed on as an attribute ----------------------------------------------------------------------


def with_route(url: str, **caller: object) -> dict[str, object]:
    return {
        "caller": {"attributes": ["sub"], **caller},
        "catalog": {"url": url, "token_attribute": "token"},
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_token_attribute_authenticates_to_the_catalogue_route(mode: str, revision: str) -> None:
    route = McpServer(tools=["mail__find"], tokens={"Bearer t-alice"})
    async with serving(route) as served:
        world = setup(mode, revision).world(with_route(served.url))
        client = behind(world, sub="alice", token="t-alice")
        client.session, client.opened = ("s-0", True) if revision != MODERN else (None, False)
        route.sessions["s-0"] = True
        found = await client.search("find mail")
        assert found.outcome.local
        assert "mail__find" in found.text
        sent = [dict(request.headers) for request in served.requests]
        assert {headers.get("authorization") for headers in sent} == {"Bearer t-alice"}
        assert not any(value == "t-alice" for headers in sent for value in headers.values())


async def test_the_token_of_a_request_of_its_own_wins() -> None:
    route = McpServer(tools=["mail__find"], tokens={"Bearer alice"})
    async with serving(route) as served:
        world = setup(revision=MODERN).world(with_route(served.url))
        client = behind(world, ALICE, strip=False, sub="alice", token="another")
        assert "mail__find" in (await client.search("find mail")).text
        sent = [value for each in served.requests for name, value in each.headers if name == "authorization"]
        assert sent == ["Bearer alice"] * len(served.requests)


@pytest.mark.parametrize("token", ["", "t\r\nx-evil: 1", "t\x00"])
async def test_a_token_that_is_none_is_not_sent(token: str) -> None:
    async with serving(McpServer(tokens={"Bearer t"})) as served:
        world = setup(revision=MODERN).world(with_route(served.url))
        found = await behind(world, sub="alice", token=token).search("email")
        assert found.outcome.upstream is not None  # the exchange itself reads the list
        assert "mail__send" in found.text
        assert all(request.header("x-evil") is None for request in served.requests)
        assert all(request.header("authorization") is None for request in served.requests)


async def test_tokens_tell_callers_apart_even_where_anonymous_callers_are_one() -> None:
    world = setup(revision=MODERN).world(
        {"caller": {"anonymous": "shared"}, "catalog": {"token_attribute": "token"}}
    )
    await behind(world, token="t-alice").list()
    assert (await behind(world, token="t-alice").search("email")).outcome.local
    assert not (await behind(world, token="t-bob").search("email")).outcome.local


async def test_a_token_reaches_no_log_metric_answer_or_representation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "t-s3cret"
    async with serving(McpServer(tokens={"Bearer other"})) as served:
        world = setup(revision=MODERN).world(with_route(served.url))
        client = behind(world, sub="alice", token=secret)
        answers = [await client.search("email"), await client.list(), await client.call("call_read_tool")]
        await until(lambda: served.requests)
        shown = [answer.http.body.decode() for answer in answers]
        shown += [str(vars(record)) for record in caplog.records]
        shown += [str(sample) for family in world.metrics.registry.collect() for sample in family.samples]
        shown.append(repr(Opening(attributes={"token": secret})))
        assert not [text for text in shown if secret in text]


def test_the_header_of_the_token_has_to_tell_callers_apart(capsys: pytest.CaptureFixture[str]) -> None:
    from extproc.cli import main

    arguments = ["serve", "--check", "--catalog.token_attribute", "token"]
    assert main(arguments) == 0
    assert main([*arguments, "--caller.headers", "x-api-key"]) == 2
    assert "caller.headers has to name" in capsys.readouterr().err
