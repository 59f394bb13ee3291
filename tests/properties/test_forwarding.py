"""What is forwarded keeps its bytes, whatever JSON it is, and every body gets one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from extproc.exchange.messages import Headers
from tests.gateway.chunking import sized
from tests.gateway.config import Config
from tests.gateway.core import Core
from tests.gateway.peer import Gateway
from tests.gateway.variants import VARIANTS
from tests.gateway.wire import HttpRequest, HttpResponse
from tests.scenarios.client import Client, joined
from tests.scenarios.upstream import MODERN
from tests.scenarios.world import Setup, World

# Raw JSON, as odd as the grammar allows --------------------------------------------------------------------

blank = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r\n"])
numbers = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["0", "-0", "1", "-12", "1180591620717411303424"]),
        st.sampled_from(["", ".0", ".10", ".000000000000000000001"]),
        st.sampled_from(["", "e5", "E+05", "e-400", "E400"]),
        st.just(""),
    ),
)
pieces = st.sampled_from(
    [
        "a",
        "é",
        "✓",
        "😀",
        "\\u0000",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\/",
        "/",
        "\\n",
        '\\"',
        "\\\\",
        " ",
        "name",
    ]
)
strings = st.lists(pieces, max_size=5).map(lambda parts: '"' + "".join(parts) + '"')
leaves = numbers | strings | st.sampled_from(["true", "false", "null", "{}", "[]", "[ ]"])


def arrays(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(blank, children), max_size=4).map(
        lambda items: "[" + ",".join(gap + item for gap, item in items) + "]"
    )


def objects(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Names may repeat."""
    member = st.tuples(blank, strings, blank, children, blank)
    return st.lists(member, max_size=4).map(
        lambda items: "{" + ",".join(f"{a}{name}{b}:{value}{c}" for a, name, b, value, c in items) + "}"
    )


values = st.recursive(leaves, lambda children: arrays(children) | objects(children), max_leaves=12)
raw_objects = objects(values).map(str.encode)
raw_values = values.map(str.encode)
ids = st.one_of(st.integers(-(1 << 70), 1 << 70).map(str), strings).map(str.encode)
deep = b'{"a":' * 60 + b"1.0" + b"}" * 60


class Bench:
    """A warm world on a loop of its own."""

    def __init__(self, variant: str, revision: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.world: World = Setup(VARIANTS[variant], revision, False).world(sessions=False)
        self.client: Client = self.loop.run_until_complete(self.world.warm())

    def close(self) -> None:
        self.loop.run_until_complete(self.world.processor.close())
        self.loop.close()


@pytest.fixture(
    scope="module",
    params=[
        ("envoy-buffered", MODERN),
        ("agentgateway-two-messages", "2025-11-25"),
        ("envoy-duplex-odd", MODERN),
    ],
    ids=lambda pair: "-".join(pair),
)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    found = Bench(*request.param)
    yield found
    found.close()


quick = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(arguments=raw_objects, id=ids)
@example(arguments=deep, id=b"1")
@example(arguments=b'{"a":1,"a":1.0,"b":1180591620717411303424,"c":1E400}', id=b'"\\u0031"')
def test_arguments_and_id_keep_their_bytes(bench: Bench, arguments: bytes, id: bytes) -> None:
    inner = {"arguments": arguments, "name": "mail__send"}
    reply = bench.loop.run_until_complete(bench.client.call("call_destructive_tool", inner, id))
    assert reply.outcome.upstream is not None, (reply.text, arguments)
    assert reply.sent_params["arguments"] == arguments
    assert (reply.sent["id"], reply.message["id"]) == (id, id)


@quick
@given(state=raw_values, responses=raw_objects, unknown=raw_values, meta=raw_values, id=ids)
def test_other_params_keep_their_bytes(
    bench: Bench, state: bytes, responses: bytes, unknown: bytes, meta: bytes, id: bytes
) -> None:
    params = {"requestState": state, "inputResponses": responses, "x": unknown}
    client = bench.client
    inner = {"name": "mail__send", "arguments": {}}
    own: dict[str, object] = client.meta() if client.modern else {}
    kept: dict[str, object] = {**params, "_meta": {**own, "vendor/x": meta}}
    reply = bench.loop.run_until_complete(
        client.send("tools/call", {"name": "call_destructive_tool", "arguments": inner, **kept}, id=id)
    )
    sent = reply.sent_params
    assert {key: sent[key] for key in params} == params
    assert b'"vendor/x":' + meta in sent["_meta"]


@quick
@given(id=ids, queries=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5))
def test_a_local_answer_carries_the_id_as_it_came(bench: Bench, id: bytes, queries: list[str]) -> None:
    reply = bench.loop.run_until_complete(bench.client.call("search_tools", {"queries": queries}, id))
    assert reply.outcome.local
    assert reply.message["id"] == id


# Any bytes -------------------------------------------------------------------------------------------------

methods = st.sampled_from(
    [
        b'"initialize"',
        b'"server/discover"',
        b'"tools/list"',
        b'"tools/call"',
        b'"ping"',
        b"5",
        b'"x"',
        b"null",
    ]
)
names = st.sampled_from(
    [b'"search_tools"', b'"describe_tool"', b'"call_read_tool"', b'"call_read_tools"', b'"mail__send"', b"1"]
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from([b'"2.0"', b"2", b"null"]),
        "id": raw_values,
        "method": methods,
        "params": raw_values
        | st.fixed_dictionaries(
            {},
            optional={
                "name": names,
                "arguments": raw_values
                | st.fixed_dictionaries(
                    {},
                    optional={
                        "queries": raw_values,
                        "names": raw_values,
                        "name": names,
                        "arguments": raw_values,
                        "calls": raw_values,
                    },
                ).map(joined),
                "_meta": raw_values,
                "cursor": raw_values,
                "requestState": raw_values,
            },
        ).map(joined),
        "result": raw_values,
    },
).map(joined)
bodies = st.one_of(
    st.binary(max_size=80),
    raw_values,
    fields,
    fields.map(lambda one: b"[" + one + b"]"),
    st.tuples(fields, st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]]),
)
header_names = st.sampled_from(
    [
        "content-type",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "last-event-id",
        "authorization",
        "mcp-param-a",
        "accept",
        "content-encoding",
    ]
)
header_values = st.one_of(
    st.sampled_from(
        [
            "application/json",
            MODERN,
            "2025-11-25",
            "tools/call",
            "search_tools",
            "=?base64?!?=",
            "=?base64?eA==?=",
        ]
    ),
    st.text(
        st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), min_size=1, max_size=12
    ),
)
headers = st.lists(st.tuples(header_names, header_values), max_size=6).map(tuple)
answers = st.one_of(bodies, bodies.map(lambda one: b"data: " + one.replace(b"\n", b"") + b"\n\n"))
variants = st.sampled_from(list(VARIANTS.values()))


@pytest.fixture(scope="module")
def worlds() -> Iterator[tuple[asyncio.AbstractEventLoop, World]]:
    loop = asyncio.new_event_loop()
    world = Setup(VARIANTS["envoy-buffered"], MODERN, False).world({"caller": {"anonymous": "shared"}})
    loop.run_until_complete(world.warm())
    yield loop, world
    loop.run_until_complete(world.processor.close())
    loop.close()


@settings(quick, max_examples=400)
@given(
    body=bodies,
    sent=headers,
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    answer=answers,
    media=st.sampled_from(["application/json", "text/event-stream", "text/html", ""]),
    status=st.sampled_from([200, 200, 202, 400, 401, 404, 500]),
    method=st.sampled_from(["POST", "POST", "POST", "GET", "DELETE", "PATCH"]),
    name=variants,
)
def test_any_bytes_get_one_answer(
    worlds: tuple[asyncio.AbstractEventLoop, World],
    caplog: pytest.LogCaptureFixture,
    body: bytes,
    sent: Headers,
    sizes: tuple[int, int],
    answer: bytes,
    media: str,
    status: int,
    method: str,
    name: object,
) -> None:
    loop, world = worlds
    variant = name
    assert hasattr(variant, "config")
    config: Config = variant.config.named(request_chunks=sized(sizes[0]), response_chunks=sized(sizes[1]))
    calls = 0

    def upstream(request: HttpRequest) -> HttpResponse:
        nonlocal calls
        calls += 1
        return HttpResponse(status, (("content-type", media),), (answer,) if answer else ())

    caplog.clear()
    core = Core(world.processor.decide, world.settings.server, world.settings.limits, world.processor.observe)
    outcome = loop.run_until_complete(
        Gateway(config, core, upstream).send(HttpRequest(method, "/mcp", sent, body))
    )
    assert calls == (0 if outcome.local else 1)
    assert outcome.dropped == ()
    assert core.errors == []
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
