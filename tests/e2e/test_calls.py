"""Calls that cannot go wrong: checked before they are sent, helped when they fail, never repeated."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.expect import BUFFERED, FULL_DUPLEX, LISTED, OWN_ERRORS, UNREAD, echoed, found, lacks, names
from tests.e2e.office import bodies, calls, catalogue, finds, hits, requests, token, tool
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Answer, Wire, events
from tests.harness.gateway import SINGLE_UPSTREAM
from tests.harness.stack import Stack

VERSIONS = [LEGACY[-1], MODERN]
PLAIN: dict[str, Any] = {"search": {"embedder": "none"}}
SIX = [*LISTED[:3], "call_read_tools", *LISTED[3:]]
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
APPS = ["pixelforge__create_chart", "pulsegrid__render_dashboard", "ui__board"]
"""Tools with a user interface."""
RANGE = {"type": "integer", "minimum": 1, "maximum": 9}


@pytest.fixture(scope="module")
def _routed(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("calls")
    with stack.single_upstream(folder, gateway=gateway, catalogue_route=True, **PLAIN) as running:
        yield running


@pytest.fixture
def routed(_routed: Stack) -> Iterator[Stack]:
    _routed.office.reset()
    yield _routed
    _routed.office.replace_catalogue(catalogue())


def schema(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


async def through(wire: Wire, name: str, arguments: Any, by: str = "call_read_tool", **beside: Any) -> Answer:
    return await wire.call(by, {"name": name, "arguments": arguments, **beside})


# Arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_arguments_that_do_not_fit_are_not_sent(routed: Stack, version: str) -> None:
    """Each fault with its place, what was given and what is allowed; then the schema."""
    wanted = schema(
        {
            "level": RANGE,
            "colour": {"enum": ["red", "green"]},
            "who": schema({"mail": {"type": "string", "pattern": "^[^@]+@[^@]+$"}}, required=["id"]),
        },
        required=["level"],
        additionalProperties=False,
    )
    routed.office.replace_catalogue([tool("strict__paint", "Paint a wall", inputSchema=wanted)])
    async with Wire(routed.url, version, token()) as wire:
        given = {"level": 12, "colour": "blue", "who": {"mail": "nobody"}, "tint": 1}
        answer = await through(wire, "strict__paint", given)
        assert answer.is_error
        for line in (
            "arguments.level: 12 given, allowed: maximum 9",
            'arguments.colour: "blue" given, allowed: "red", "green"',
            'arguments.who.mail: "nobody" given, allowed: text that matches',
            "arguments.who: required member missing: id",
            "arguments: unknown member tint; allowed: level, colour, who",
        ):
            assert line in answer.text
        shown = json.loads(answer.text.partition("Its inputSchema: ")[2])
        assert shown["properties"]["level"]["maximum"] == 9
        assert calls(routed.office, "strict__paint") == []
        good = await through(wire, "strict__paint", {"level": 3, "colour": "red"})
        assert echoed(good.text)["arguments"] == {"level": 3, "colour": "red"}
        many = await through(wire, "strict__paint", {"level": 3, **{f"x{number}": 1 for number in range(50)}})
        assert len(many.text) < 4_000


@pytest.mark.parametrize(
    "dialect",
    [
        None,
        DRAFT_7,
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
async def test_the_dialect_is_the_schemas_own(routed: Stack, dialect: str | None) -> None:
    """``prefixItems`` means something from 2020-12 on only, an array of ``items`` before it only."""
    pair = schema({"a": {"prefixItems": [{"type": "integer"}]}, "b": {"items": [{"type": "integer"}]}})
    named = pair if dialect is None else {"$schema": dialect, **pair}
    newest = dialect is None or "2020" in dialect
    if newest:
        del named["properties"]["b"]
    routed.office.replace_catalogue([tool("strict__pair", "Pair things", inputSchema=named)])
    async with Wire(routed.url, MODERN, token()) as wire:
        first = await through(wire, "strict__pair", {"a": ["x"]})
        second = await through(wire, "strict__pair", {"b": ["x"]})
    assert first.is_error is newest
    assert second.is_error is not newest


async def test_no_schema_is_ever_fetched(routed: Stack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        port = trap.getsockname()[1]
        url = f"http://127.0.0.1:{port}/schema.json"
        routed.office.replace_catalogue(
            [
                tool("far__ref", "Follow a reference", inputSchema=schema({"a": {"$ref": url}})),
                tool(
                    "far__id", "Follow a base", inputSchema={"$id": url, **schema({"a": {"$ref": "b.json"}})}
                ),
                tool("far__meta", "Follow a dialect", inputSchema={"$schema": url, **schema({})}),
            ]
        )
        async with Wire(routed.url, MODERN, token()) as wire:
            for name in ("far__ref", "far__id", "far__meta"):
                answer = await through(wire, name, {"a": 1})
                assert echoed(answer.text)["arguments"] == {"a": 1}
        with pytest.raises(BlockingIOError):
            trap.accept()


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "objekt"},
        schema({"a": {"type": 7}}),
        schema({"a": {"minimum": "low"}}),
        schema({"a": {"$ref": "#/$defs/nowhere"}}),
        {"$ref": "#"},
        {"$schema": "urn:nobody", **schema({"a": {"type": "integer"}})},
        {"type": "object", "required": "a"},
    ],
    ids=json.dumps,
)
async def test_a_broken_schema_never_blocks_a_call(routed: Stack, broken: dict[str, Any]) -> None:
    routed.office.replace_catalogue([tool("broken__one", "Be broken", inputSchema=broken)])
    async with Wire(routed.url, MODERN, token()) as wire:
        answer = await through(wire, "broken__one", {"a": "x"})
    assert echoed(answer.text)["arguments"] == {"a": "x"}


def doubling(levels: int) -> dict[str, Any]:
    """Takes 2^levels steps where no branch fits."""
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"anyOf": [below, below]}
    return schema({"a": {"$ref": f"#/$defs/d{levels - 1}"}}, **{"$defs": definitions})


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: list[tuple[str, dict[str, Any], Any]] = [
    (
        "exponential",
        schema({"a": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}),
        "a" * 50_000,
    ),
    ("backreference", schema({"a": {"pattern": r"^(a+)+\1$"}}), "a" * 5_000 + "!"),
    (
        "names",
        schema({"a": {"patternProperties": {"^(a|a)*$": {"type": "integer"}}}}),
        {"a" * 3_000 + "!": "x"},
    ),
    ("repeated", schema({"a": {"pattern": "(a{1,900}){1,900}"}}), "a" * 10_000 + "!"),
    ("branches", doubling(40), "x"),
    ("unique", schema({"a": {"uniqueItems": True}}), [{"n": number} for number in range(20_000)]),
    ("depth", schema({"a": json.loads('{"items":' * 400 + "{}" + "}" * 400)}), nested(60)),
    ("width", schema({f"p{number}": {"pattern": f"^x{number}$"} for number in range(8_000)}), "y"),
    ("items", schema({"a": {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}), ["x"] * 60_000),
    (
        "itself",
        {"$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "integer"}]}}, "$ref": "#/$defs/n"},
        1,
    ),
    ("unevaluated", schema({}, unevaluatedProperties=False, patternProperties={"^(b+)+$": {}}), "b"),
]
"""Name, schema, and what stands under ``a``."""


async def test_no_schema_pattern_or_argument_holds_up_others(routed: Stack) -> None:
    """All of them at once, many times, while searches go on; every single request has its answer."""
    tools = [tool(f"hostile__{name}", "Be hostile", inputSchema=wanted) for name, wanted, _ in HOSTILE]
    routed.office.replace_catalogue(tools)
    late = outcomes(routed)["late"]
    async with Wire(routed.url, MODERN, token()) as wire:
        await hits(wire, "fixture_echo")
        work = [
            through(wire, f"hostile__{name}", {"a": value}) for name, _, value in HOSTILE for _ in range(3)
        ]
        searches = [wire.search("fixture_echo", number=str(number)) for number in range(1, 200)]
        answers = await asyncio.gather(*work, *searches)
    for answer in answers[: len(work)]:
        assert answer.is_error or "arguments" in echoed(answer.text)
    for answer in answers[len(work) :]:
        assert "fixture_echo" in found(answer.text)
    assert outcomes(routed)["late"] == late
    metrics = routed.processor.metrics()
    assert re.search(r'setting="calls.validate_arguments:pattern"} [1-9]', metrics)


def outcomes(running: Stack) -> dict[str, float]:
    """Exchanges by outcome."""
    counts = dict.fromkeys(("late", "failed"), 0.0)
    for line in running.processor.metrics().splitlines():
        if match := re.match(r'toolsearch_exchanges_total{.*outcome="(\w+)"} (\S+)', line):
            counts[match[1]] = counts.get(match[1], 0.0) + float(match[2])
    return counts


# Shapes of weak models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "given",
    [
        {"name": "fixture_echo", "arguments": '{"text":"x"}'},
        {"name": "fixture_echo", "text": "x"},
        {"name": "fixture_echo", "arguments": {}, "text": "x"},
        {"name": "fixture_echo", "parameters": {"text": "x"}},
        {"name": "fixture_echo", "args": '{"text":"x"}'},
        {"tool_name": "fixture_echo", "arguments": {"text": "x"}},
        {"name": "fixture_echo", "arguments": {"name": "fixture_echo", "arguments": {"text": "x"}}},
    ],
    ids=json.dumps,
)
async def test_known_misplacements_are_understood(routed: Stack, version: str, given: dict[str, Any]) -> None:
    async with Wire(routed.url, version, token()) as wire:
        for _ in range(2):
            answer = await wire.call("call_read_tool", given)
            assert echoed(answer.text)["arguments"] == {"text": "x"}
        first, second = calls(routed.office, "fixture_echo")
    assert first["params"] == second["params"]
    assert first["params"]["name"] == "fixture_echo"


async def test_a_misplacement_is_said_where_the_result_does_not_fit(routed: Stack) -> None:
    wanted = schema({"level": RANGE}, required=["level"], additionalProperties=False)
    routed.office.replace_catalogue([tool("strict__dial", "Turn a dial", inputSchema=wanted)])
    async with Wire(routed.url, MODERN, token()) as wire:
        beside = await wire.call("call_read_tool", {"name": "strict__dial", "level": 70})
        both = await wire.call(
            "call_read_tool", {"name": "strict__dial", "arguments": {"level": 3}, "level": 4}
        )
        assert calls(routed.office, "strict__dial") == []
    assert "arguments.level: 70 given" in beside.text
    assert "taken from beside name" in beside.text
    assert "beside it: level" in both.text


# Names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "wrong",
    ["tracklane_create_issue", "Tracklane__CreateIssue", "trackline__create_issue", "tracklane__creat_issue"],
)
async def test_a_name_that_is_clearly_meant_comes_with_its_schema(
    routed: Stack, version: str, wrong: str
) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await through(wire, wrong, {}, "call_write_tool")
    assert answer.is_error
    assert "tracklane__create_issue" in answer.text
    if "Did you mean" in answer.text:
        assert '"project"' in answer.text.partition("inputSchema")[2]
    assert bodies(routed.office, "tools/call") == []


async def test_names_come_from_the_callers_own_catalogue_only(routed: Stack) -> None:
    caller = token()
    routed.office.set(tokens={caller: ["paywell__*"]})
    async with Wire(routed.url, MODERN, caller) as wire:
        answer = await through(wire, "tracklane__create_issu", {}, "call_write_tool")
        missing = await wire.describe("tracklane__create_issue")
    assert "tracklane__create_issue" not in answer.text.replace("'tracklane__create_issu'", "")
    assert "inputSchema" not in missing.text


# What the server says --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_invalid_params_keep_the_servers_words_and_get_the_schema(
    routed: Stack, gateway: str, version: str, answers: str
) -> None:
    lacks(gateway, (BUFFERED,), UNREAD)
    routed.office.set(answers=answers)
    async with Wire(routed.url, version, token()) as wire:
        answer = await wire.read("fixture_fail", {"how": "invalid_params"}, number='"n"')
        plain = await wire.read("fixture_fail", {"how": "is_error"})
        other = await wire.read("fixture_fail", {"how": "500"})
    assert answer.response["id"] == "n"
    assert answer.error["code"] == -32602
    message = answer.error["message"]
    assert message.startswith("Invalid params: how must be something else")
    assert json.loads(message.partition("Its inputSchema: ")[2])["properties"]["how"]
    assert plain.text == "The upstream system said no."
    assert "inputSchema" not in other.body.decode()


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_is_not_held_back_for_it(routed: Stack, version: str) -> None:
    """The question arrives while the call waits for its answer, so nothing can have waited for the end."""
    async with Wire(routed.url, version, token()) as wire:
        await hits(wire, "fixture_progress")
        params = {
            "name": "call_read_tool",
            "arguments": {"name": "fixture_progress", "arguments": {"steps": 3, "delay": 0.5}},
            "_meta": {"progressToken": "p"},
        }
        made = wire.headers("tools/call", "call_read_tool")
        seen: list[tuple[str, int]] = []
        async with wire.http.stream(
            "POST", wire.url, content=wire.encode("tools/call", params, "1"), headers=made
        ) as answer:
            async for chunk in answer.aiter_raw():
                for data in events(chunk):
                    done = bool(routed.office.received()[-1]["status"])
                    seen.append(("result" if "result" in json.loads(data) else "progress", done))
    assert [kind for kind, _ in seen] == ["progress", "progress", "progress", "result"]
    assert len(seen) == 4


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unknown_tool_is_said_and_the_list_read_again(
    routed: Stack, gateway: str, version: str
) -> None:
    lacks(gateway, (BUFFERED,), UNREAD)
    async with Wire(routed.url, version, token()) as wire:
        await hits(wire, "fixture_fail")
        routed.office.forget()
        answer = await wire.read("fixture_fail", {"how": "unknown_tool"})
        assert answer.is_error
        assert answer.text.startswith("Unknown tool: it went away")
        assert "being read again" in answer.text
        routed.office.replace_catalogue([tool("new__gadget", "Polish a gadget")])
        await finds(wire, "new__gadget", "polish a gadget")


async def test_results_are_left_alone_where_nobody_watches(
    gateway: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("unwatched")
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, calls={"watch_results": False}, **PLAIN
    ) as running:
        async with Wire(running.url, MODERN, token()) as wire:
            answer = await wire.read("fixture_fail", {"how": "invalid_params"})
            assert answer.error["message"] == "Invalid params: how must be something else"
            lost = await wire.write("fixture_fail_write", {"how": "503"})
            assert lost.status == 503


# Writes without a result -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["502", "503", "504", "reset"])
async def test_a_change_without_a_result_says_whether_repeating_is_safe(
    routed: Stack, gateway: str, version: str, how: str
) -> None:
    lacks(gateway, (BUFFERED, FULL_DUPLEX), OWN_ERRORS)
    async with Wire(routed.url, version, token()) as wire:
        write = await wire.write("fixture_fail_write", {"how": how}, number='"w"')
        delete = await wire.destroy("fixture_fail_delete", {"how": how})
        read = await wire.read("fixture_fail", {"how": how})
    assert write.response["id"] == "w"
    assert write.is_error
    assert "got no result" in write.text
    assert "marks the tool idempotent, so making the same call again is safe" in write.text
    assert delete.is_error
    assert "does not mark the tool idempotent" in delete.text
    assert read.status == (503 if how == "reset" else int(how))
    for name in ("fixture_fail_write", "fixture_fail_delete", "fixture_fail"):
        assert len(calls(routed.office, name)) == 1
    """Nothing is sent twice."""


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_change_that_the_gateway_gives_up_says_so(
    gateway: str, tmp_path_factory: pytest.TempPathFactory, version: str
) -> None:
    lacks(gateway, (BUFFERED, FULL_DUPLEX), OWN_ERRORS)
    folder = tmp_path_factory.mktemp("impatient")
    tools = {"overrides": {"fixture_slow": "write"}}
    with stack.single_upstream(
        folder, impatient(folder), catalogue_route=True, tools=tools, **PLAIN
    ) as running:
        async with Wire(running.url, version, token()) as wire:
            answer = await wire.write("fixture_slow", {"seconds": 20})
            assert answer.is_error
            assert "got no result (HTTP 504)" in answer.text
            assert "does not mark the tool idempotent" in answer.text
            assert len(calls(running.office, "fixture_slow")) == 1


def impatient(folder: Path) -> Path:
    """The shipped file with one second for each call."""
    config = yaml.safe_load(SINGLE_UPSTREAM.read_text("utf-8"))
    (listener,) = config["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
        route["route"]["timeout"] = "1s"
    file = folder / "impatient.yaml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    return file


async def test_a_result_that_breaks_off_is_not_asked_for_again(routed: Stack) -> None:
    """Part of an answer has gone out: the client sees the break, and nothing is repeated."""
    async with Wire(routed.url, MODERN, token()) as wire:
        with pytest.raises(httpx.RemoteProtocolError):
            await wire.write("fixture_fail_write", {"how": "half"})
    assert len(calls(routed.office, "fixture_fail_write")) == 1


# The operator's corrections --------------------------------------------------------------------------------


CORRECTED: dict[str, Any] = {
    "overrides": {"fixture_wri*": "read", "fixture_unannotated": "write", "fixture_echo": "destructive"},
    "hide": ["paywell__*"],
    "pin": ["fixture_region"],
    "pin_apps": True,
}
BOARD = tool("ui__board", "Show a board", _meta={"ui": {"resourceUri": "ui://b"}})


@pytest.fixture(scope="module")
def _corrected(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("corrected")
    deny: dict[str, Any] = {"direct": "deny"}
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, tools=CORRECTED, calls=deny, **PLAIN
    ) as running:
        running.office.replace_catalogue([*catalogue(), BOARD])
        yield running


@pytest.fixture
def corrected(_corrected: Stack) -> Stack:
    """Overridden, hidden and pinned tools; other direct calls denied."""
    _corrected.office.reset()
    return _corrected


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_operator_overrides_what_servers_say(corrected: Stack, version: str) -> None:
    async with Wire(corrected.url, version, token()) as wire:
        assert echoed((await wire.read("fixture_write", {"text": "x"})).text)["tool"] == "fixture_write"
        assert echoed((await wire.write("fixture_unannotated", {})).text)["tool"] == "fixture_unannotated"
        assert echoed((await wire.destroy("fixture_echo", {})).text)["tool"] == "fixture_echo"
        assert "use call_destructive_tool" in (await wire.read("fixture_echo", {})).text


@pytest.fixture(scope="module")
def lacking(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A server that does not have what ``corrected`` hides; nothing is hidden."""
    folder = tmp_path_factory.mktemp("lacking")
    tools = {**CORRECTED, "hide": []}
    deny: dict[str, Any] = {"direct": "deny"}
    with stack.single_upstream(
        folder, gateway=gateway, catalogue_route=True, tools=tools, calls=deny, **PLAIN
    ) as running:
        running.office.replace_catalogue(
            [*(each for each in catalogue() if not each["name"].startswith("paywell__")), BOARD]
        )
        yield running


@pytest.mark.parametrize("version", VERSIONS)
async def test_hidden_and_absent_cannot_be_told_apart(corrected: Stack, lacking: Stack, version: str) -> None:
    """The same bytes for a tool that is hidden and for one that is not there, however it is asked for."""

    async def ask(running: Stack) -> list[bytes]:
        name = "paywell__create_charge"
        async with Wire(running.url, version, token()) as wire:
            pair = {"calls": [{"name": name}, {"name": name}]}
            answers = [
                await wire.call(name, {"amount": 5}),
                await wire.search("create a charge with paywell", limit=25),
                await wire.search("create", server="paywell"),
                await wire.describe(name, "paywell_create_charge", "create_charge"),
                await wire.read(name, {}),
                await wire.write(name, {"amount": 5}),
                await wire.destroy(name, {}),
                await wire.call("call_read_tools", pair),
                await wire.call(name, {"amount": 5}),
            ]
        return [answer.body for answer in answers]

    assert await ask(corrected) == await ask(lacking)
    assert bodies(corrected.office, "tools/call") == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_pinned_tools_stand_beside_the_six_and_are_called_directly(
    corrected: Stack, version: str
) -> None:
    async with Wire(corrected.url, version, token()) as wire:
        for _ in range(2):
            listed = (await wire.list_tools()).result["tools"]
            assert names(listed) == [*SIX, "fixture_region", *APPS]
        wire.url = corrected.raw_url
        raw = {each["name"]: each for each in (await wire.list_tools()).result["tools"]}
        assert all(listed[place] == raw[each] for place, each in enumerate(names(listed)[6:], 6))
        wire.url = corrected.url
        region = {"mcp-param-region": "eu"} if wire.modern else {}
        params = {"name": "fixture_region", "arguments": {"region": "eu"}}
        direct = await wire.request("tools/call", params, **region)
        assert echoed(direct.text)["arguments"] == {"region": "eu"}
        assert echoed((await wire.call("ui__board", {})).text)["tool"] == "ui__board"
        assert echoed((await wire.read("fixture_region", {"region": "eu"})).text)["tool"] == "fixture_region"


@pytest.mark.parametrize("version", VERSIONS)
async def test_other_real_names_are_denied(corrected: Stack, version: str) -> None:
    async with Wire(corrected.url, version, token()) as wire:
        cold = await wire.call("fixture_echo", {"text": "x"})
        await wire.list_tools()
        warm = await wire.call("fixture_echo", {"text": "x"})
    for answer in (cold, warm):
        assert answer.error["code"] == -32602
        assert "search_tools" in answer.error["message"]
    assert bodies(corrected.office, "tools/call") == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_real_names_pass_by_default(routed: Stack, version: str) -> None:
    async with Wire(routed.url, version, token()) as wire:
        answer = await wire.call("fixture_echo", {"text": "x"}, number='"d"')
        ((_, message),) = requests(routed.office, "tools/call")
    assert echoed(answer.text)["arguments"] == {"text": "x"}
    assert message["id"] == "d"


async def test_the_six_say_what_is_behind_them(routed: Stack) -> None:
    async with Wire(routed.url, MODERN, token()) as wire:
        first, second = (await wire.list_tools(), await wire.list_tools())
    assert first.result["tools"] == second.result["tools"]
    assert re.search(
        r"Connected servers: .*\bpaywell\b.*\band \d+ more\.$", first.result["tools"][0]["description"]
    )
