"""The processor as its users start it: ``python -m extproc serve``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.harness.processes import Process, free_ports


class Processor:
    """One ``serve`` process on free ports.  ``settings`` become the configuration file."""

    def __init__(self, log_dir: Path, *, name: str = "processor", **settings: dict[str, Any]) -> None:
        self.port, self.admin_port = free_ports(2)
        self.config = log_dir / f"{name}.yaml"
        self.settings: dict[str, dict[str, Any]] = dict(settings)
        command = [sys.executable, "-m", "extproc", "serve", "--config", str(self.config)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin_port}"]
        env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLSEARCH_")}
        self.process = Process(name, command, log_dir=log_dir, env=env)

    def configure(self, section: str, **values: Any) -> None:
        """Change settings; they hold from the next start."""
        self.settings[section] = {**self.settings.get(section, {}), **values}

    def start(self) -> None:
        self.launch()
        self.process.wait_ready(self.ready)

    def launch(self) -> None:
        """Start without waiting."""
        self.config.write_text(json.dumps(self.settings), "utf-8")
        self.process.start()

    def ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.admin_port}/readyz", timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    def metrics(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=5).text

    def stop(self) -> None:
        self.process.stop(15)

    def kill(self) -> None:
        self.process.kill()
