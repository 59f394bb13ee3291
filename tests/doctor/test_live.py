"""``--live`` against scripted gateways: each fault shows at its step."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from extproc.gateway.doctor.live import NAMES, Mark, Step, Target, run_live

TARGET = Target("http://gateway.test/mcp", (("authorization", "Bearer secret-token"),), 5.0)
SIX = [{"name": name, "inputSchema": {"type": "object"}} for name in sorted(NAMES)]
EVENTS = {"content-type": "text/event-stream"}
BOTH = ("legacy", "modern")
RAW = [{"name": "a"}, {"name": "b"}]
Reply = dict[str, Any] | httpx.Response


class Gateway:
    """Answers like a working gateway, unless a method is replaced."""

    def __init__(
        self, *, eras: tuple[str, ...] = ("legacy", "modern"), sse: bool = False, **replaced: Reply
    ) -> None:
        self.eras = eras
        self.sse = sse
        self.replaced = replaced
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if request.method == "DELETE":
            return httpx.Response(200)
        body = json.loads(request.content)
        method = body["method"]
        modern = request.headers.get("mcp-protocol-version") == "2026-07-28"
        if ("modern" if modern else "legacy") not in self.eras:
            return httpx.Response(
                400, json={"jsonrpc": "2.0", "id": body.get("id"), "error": {"code": -32600}}
            )
        replaced = self.replaced.get(method.replace("/", "_"))
        if isinstance(replaced, httpx.Response):
            return replaced
        if "id" not in body:
            return httpx.Response(202)
        result = replaced or self._result(method)
        return self._send({"jsonrpc": "2.0", "id": body["id"], "result": result}, method)

    def _send(self, message: dict[str, Any], method: str) -> httpx.Response:
        headers = {"mcp-session-id": "s1"} if method == "initialize" else {}
        if not self.sse:
            return httpx.Response(200, json=message, headers=headers)
        ping = 'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\n\n: ping\n\n'
        text = f"{ping}event: message\ndata: {json.dumps(message)}\n\n"
        return httpx.Response(200, text=text, headers={**headers, "content-type": "text/event-stream"})

    def _result(self, method: str) -> dict[str, Any]:
        common: dict[str, Any] = {"capabilities": {"tools": {}}, "instructions": "Use search_tools first."}
        answers: dict[str, dict[str, Any]] = {
            "initialize": {"protocolVersion": "2025-06-18", **common},
            "server/discover": {"supportedVersions": ["2026-07-28"], **common},
            "tools/list": {"tools": SIX},
            "tools/call": {"content": [{"type": "text", "text": "found"}]},
        }
        return answers[method]


def live(gateway: Callable[[httpx.Request], httpx.Response]) -> list[Step]:
    return run_live(TARGET, httpx.MockTransport(gateway))


@pytest.mark.parametrize("sse", [False, True])
def test_a_working_gateway(sse: bool) -> None:
    gateway = Gateway(sse=sse)
    steps = live(gateway)
    assert [step.mark for step in steps] == [Mark.OK] * 6
    assert all(request.headers["authorization"] == "Bearer secret-token" for request in gateway.seen)
    assert gateway.seen[1].headers["mcp-session-id"] == "s1"
    assert [request.method for request in gateway.seen].count("DELETE") == 1
    modern = [request for request in gateway.seen if "mcp-method" in request.headers]
    assert [request.headers["mcp-method"] for request in modern] == [
        "server/discover",
        "tools/list",
        "tools/call",
    ]
    assert modern[-1].headers["mcp-name"] == "search_tools"
    assert "secret-token" not in "".join(step.shown for step in steps)
    assert "secret-token" not in repr(TARGET)


def test_a_server_of_one_era_is_no_fault() -> None:
    for eras in (("legacy",), ("modern",)):
        steps = live(Gateway(eras=eras))
        assert not any(step.failed for step in steps)
        assert [step.mark for step in steps].count(Mark.SKIPPED) == 1


def test_a_server_of_no_era_fails() -> None:
    assert all(step.failed for step in live(Gateway(eras=())))


REFUSALS = {
    "status": httpx.Response(404),
    "text": httpx.Response(400, text="session required"),
    "said": httpx.Response(
        400,
        json={"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "Unsupported \x1b[31mversion"}},
    ),
    "method": httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "error": {"code": -32601}}),
}
BROKEN = {
    "500": (httpx.Response(500), "HTTP 500, empty body"),
    "503": (httpx.Response(503, text="no healthy upstream"), "HTTP 503"),
    "504": (httpx.Response(504), "HTTP 504"),
    "401": (httpx.Response(401, text="who?"), "HTTP 401 without www-authenticate"),
    "redirect": (
        httpx.Response(308, headers={"location": "http://other/"}),
        "HTTP 308, empty body to http://other/",
    ),
    "internal": (
        httpx.Response(400, json={"id": 1, "error": {"code": -32603, "message": "Internal error"}}),
        "HTTP 400, JSON-RPC error -32603: Internal error",
    ),
    "html": (httpx.Response(200, text="<html>"), "not JSON"),
    "nothing": (httpx.Response(200, text=""), "without a result"),
    "half": (httpx.Response(200, text=": ping\n\n", headers=EVENTS), "the stream ended"),
}
GREETINGS = {"legacy": "initialize", "modern": "server_discover"}


def of(steps: list[Step], era: str) -> list[Step]:
    return [step for step in steps if ("2026-07-28" in step.name) == (era == "modern")]


@pytest.mark.parametrize("era", GREETINGS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refused_era_is_skipped_and_says_what_came_back(era: str, refusal: str) -> None:
    other = next(each for each in GREETINGS if each != era)
    answer = REFUSALS[refusal]
    replaced: Any = {GREETINGS[era]: answer, "tools_list": {"tools": SIX}}
    steps = live(Gateway(**replaced))
    assert of(steps, era)[0].mark is Mark.SKIPPED
    assert {step.mark for step in of(steps, other)} == {Mark.OK}
    said = of(steps, era)[0].shown
    assert (f"HTTP {answer.status_code}" if answer.status_code != 200 else "JSON-RPC error -32601") in said
    if refusal == "said":
        assert "JSON-RPC error -32022: Unsupported ?[31mversion" in said


@pytest.mark.parametrize("era", GREETINGS)
@pytest.mark.parametrize("case", BROKEN)
def test_an_era_that_fails_is_a_fault_though_the_other_works(era: str, case: str) -> None:
    other = next(each for each in GREETINGS if each != era)
    answer, says = BROKEN[case]
    replaced: Any = {GREETINGS[era]: answer}
    steps = live(Gateway(**replaced))
    (failed,) = of(steps, era)
    assert failed.failed
    assert says in failed.what
    assert failed.mend
    assert {step.mark for step in of(steps, other)} == {Mark.OK}


@pytest.mark.parametrize("era", GREETINGS)
def test_a_raw_list_is_a_fault_though_the_greeting_was_refused(era: str) -> None:
    """Servers without sessions list their tools to whoever asks."""

    class Lax(Gateway):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            modern = request.headers.get("mcp-protocol-version") == "2026-07-28"
            body = json.loads(request.content or b"{}")
            if modern == (era == "modern") and body.get("method") == "tools/list":
                return self._send(
                    {"jsonrpc": "2.0", "id": body["id"], "result": {"tools": RAW}}, "tools/list"
                )
            return super().__call__(request)

    steps = of(live(Lax(eras=tuple(each for each in GREETINGS if each != era))), era)
    assert [step.mark for step in steps] == [Mark.SKIPPED, Mark.FAILED]
    assert "2 tools, and not the six" in steps[1].what


@pytest.mark.parametrize("versions", [7, None, "2026-07-28", [None, {}]])
def test_odd_greetings_are_shown(versions: Any) -> None:
    common: dict[str, Any] = {"capabilities": {"tools": {}}}
    steps = live(
        Gateway(
            server_discover={"supportedVersions": versions, **common},
            initialize={"protocolVersion": "ž" if versions is None else versions, **common},
        )
    )
    assert [step.mark for step in steps] == [Mark.OK] * 6


def test_the_whole_list_shows_that_the_filter_does_nothing() -> None:
    steps = live(Gateway(tools_list={"tools": [{"name": "a"}, {"name": "b"}]}))
    failed = [step for step in steps if step.failed]
    assert len(failed) == 2
    assert "2 tools, and not the six" in failed[0].what
    assert "allow_mode_override" in failed[0].mend


def test_pinned_tools_and_a_missing_batch_tool_are_fine() -> None:
    tools = [each for each in SIX if each["name"] != "call_read_tools"] + [{"name": "pinned"}]
    steps = live(Gateway(tools_list={"tools": tools}))
    assert not any(step.failed for step in steps)
    assert "1 pinned, without call_read_tools" in steps[1].what


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "--header"),
        (404, "check the path"),
        (413, "buffer-limit"),
        (500, "reach the processor"),
        (503, "no healthy MCP server"),
        (504, "message-timeout"),
        (307, "final address"),
        (418, "gateway's log"),
    ],
)
def test_http_errors_are_explained(status: int, says: str) -> None:
    steps = live(lambda request: httpx.Response(status))
    assert f"HTTP {status}" in steps[0].what
    assert says in steps[0].mend
    assert steps[0].failed


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx.Response(200, text="<html>"), "not JSON"),
        (httpx.Response(200, json=[1]), "without a result"),
        (httpx.Response(200, text=""), "without a result"),
        (httpx.Response(200, json={"id": 1, "error": {"code": -32601, "message": "no"}}), "-32601"),
        (
            httpx.Response(200, text=": ping\n\n", headers={"content-type": "text/event-stream"}),
            "stream ended",
        ),
    ],
)
def test_answers_that_are_none(answer: httpx.Response, says: str) -> None:
    steps = live(Gateway(initialize=answer, server_discover=answer))
    assert says in steps[0].what
    assert steps[0].failed


def test_no_connection_is_said_once() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    (step,) = live(refuse)
    assert step.failed
    assert "no connection" in step.what


def test_a_time_out_is_a_failed_step() -> None:
    def slow(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    assert all(step.failed and "no answer in time" in step.what for step in live(slow))


def test_a_search_that_fails() -> None:
    steps = live(Gateway(tools_call={"isError": True, "content": [{"type": "text", "text": "x"}]}))
    assert [step.name.split(" ")[0] for step in steps if step.failed] == ["search_tools", "search_tools"]
