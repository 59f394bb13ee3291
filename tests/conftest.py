"""Fixtures for all tests; what starts processes is asked for by name and shared by the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import stack
from tests.harness.stack import Stack


@pytest.fixture(scope="session", params=stack.gateways())
def _single(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = _folder(tmp_path_factory, f"single-{request.param}")
    with stack.single_upstream(folder, gateway=request.param) as running:
        yield running


@pytest.fixture(scope="session", params=stack.gateways())
def _joined(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack.mcp_router(_folder(tmp_path_factory, request.param), request.param) as running:
        yield running


@pytest.fixture
def single(_single: Stack) -> Stack:
    """The fixture server alone behind a gateway; its options and records are fresh."""
    _single.office.reset()
    return _single


@pytest.fixture
def joined(_joined: Stack) -> Stack:
    """Six servers behind a joining gateway; the fixture server's options and records are fresh."""
    _joined.office.reset()
    return _joined


def _folder(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.mktemp(name)
