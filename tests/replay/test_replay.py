"""Exchanges are written down without credentials and run again to the same answers."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from extproc.cli import main
from extproc.exchange.messages import BodyArrived, HeadersArrived, Opening, Side
from extproc.processor import Processor
from extproc.replay import Blanks, NotARecording, Recorder, offline, replay
from extproc.settings import Limits, Server, Settings
from extproc.telemetry import Metrics
from tests.gateway.core import Core
from tests.gateway.peer import Gateway
from tests.gateway.variants import VARIANTS
from tests.scenarios.client import Client
from tests.scenarios.tools import raw
from tests.scenarios.upstream import MODERN, McpServer

SETTINGS = Settings.model_validate({"search": {"embedder": "none"}, "caller": {"attributes": ["sub"]}})
TRACES = Path(__file__).parent / "traces"
KEPT = {path.stem: path.read_text() for path in TRACES.glob("*.jsonl")}
SECRET = "s3cret-value"
NAMES = ["envoy-buffered", "agentgateway-two-messages", "envoy-duplex-odd-trailers"]


@pytest.fixture
async def processor() -> AsyncIterator[Processor]:
    found = Processor(offline(SETTINGS), {}, Metrics())
    await found.start()
    yield found
    await found.close()


async def record(path: Path, name: str, revision: str, processor: Processor, limit: int = 1 << 24) -> None:
    """A short session of one caller, written down."""
    variant = VARIANTS[name]
    recorder = Recorder(path, ("x-tenant",), limit)
    core = Core(processor.decide, Server(), Limits(), processor.observe, recorder)
    server = McpServer(revision, raw(), sse=True, trailers=variant.trailers, tokens={SECRET: raw()})
    config = variant.config.named(identity={"sub": f"{SECRET}-sub"})
    headers = (("authorization", f"Bearer {SECRET}"), ("cookie", f"a={SECRET}"), ("x-tenant", SECRET))
    client = Client(Gateway(config, core, server), revision, headers, variant.trailers)
    await client.open()
    await client.list()
    await client.search("send an email")
    await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {"to": "é"}})
    await client.call("call_read_tool", {"name": "mail__send"})
    await client.post(b"\xff\xfe")
    recorder.close()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("name", NAMES)
async def test_a_recording_is_answered_as_it_was(
    tmp_path: Path, processor: Processor, name: str, revision: str
) -> None:
    path = tmp_path / "trace.jsonl"
    await record(path, name, revision, processor)
    again = Processor(offline(SETTINGS), {}, Metrics())
    await again.start()
    found = await replay(path.read_text().splitlines(), {"": SETTINGS}.get, again)
    await again.close()
    assert len(found) >= 6
    assert [one.first_difference for one in found if not one.same] == []


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_no_credential_is_written(tmp_path: Path, processor: Processor, revision: str) -> None:
    path = tmp_path / "trace.jsonl"
    await record(path, NAMES[1], revision, processor)
    text = path.read_text()
    assert SECRET not in text
    assert "s-0" not in text  # the session
    assert "mail__send" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_equal_secrets_have_equal_stand_ins() -> None:
    blanks = Blanks(["X-Tenant"])
    headers = (
        ("authorization", "a"),
        ("cookie", "b"),
        ("x-tenant", "a"),
        (":path", "/mcp?k=a"),
        ("accept", "a"),
    )
    one, two, three, path, plain = (value for _, value in blanks.headers(headers))
    assert one == three != two
    assert path.startswith("/mcp?blanked-")
    assert plain == "a"
    assert blanks.headers((("authorization", "a"),))[0][1] == one


async def test_another_answer_is_told(tmp_path: Path, processor: Processor) -> None:
    path = tmp_path / "trace.jsonl"
    await record(path, NAMES[0], MODERN, processor)
    text = (
        path.read_text().replace("call_destructive_tool instead", "x").replace('"status":200', '"status":418')
    )
    again = Processor(offline(SETTINGS), {}, Metrics())
    await again.start()
    found = await replay(text.splitlines(), {"": SETTINGS}.get, again)
    await again.close()
    assert [one.same for one in found].count(False) >= 1
    assert all(one.same_shape for one in found)


async def test_a_full_recording_disturbs_nothing(tmp_path: Path, processor: Processor) -> None:
    path = tmp_path / "trace.jsonl"
    await record(path, NAMES[0], MODERN, processor, limit=3000)
    assert path.stat().st_size <= 3000
    found = await replay(path.read_text().splitlines(), {"": SETTINGS}.get, processor)
    assert found


BAD = {
    "not-json": "{",
    "no-object": "[1]",
    "no-number": '{"exchange":"1","event":{}}',
    "no-opening": '{"exchange":1,"event":{"kind":"body","side":"REQUEST","body":{"text":""},"end":true}}',
    "bad-mode": '{"exchange":1,"opening":{"request_mode":"LOUD"}}',
    "unknown-profile": json.dumps(
        {
            "exchange": 1,
            "opening": {
                "request_mode": "BUFFERED",
                "response_mode": "NONE",
                "dialect": "ENVOY",
                "attributes": {},
                "profile": "nobody",
            },
        }
    ),
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
async def test_what_is_no_recording_is_told_by_line(processor: Processor, line: str) -> None:
    with pytest.raises(NotARecording, match="line 2"):
        await replay(["", line], {"": SETTINGS}.get, processor)


@pytest.mark.parametrize("event", ["noise", "headers"])
async def test_a_bad_event_is_told(tmp_path: Path, processor: Processor, event: str) -> None:
    recorder = Recorder(tmp_path / "trace.jsonl")
    recorder(Opening(), Server(), Limits()).receive(HeadersArrived(Side.REQUEST, ((":method", "GET"),), True))
    recorder.close()
    lines = (tmp_path / "trace.jsonl").read_text().splitlines()
    lines.append(json.dumps({"exchange": 1, "event": {"kind": event, "side": "REQUEST", "headers": 5}}))
    with pytest.raises(NotARecording, match=f"line {len(lines)}"):
        await replay(lines, {"": SETTINGS}.get, processor)


def test_bytes_that_are_no_text_come_back(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "trace.jsonl")
    exchange = recorder(Opening(), Server(), Limits())
    exchange.receive(HeadersArrived(Side.REQUEST, ((":method", "POST"), ("x-latin", "\xff\xe9"))))
    exchange.receive(BodyArrived(Side.REQUEST, b"\xff\x00", True))
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert {"base64": "/wA="} in [line["event"].get("body") for line in lines if "event" in line]


@pytest.mark.parametrize("trace", sorted(KEPT), ids=str)
async def test_kept_traces_are_answered_in_the_same_way(processor: Processor, trace: str) -> None:
    found = await replay(KEPT[trace].splitlines(), {"": SETTINGS}.get, processor)
    assert found
    assert [one.first_difference for one in found if not one.same_shape] == []


def test_there_are_kept_traces() -> None:
    assert len(KEPT) >= 3


def test_the_command_compares(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSEARCH_SEARCH__EMBEDDER", "none")
    monkeypatch.setenv("TOOLSEARCH_CALLER__ATTRIBUTES", "sub")
    trace = str(TRACES / "envoy-buffered.jsonl")
    assert main(["replay", trace, "--shape"]) == 0
    assert "answered as recorded" in capsys.readouterr().out


def test_the_command_tells_differences_and_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSEARCH_SEARCH__EMBEDDER", "none")
    changed = tmp_path / "changed.jsonl"
    changed.write_text(
        (TRACES / "envoy-buffered.jsonl").read_text().replace('"kind":"Close"', '"kind":"Other"')
    )
    assert main(["replay", str(changed), "--shape"]) == 1
    assert "answered differently" in capsys.readouterr().out
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert main(["replay", str(empty)]) == 2
    assert main(["replay", str(tmp_path / "none.jsonl")]) == 2
    empty.write_bytes(b"\xff")
    assert main(["replay", str(empty)]) == 2
