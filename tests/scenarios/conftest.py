from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from .world import WORLDS


@pytest.fixture(autouse=True)
async def closing(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Close every processor a test made, and fail it when one had an internal error."""
    yield
    errors: list[object] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    while WORLDS:
        world = WORLDS.pop()
        errors += world.core.errors
        await world.processor.close()
    assert errors == []
