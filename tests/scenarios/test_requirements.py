"""The manifest of requirements is complete and names only what exists."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
LIMITS = TESTS.parent / "docs" / "protocol-limits.md"
REQUIREMENTS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "requirements.toml").read_text())[
    "requirement"
]
EDGE_CASES = 63
ROWS_OF_THE_WIRE_TABLE = 8


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text())
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found if node.name.startswith("test_"))


@cache
def limits() -> str:
    return " ".join(LIMITS.read_text().split())


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda one: str(one["id"]))
def test_a_requirement_is_proven_or_its_absence_explained(requirement: dict[str, Any]) -> None:
    assert set(requirement) <= {"id", "text", "tests", "docs"}
    assert requirement["text"]
    assert requirement.get("tests") or requirement.get("docs")
    for name in requirement.get("tests", ()):
        path, _, function = name.partition("::")
        assert function in functions_in(path), name
    if "docs" in requirement:
        assert " ".join(requirement["docs"].split()) in limits()


def test_every_requirement_is_there_once() -> None:
    ids = [one["id"] for one in REQUIREMENTS]
    assert len(set(ids)) == len(ids)
    assert [one for one in ids if one.startswith("edge-")] == [
        f"edge-{n:02}" for n in range(1, EDGE_CASES + 1)
    ]
    assert sum(one.startswith("wire-") for one in ids) >= ROWS_OF_THE_WIRE_TABLE
    assert {"verb-get", "verb-delete", "verb-other"} <= set(ids)
    assert sum(one.startswith("message-") for one in ids) == 20
