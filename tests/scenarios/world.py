"""A gateway, a processor and an MCP server in one process, in every combination worth having."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from extproc.exchange.machine import Exchange
from extproc.exchange.messages import BodyMode, Decision, Headers, Observe, Request, Response
from extproc.processor import Processor
from extproc.server.driver import Driver
from extproc.settings import Settings
from extproc.telemetry import Metrics
from tests.gateway.core import Core
from tests.gateway.peer import Gateway
from tests.gateway.rules import AGENTGATEWAY, ENVOY
from tests.gateway.served import Served
from tests.gateway.variants import VARIANTS, Variant

from .client import Client
from .tools import raw
from .upstream import MODERN, McpServer

ALICE: Headers = (("authorization", "Bearer alice"),)
BOB: Headers = (("authorization", "Bearer bob"),)

WORLDS: list[World] = []
"""Worlds of the running test, closed after it."""


@dataclass(frozen=True)
class Setup:
    variant: Variant
    revision: str
    sse: bool
    served: bool = False
    """Whether the processor is reached through the codec and the server's own driver."""

    @property
    def modern(self) -> bool:
        return self.revision == MODERN

    @property
    def withholds(self) -> bool:
        """Whether an answer can only be read by keeping it back to its end."""
        config, server = self.variant.config, self.variant.server
        if self.variant.duplex or config.response_body is BodyMode.STREAMED:
            return False
        return config.dialect is AGENTGATEWAY or server.response_mode == "buffered"

    def __str__(self) -> str:
        return f"{self.variant.name}-{self.revision}-{'sse' if self.sse else 'json'}{self.served * '-served'}"

    def world(self, settings: dict[str, Any] | None = None, **server: Any) -> World:
        """``settings`` are sections of the product's settings, ``server`` fields of :class:`McpServer`."""
        return World(
            self, Settings.model_validate({"search": {"embedder": "none"}, **(settings or {})}), server
        )


@dataclass
class World:
    setup: Setup
    settings: Settings
    fields: dict[str, Any]
    server: McpServer = field(init=False)
    core: Core = field(init=False)

    def __post_init__(self) -> None:
        setup, variant = self.setup, self.setup.variant
        defaults: dict[str, Any] = {"tools": raw(), "sse": setup.sse, "trailers": variant.trailers}
        self.server = McpServer(setup.revision, **{**defaults, **self.fields})
        server = variant.server.model_copy(update={"deadline": 0.0})
        self.settings = self.settings.model_copy(update={"server": server})
        self.metrics = Metrics()
        self.processor = Processor(self.settings, {}, self.metrics)
        self.core = Core(self._decide, server, self.settings.limits, self.processor.observe)
        self.served = Served(Driver(Exchange, _Started(self.processor), self.settings, {}, self.metrics))
        WORLDS.append(self)

    async def _decide(self, message: Request | Response) -> Decision:
        started = _Started(self.processor)
        return started.at_once(message) or await started.decide(message)

    def client(self, headers: Headers = ALICE, revision: str = "") -> Client:
        opener = self.served if self.setup.served else self.core
        gateway = Gateway(self.setup.variant.config, opener, self.server)
        return Client(gateway, revision or self.setup.revision, headers, self.setup.variant.trailers)

    async def opened(self, headers: Headers = ALICE) -> Client:
        client = self.client(headers)
        await client.open()
        return client

    async def warm(self, headers: Headers = ALICE) -> Client:
        """A client whose catalogue is known."""
        client = await self.opened(headers)
        await client.list()
        self.server.calls.clear()
        return client


@dataclass(frozen=True)
class _Started:
    """A processor that starts when it is first asked."""

    processor: Processor

    def at_once(self, message: Request | Response) -> Decision | None:
        return self.processor.at_once(message) if self.processor.ready else None

    async def decide(self, message: Request | Response) -> Decision:
        if not self.processor.ready:
            await self.processor.start()
        return await self.processor.decide(message)

    def observe(self, head: Observe) -> None:
        self.processor.observe(head)


def _setups() -> tuple[list[Setup], list[Setup]]:
    many, few = [], []
    older = ("2024-11-05", "2025-03-26", "2025-06-18")
    spread = {"envoy-buffered", "agentgateway-two-messages", "envoy-duplex-odd-trailers"}
    representative = spread | {
        "envoy-override-buffered",
        "agentgateway-one-message",
        "agentgateway-duplex-odd",
        "envoy-trailers",
    }
    for number, variant in enumerate(VARIANTS.values()):
        for revision in ("2025-11-25", MODERN):
            for sse in (False, True):
                if "bytes" in variant.name and sse is not (revision == MODERN):
                    continue
                many.append(Setup(variant, revision, sse))
                served = variant.name in representative - spread
                if served:
                    many.append(Setup(variant, revision, sse, served=True))
                if variant.name in representative and sse is bool((number + (revision == MODERN)) % 2):
                    few.append(Setup(variant, revision, sse, served))
        if variant.name in spread:
            many += [Setup(variant, revision, sse) for revision in older for sse in (False, True)]
        if variant.config.dialect is ENVOY and variant.name == "envoy-buffered":
            few += [Setup(variant, revision, revision != "2025-03-26") for revision in older]
    return many, few


_MANY, _FEW = _setups()
everywhere = pytest.mark.parametrize("setup", _MANY, ids=str)
"""Every gateway configuration, revision and form of answer."""
widely = pytest.mark.parametrize("setup", _FEW, ids=str)
"""One configuration of each kind, for what the others cannot change."""
narrowly = pytest.mark.parametrize("setup", _FEW[::3], ids=str)
"""A few, for products with many cases of their own."""
modern_only = pytest.mark.parametrize("setup", [one for one in _FEW if one.modern], ids=str)
legacy_only = pytest.mark.parametrize("setup", [one for one in _FEW if not one.modern], ids=str)
