"""What is asked of a store shared between replicas.  Nothing raises: trouble is a miss and a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from extproc.catalog.caller import CallerKey
from extproc.catalog.model import Catalogue
from extproc.store.counters import Counters


@dataclass(frozen=True, slots=True)
class Record:
    """Which catalogue a caller was shown.  ``age`` and ``life`` in seconds."""

    digest: bytes
    age: float
    life: float


class Remote(Protocol):
    """``on_change`` is called when another replica learned a list (its digest) or saw a refusal (None)."""

    counters: Counters
    on_change: Callable[[CallerKey, bytes | None], None]

    async def record(self, key: CallerKey) -> Record | None: ...

    async def catalogue(self, digest: bytes) -> Catalogue | None: ...

    async def publish(self, key: CallerKey, catalogue: Catalogue, life: float) -> None: ...

    async def forget(self, key: CallerKey) -> None: ...

    async def aclose(self) -> None: ...
