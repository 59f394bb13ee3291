"""Whole set-ups: servers, processor and gateway started together and ended together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness import servers
from tests.harness.gateway import MCP_ROUTER, SINGLE_UPSTREAM, Agentgateway, Envoy, Gateway
from tests.harness.processes import free_ports
from tests.harness.processor import Processor


@dataclass
class Stack:
    """What runs.  ``office`` is the fixture server, under the name it has in the Envoy files."""

    gateway: Gateway
    processor: Processor
    office: servers.Fixture
    servers: list[servers.Server] = field(default_factory=list)
    separator: str = ""
    """Between server and tool in names; empty when one server is served under its own names."""

    @property
    def url(self) -> str:
        return self.gateway.url("/mcp")

    @property
    def raw_url(self) -> str:
        return self.gateway.url("/mcp/all")

    def name(self, tool: str, server: str = "office") -> str:
        """The name that clients see for ``tool`` of ``server``."""
        return f"{server}{self.separator}{tool}" if self.separator else tool


@contextlib.contextmanager
def single_upstream(log_dir: Path, file: Path = SINGLE_UPSTREAM, **settings: Any) -> Iterator[Stack]:
    """The fixture server alone behind the plain router: both eras."""
    with contextlib.ExitStack() as stack:
        (port,) = free_ports(1)
        office = servers.fixture(port, log_dir)
        processor = Processor(log_dir, **settings)
        for process in (office.process, processor.process):
            stack.callback(process.stop)
            process.start()
        envoy = Envoy(file, {"office": port}, processor.port, log_dir)
        stack.callback(envoy.stop)
        envoy.start()
        office.process.wait_ready(office.ready)
        processor.process.wait_ready(processor.ready)
        yield Stack(envoy, processor, office, [office])


@contextlib.contextmanager
def mcp_router(log_dir: Path, gateway: str = "envoy", **settings: Any) -> Iterator[Stack]:
    """Six servers behind a gateway that joins them.  ``gateway``: ``envoy`` or ``agentgateway``."""
    with contextlib.ExitStack() as stack:
        ports = free_ports(3)
        office = servers.fixture(ports[0], log_dir)
        work = log_dir / "work"
        proxied = servers.proxied(ports[2], log_dir, servers.stdio_commands(work), work)
        upstreams = [servers.everything(ports[1], log_dir), *proxied, office]
        processor = Processor(log_dir, **settings)
        for process in {id(each.process): each.process for each in upstreams}.values():
            stack.callback(process.stop)
            process.start()
        stack.callback(processor.stop)
        processor.process.start()
        named = {**{each.name: each for each in upstreams[:-1]}, "office": office}
        attached = attach(gateway, named, processor, log_dir)
        stack.callback(attached.stop)
        for each in upstreams:
            each.process.wait_ready(each.ready)
        processor.process.wait_ready(processor.ready)
        attached.start()
        separator = "_" if gateway == "agentgateway" else "__"
        yield Stack(attached, processor, office, upstreams, separator)


def attach(gateway: str, named: dict[str, servers.Server], processor: Processor, log_dir: Path) -> Gateway:
    if gateway == "agentgateway":
        urls = {name: server.url for name, server in named.items()}
        return Agentgateway(urls, processor.port, log_dir)
    return Envoy(MCP_ROUTER, {name: server.port for name, server in named.items()}, processor.port, log_dir)


def gateways() -> list[str]:
    """The gateways that joined set-ups are to be tested on."""
    return ["envoy", *(["agentgateway"] if os.environ.get("AGENTGATEWAY_BIN") else [])]
