"""The import contract: kept by the product, broken by each planted fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def product(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "extproc", tmp_path / "extproc", ignore=shutil.ignore_patterns("__pycache__", "models")
    )
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_the_product_keeps_its_layers(product: Path) -> None:
    result = lint(product)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("mcp/planted.py", "import extproc.rewriter", "One direction"),
        ("store/planted.py", "import extproc.processor", "One direction"),
        ("planted.py", "", "One direction"),
        ("exchange/planted.py", "import asyncio", "The core does no input or output"),
        ("rewriter/planted.py", "from time import time", "The core does no input or output"),
        ("search/planted.py", "from pathlib import Path", "The core does no input or output"),
        ("catalog/planted.py", "import extproc.telemetry", "The core does no input or output"),
        ("server/planted.py", "from google.protobuf import struct_pb2", "Only the codec knows protobuf"),
        ("upstream/planted.py", "import grpc.aio", "Only the server knows grpc"),
    ],
)
def test_a_planted_fault_is_found(product: Path, module: str, line: str, contract: str) -> None:
    (product / "extproc" / module).write_text(line + "\n")
    result = lint(product)
    assert result.returncode == 1
    assert any(row.startswith(contract) and " BROKEN" in row for row in result.stdout.splitlines())
