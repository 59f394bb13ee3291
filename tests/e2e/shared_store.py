"""A real Valkey or Redis to share a store through, where the machine has one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import Process, free_ports, listening

BINARY = shutil.which("valkey-server") or shutil.which("redis-server")
needs_store = pytest.mark.skipif(
    BINARY is None, reason="no valkey-server or redis-server on this machine to share a store through"
)


class SharedStore:
    """One server that writes its dump to ``folder`` when asked to."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.dump = folder / "dump.rdb"
        command = [str(BINARY), "--port", str(self.port), "--save", "", "--appendonly", "no"]
        command += ["--bind", "127.0.0.1", "--dir", str(folder), "--dbfilename", self.dump.name]
        command += ["--rdbcompression", "no"]
        self.process = Process("store", command, log_dir=folder)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.process.start()
        self.process.wait_ready(lambda: listening(self.port))

    def settings(self) -> dict[str, Any]:
        """Sections that make processors share it."""
        return {
            "caller": {"key": "c" * 32},
            "catalog": {"store": self.url, "store_key": "k" * 32, "store_timeout": 2.0},
        }
