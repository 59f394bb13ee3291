"""Files of tools, as ``search``, ``savings`` and ``eval`` take them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extproc.cli import main, savings, search_cmd

TOOL = {"name": "refund", "description": "Refund a customer.", "inputSchema": {"type": "object"}}
OTHER = {"name": "list_files", "description": "List the files of a folder."}
BOTH = [TOOL, OTHER]
COMMANDS = {
    "search": ["search", "--embedder", "none", "refund", "--catalog"],
    "savings": ["savings", "--catalog"],
    "eval": ["eval", "--embedder", "none", "--queries", "needs.jsonl", "--catalog"],
}
COMMAND = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("needs.jsonl").write_text('{"query": "money back", "relevant": ["refund"]}\n')
    return tmp_path


def run(command: str, text: str | bytes) -> int:
    Path("tools").write_bytes(text if isinstance(text, bytes) else text.encode())
    return main([*COMMANDS[command], "tools"])


@COMMAND
@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, BOTH)),
        json.dumps(BOTH),
        json.dumps({"tools": BOTH}, indent=1),
        json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": BOTH}}),
        b"\xef\xbb\xbf" + json.dumps(BOTH).encode(),
        b"\xef\xbb\xbf" + json.dumps(TOOL).encode() + b"\r\n\r\n" + json.dumps(OTHER).encode(),
        json.dumps(TOOL),
    ],
    ids=["lines", "array", "tools", "answer", "mark-array", "mark-lines", "one"],
)
def test_every_form_is_taken_by_every_command(
    command: str, text: str | bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, text) == 0
    told = capsys.readouterr()
    assert told.err == ""
    if command == "savings":
        assert f"{1 if text == json.dumps(TOOL) else 2} tools" in told.out


@COMMAND
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no tools in tools"),
        (" \n\n", "no tools in tools"),
        ("[]", "no tools in tools"),
        ('{"tools":[]}', "no tools in tools"),
        ('{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}', "no tools in tools"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}', "a request that failed"),
        ('{"jsonrpc":"2.0","id":1,"result":{"resources":[]}}', "another request than tools/list"),
        ('{"tools":' + "[" * 200_000, "tools:1: JSON that is nested too deeply"),
        ("[" * 200_000 + "]" * 200_000, "tools:1: JSON that is nested too deeply"),
        ("[1]", "tools:1: a JSON object is needed"),
        ('{"name": "a"}\n{', "tools:2: not JSON"),
    ],
)
def test_a_file_without_tools_is_told(
    command: str, text: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, text) == 2
    told = capsys.readouterr()
    assert part in told.err
    assert told.out == ""


def test_savings_names_the_line_of_what_is_no_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("savings", '{"name": "a"}\n\n{"title": "b"}') == 2
    assert "tools:3: every tool is an object with a name" in capsys.readouterr().err


def test_search_over_entries_of_which_none_is_a_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("search", '{"title": "b"}') == 2
    assert "no usable tools among the 1 in tools" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["search", "savings"])
def test_half_a_surrogate_pair_is_no_stumbling_block(command: str) -> None:
    assert run(command, '{"name": "refund", "description": "\\ud800", "inputSchema": {}}') == 0


@pytest.mark.parametrize("module", [search_cmd, savings])
def test_a_route_without_tools_is_a_problem(
    module: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "fetch_tools", lambda url, headers: [])
    query = ["refund"] if module is search_cmd else []
    assert main(["search" if query else "savings", "--url", "http://h/mcp", *query]) == 1
    told = capsys.readouterr()
    assert "no tools at http://h/mcp" in told.err
    assert told.out == ""


def test_a_tool_nested_more_deeply_than_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    # What the reader can just follow, the writer may not: the answer is told either way.
    for depth in range(900, 1000, 3):
        text = '{"name":"refund","inputSchema":' + '{"a":' * depth + "1" + "}" * depth + "}"
        for command in ("search", "savings"):
            assert run(command, text) in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err
