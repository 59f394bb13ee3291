"""Whole set-ups: servers, processor and gateway started together and ended together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness import servers
from tests.harness.gateway import (
    AGENTGATEWAY,
    MCP_ROUTER,
    SINGLE_UPSTREAM,
    Agentgateway,
    Envoy,
    Gateway,
)
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
        return self.gateway.raw_url

    def name(self, tool: str, server: str = "office") -> str:
        """The name that clients see for ``tool`` of ``server``."""
        return f"{server}{self.separator}{tool}" if self.separator else tool


@contextlib.contextmanager
def single_upstream(
    log_dir: Path,
    file: Path = SINGLE_UPSTREAM,
    *,
    gateway: str = "envoy",
    catalogue_route: bool = False,
    **settings: Any,
) -> Iterator[Stack]:
    """The fixture server alone: both eras.  ``file`` is Envoy's, ``gateway`` one of :func:`gateways`.

    ``catalogue_route`` gives the processor the raw route to fetch catalogues from.
    """
    (port,) = free_ports(1)
    office = servers.fixture(port, log_dir)
    processor = Processor(log_dir, **settings)
    attached: Gateway
    if gateway in AGENTGATEWAY:
        attached = Agentgateway(AGENTGATEWAY[gateway], {"office": office.url}, processor.port, log_dir)
    else:
        attached = Envoy(file, {"office": port}, processor.port, log_dir)
    stack = Stack(attached, processor, office, [office])
    with _running(stack, catalogue_route=catalogue_route):
        yield stack


@contextlib.contextmanager
def mcp_router(
    log_dir: Path,
    gateway: str = "envoy",
    *,
    file: Path = MCP_ROUTER,
    catalogue_route: bool = False,
    own_port: bool = False,
    **settings: Any,
) -> Iterator[Stack]:
    """Six servers behind a gateway that joins them, one of :func:`gateways`.

    ``own_port`` lets Envoy listen where its file says, if that port is free.
    """
    ports = free_ports(3)
    office = servers.fixture(ports[0], log_dir)
    work = log_dir / "work"
    proxied = servers.proxied(ports[2], log_dir, servers.stdio_commands(work), work)
    upstreams = [servers.everything(ports[1], log_dir), *proxied]
    processor = Processor(log_dir, **settings)
    named = {**{each.name: each for each in upstreams}, "office": office}
    attached = attach(gateway, named, processor, log_dir, file=file, own_port=own_port)
    separator = "_" if gateway in AGENTGATEWAY else "__"
    stack = Stack(attached, processor, office, [*upstreams, office], separator)
    with _running(stack, catalogue_route=catalogue_route):
        yield stack


@contextlib.contextmanager
def _running(stack: Stack, *, catalogue_route: bool) -> Iterator[None]:
    """Start everything at once, wait for each, and end all of it whatever happens."""
    if catalogue_route:
        stack.processor.configure("catalog", url=stack.raw_url)
    with contextlib.ExitStack() as ends:
        for process in {id(each.process): each.process for each in stack.servers}.values():
            ends.callback(process.stop)
            process.start()
        ends.callback(stack.processor.stop)
        stack.processor.launch()
        for each in stack.servers:
            each.process.wait_ready(each.ready)
        stack.processor.process.wait_ready(stack.processor.ready)
        ends.callback(stack.gateway.stop)
        stack.gateway.start()
        yield


def attach(
    gateway: str,
    named: dict[str, servers.Server],
    processor: Processor,
    log_dir: Path,
    *,
    file: Path = MCP_ROUTER,
    own_port: bool = False,
) -> Gateway:
    if gateway in AGENTGATEWAY:
        urls = {name: server.url for name, server in named.items()}
        return Agentgateway(AGENTGATEWAY[gateway], urls, processor.port, log_dir)
    ports = {name: server.port for name, server in named.items()}
    return Envoy(file, ports, processor.port, log_dir, own_port=own_port)


def gateways() -> list[str]:
    """The gateways to test on: Envoy always, agentgateway in both its modes where its binary is at hand."""
    return ["envoy", *(AGENTGATEWAY if os.environ.get("AGENTGATEWAY_BIN") else ())]
