"""agentgateway's own judgement of its files, where a binary is at hand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from extproc.gateway.shipped import FILES

ROOT = Path(__file__).parents[2]
BINARY = os.environ.get("AGENTGATEWAY_BIN", "")
NAMES = sorted(name for name in FILES if name.startswith("agentgateway/") and "kubernetes" not in name)


@pytest.mark.skipif(not BINARY, reason="AGENTGATEWAY_BIN names no agentgateway")
@pytest.mark.parametrize("name", NAMES)
def test_agentgateway_accepts_the_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    keys = tmp_path / "jwks.json"
    keys.write_text('{"keys": []}')
    text = (ROOT / name).read_text("utf-8")
    # Remote keys would be fetched while the file is read.
    file.write_text(
        text.replace("url: https://id.example.com/.well-known/jwks.json", f"file: {keys}"), "utf-8"
    )
    command = [BINARY, "-f", str(file), "--validate-only"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
