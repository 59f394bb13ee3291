"""The gateways that tests with a set-up of their own run on."""

from __future__ import annotations

import pytest

from tests.harness import stack


@pytest.fixture(scope="module", params=stack.gateways())
def gateway(request: pytest.FixtureRequest) -> str:
    """A name for :func:`tests.harness.stack.single_upstream` and ``mcp_router``."""
    name: str = request.param
    return name
