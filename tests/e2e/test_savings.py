"""``savings`` and the client that reads a live tool list, both eras."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extproc.cli import main
from extproc.cli.remote import RemoteError, fetch_tools, parse_headers
from tests.e2e.expect import FIRST_PAGE, envoy_only, names
from tests.harness.processes import free_ports
from tests.harness.servers import CATALOGUE
from tests.harness.stack import Stack


@pytest.mark.parametrize("era", ["both", "legacy", "modern"])
@pytest.mark.parametrize("answers", ["json", "sse"])
def test_all_pages_of_a_live_list(single: Stack, era: str, answers: str) -> None:
    envoy_only(single, FIRST_PAGE)
    single.office.set(era=era, answers=answers, page_size=50)
    tools = fetch_tools(single.raw_url, {})
    expected = {json.loads(line)["name"] for line in CATALOGUE.read_text("utf-8").splitlines()}
    assert expected <= set(names(tools))
    assert single.office.state()["sessions"] == 0 or era != "modern"


def test_legacy_session_is_ended(single: Stack) -> None:
    single.office.set(era="legacy")
    before = single.office.state()["sessions"]
    fetch_tools(single.raw_url, {})
    assert single.office.state()["sessions"] == before


def test_joined_servers(joined: Stack) -> None:
    assert joined.name("fixture_echo") in names(fetch_tools(joined.raw_url, {}))


def test_credential_is_sent(single: Stack) -> None:
    single.office.set(tokens={"t0k": ["paywell__*"]}, require_token=True)
    tools = fetch_tools(single.raw_url, parse_headers(["Authorization: Bearer t0k"]))
    assert tools
    assert all(name.startswith("paywell__") for name in names(tools))
    with pytest.raises(RemoteError, match="--header 'Authorization: Bearer"):
        fetch_tools(single.raw_url, {})


def test_clear_errors(single: Stack) -> None:
    (closed,) = free_ports(1)
    with pytest.raises(RemoteError, match="is the gateway running"):
        fetch_tools(f"http://127.0.0.1:{closed}/mcp", {})
    with pytest.raises(RemoteError, match="http://"):
        fetch_tools("localhost:1/mcp", {})
    with pytest.raises(RemoteError, match="is the path right"):
        fetch_tools(f"http://127.0.0.1:{single.office.port}/control/nothing", {})
    with pytest.raises(RemoteError, match="Name: value"):
        parse_headers(["nonsense"])
    single.office.set(faults={"tools/list": "error"})
    with pytest.raises(RemoteError, match="Internal error"):
        fetch_tools(single.raw_url, {})


def test_savings_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["savings", "--catalog", str(CATALOGUE), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"] is True
    assert found["tools"] == len(CATALOGUE.read_text("utf-8").splitlines())
    assert found["shown"] <= 1200
    assert found["saved"] == found["full"] - found["shown"] > 10_000


def test_savings_of_a_url(single: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["savings", "--url", single.raw_url]) == 0
    assert "in every request" in capsys.readouterr().out


def test_savings_of_the_filtered_route(single: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["savings", "--url", single.url]) == 1
    assert "filtered already" in capsys.readouterr().err


def test_bad_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"name": "fine"}\n{"name": 1}\n')
    assert main(["savings", "--catalog", str(bad)]) == 2
    assert "bad.jsonl:2" in capsys.readouterr().err
    assert main(["savings", "--catalog", str(tmp_path / "missing.jsonl")]) == 2
    assert "missing.jsonl" in capsys.readouterr().err


def test_nothing_there_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    (closed,) = free_ports(1)
    assert main(["savings", "--url", f"http://127.0.0.1:{closed}/mcp"]) == 1
    assert "is the gateway running" in capsys.readouterr().err
