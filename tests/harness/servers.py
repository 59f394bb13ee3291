"""MCP servers to put behind a gateway: five that others wrote, and the fixture server."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.harness import node
from tests.harness.processes import ROOT, Process, listening

CATALOGUE = ROOT / "tests" / "data" / "catalogue.jsonl"
STDIO = ROOT / ".cache" / "servers" / "bin"


@dataclass
class Server:
    """A running MCP server; ``path`` is where it speaks streamable HTTP."""

    name: str
    process: Process
    port: int
    path: str = "/mcp"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def ready(self) -> bool:
        return listening(self.port)


class Fixture(Server):
    """The fixture server with its control door."""

    def set(self, **options: Any) -> None:
        self._control("PATCH", "options", json.dumps(options))

    def reset(self) -> None:
        self._control("POST", "reset")

    def received(self) -> list[dict[str, Any]]:
        """Every request since the last reset: method, path, headers (pairs), body (base64), status."""
        answer: list[dict[str, Any]] = self._control("GET", "requests")
        return answer

    def forget(self) -> None:
        self._control("DELETE", "requests")

    def replace_catalogue(self, tools: list[dict[str, Any]]) -> int:
        """Serve other tools from now on; returns how many open streams were told."""
        lines = "\n".join(json.dumps(tool) for tool in tools)
        notified: int = self._control("PUT", "catalogue", lines)["notified"]
        return notified

    def end_sessions(self) -> None:
        self._control("DELETE", "sessions")

    def notify(self) -> int:
        notified: int = self._control("POST", "list_changed")["notified"]
        return notified

    def state(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._control("GET", "state")
        return answer

    def _control(self, method: str, what: str, body: str = "") -> Any:
        url = f"http://127.0.0.1:{self.port}/control/{what}"
        answer = httpx.request(method, url, content=body.encode(), timeout=30)
        answer.raise_for_status()
        return answer.json()


def fixture(port: int, log_dir: Path, *, catalog: Path = CATALOGUE, **options: Any) -> Fixture:
    command = [sys.executable, "-m", "tests.fixture_server", "--port", str(port), "--catalog", str(catalog)]
    command += ["--options", json.dumps(options)]
    return Fixture("fixture", Process("fixture", command, log_dir=log_dir), port)


def everything(port: int, log_dir: Path) -> Server:
    """The reference server that has one of each; speaks streamable HTTP itself."""
    command = [*node.script("@modelcontextprotocol/server-everything"), "streamableHttp"]
    env = {**node.environment(), "PORT": str(port)}
    return Server("everything", Process("everything", command, log_dir=log_dir, env=env), port)


def stdio_commands(work: Path) -> dict[str, list[str]]:
    """Command lines of the stdio servers, with a folder of their own to work in."""
    files, repository = work / "files", work / "repository"
    files.mkdir(parents=True, exist_ok=True)
    (files / "welcome.txt").write_text("The quarterly report is due on Friday.\n")
    _make_repository(repository)
    return {
        "files": [*node.script("@modelcontextprotocol/server-filesystem"), str(files)],
        "memory": node.script("@modelcontextprotocol/server-memory"),
        "time": [str(STDIO / "mcp-server-time"), "--local-timezone", "Europe/Vilnius"],
        "git": [str(STDIO / "mcp-server-git"), "--repository", str(repository)],
    }


def proxied(port: int, log_dir: Path, commands: Mapping[str, list[str]], work: Path) -> list[Server]:
    """Several stdio servers behind one mcp-proxy, each at ``/servers/<name>/mcp``; they share one process."""
    command: list[str] = [str(STDIO / "mcp-proxy"), "--port", str(port), "--pass-environment"]
    for name, line in commands.items():
        command += ["--named-server", name, shlex.join(line)]
    env = {**node.environment(), "MEMORY_FILE_PATH": str(work / "memory.jsonl")}
    process = Process("mcp-proxy", command, log_dir=log_dir, env=env)
    return [Server(name, process, port, f"/servers/{name}/mcp") for name in commands]


def _make_repository(path: Path) -> None:
    if (path / ".git").exists():
        return
    path.mkdir(parents=True, exist_ok=True)
    (path / "notes.md").write_text("# Notes\n\nShip the filter.\n")
    identity = [
        "-c",
        "user.name=Example",
        "-c",
        "user.email=example@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    for line in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "Add notes"]):
        subprocess.run(["git", *line], cwd=path, check=True, capture_output=True)
