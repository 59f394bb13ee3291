"""The fixture catalogue and the needs are what the other tests take them for; each rule can fail."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_data", ROOT / "scripts" / "check_data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _script()
TOOLS = [tool for _, tool in check.read(ROOT / "tests" / "data" / "catalogue.jsonl")]
NEEDS = [need for _, need in check.read(ROOT / "tests" / "data" / "needs.jsonl")]
NAMES = {tool["name"] for tool in TOOLS}


def test_catalogue_has_no_problem() -> None:
    assert list(check.check_tools(TOOLS)) == []


def test_needs_have_no_problem() -> None:
    assert list(check.check_needs(NEEDS, NAMES)) == []


def test_names_are_unique() -> None:
    assert len(NAMES) == len(TOOLS)


def test_command_ends_with_zero_and_prints_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([]) == 0
    printed = capsys.readouterr()
    assert f"tools {len(TOOLS)}" in printed.out
    assert printed.err == ""


def test_command_names_the_broken_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "catalogue.jsonl").write_text('{"name": "a__b"}\n{"name": \n')
    assert check.main(["--data", str(tmp_path)]) == 1
    assert "catalogue.jsonl:2: not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("shape", check.SHAPES)
def test_a_missing_shape_is_noticed(shape: str) -> None:
    without = [tool for tool in TOOLS if not check.SHAPES[shape](tool)]
    assert len(without) < len(TOOLS)
    assert f"shape not found: {shape}" in list(check.check_tools(without))


TOOL_FAULTS: dict[str, tuple[Callable[[Json], Any], str]] = {
    "name of another form": (lambda t: t.update(name="no-server"), "not of the form"),
    "schema of another type": (lambda t: t.update(inputSchema={"type": "array"}), "not an object schema"),
    "schema no validator takes": (lambda t: t["inputSchema"].update(properties=[]), "inputSchema:"),
    "reference to nothing": (
        lambda t: t["inputSchema"].update(properties={"a": {"$ref": "#/$defs/A"}}, required=[]),
        "points nowhere",
    ),
    "required but not described": (lambda t: t["inputSchema"].update(required=["nope"]), "is not described"),
    "address of a real host": (lambda t: t.update(description="see https://host.test/"), "a real host"),
}


@pytest.mark.parametrize("fault", TOOL_FAULTS)
def test_a_fault_in_a_tool_is_noticed(fault: str) -> None:
    plant, message = TOOL_FAULTS[fault]
    tools = deepcopy(TOOLS)
    plant(tools[0])
    assert any(message in problem for problem in check.check_tools(tools))


def test_a_name_used_twice_is_noticed() -> None:
    assert f"name used 2 times: {TOOLS[0]['name']}" in list(check.check_tools([*TOOLS, TOOLS[0]]))


NEED_FAULTS: dict[str, tuple[Json, str]] = {
    "unknown tool": ({"relevant": ["tracklane__nope"]}, "no tool named"),
    "no tool": ({"relevant": []}, "0 relevant tools"),
    "unknown kind": ({"kind": "riddle"}, "unknown kind riddle"),
    "unknown language": ({"lang": "xx"}, "language xx"),
    "wrong half": ({"split": "neither"}, "split must be"),
    "too many words": ({"kind": "short"}, "more than two words"),
    "one tool for two": ({"kind": "two-tools"}, "1 relevant tools"),
    "no name in it": ({"kind": "exact-name"}, "holds no tool's name"),
    "extra member": ({"note": "x"}, "wrong members"),
}


@pytest.mark.parametrize("fault", NEED_FAULTS)
def test_a_fault_in_a_need_is_noticed(fault: str) -> None:
    change, message = NEED_FAULTS[fault]
    needs = deepcopy(NEEDS)
    plain = next(n for n in needs if n["kind"] == "plain" and len(n["relevant"]) == 1)
    plain.update(change)
    assert any(message in problem for problem in check.check_needs(needs, NAMES))


def test_every_server_and_most_tools_are_needed() -> None:
    used = {name for need in NEEDS for name in need["relevant"]}
    assert {name.split("__")[0] for name in used} == {name.split("__")[0] for name in NAMES}
    assert len(used) > len(NAMES) / 2


def test_each_language_has_plain_needs_and_questions() -> None:
    found = {(need["lang"], need["kind"]) for need in NEEDS}
    assert {(lang, kind) for lang in check.LANGUAGES for kind in ("plain", "question")} <= found


def test_a_need_keeps_its_half_when_others_come_and_go() -> None:
    assert [check.split_of(need["query"]) for need in NEEDS] == [need["split"] for need in NEEDS]


def test_lines_are_plain_utf8_json() -> None:
    for name in ("catalogue.jsonl", "needs.jsonl"):
        text = (ROOT / "tests" / "data" / name).read_text("utf-8")
        assert text.endswith("\n")
        assert "\\u" not in text
        assert all(json.loads(line) for line in text.splitlines())
