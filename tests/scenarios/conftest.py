from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .world import WORLDS


@pytest.fixture(autouse=True)
async def closing() -> AsyncIterator[None]:
    """Close every processor a test made, and fail it when one had an internal error."""
    yield
    errors = []
    while WORLDS:
        world = WORLDS.pop()
        errors += world.core.errors
        await world.processor.close()
    assert errors == []
