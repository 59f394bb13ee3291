"""Worlds behind agentgateway as a JWT policy leaves requests: without ``Authorization``."""

from __future__ import annotations

from typing import Any

from extproc.exchange.messages import Headers
from tests.gateway.config import Config
from tests.gateway.peer import Gateway
from tests.gateway.variants import VARIANTS
from tests.scenarios.client import Client
from tests.scenarios.world import ALICE, Setup, World

MODES = ("agentgateway-one-message", "agentgateway-two-messages", "agentgateway-duplex-odd")


def setup(mode: str = MODES[1], revision: str = "2025-11-25") -> Setup:
    return Setup(VARIANTS[mode], revision, sse=True)


def behind(world: World, headers: Headers = ALICE, /, *, strip: bool = True, **identity: str) -> Client:
    """A client whose requests come with the attributes ``identity``."""
    config: Config = world.setup.variant.config.named(
        strip=("authorization",) if strip else (), identity=identity
    )
    return Client(Gateway(config, world.core, world.server), world.setup.revision, headers)


def metric(world: World, name: str, **labels: Any) -> float:
    return world.metrics.registry.get_sample_value(name, labels) or 0.0
