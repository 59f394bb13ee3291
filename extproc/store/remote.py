"""What is asked of a store shared between replicas.  Nothing raises: trouble is a miss and a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from extproc.catalog.caller import CallerKey
from extproc.catalog.model import Catalogue
from extproc.store.counters import Counters

OnChange: TypeAlias = Callable[[CallerKey, bytes | None, float], None]
"""Caller, digest of the list it was shown (None: it was refused), and the life of that list in seconds."""


@dataclass(frozen=True, slots=True)
class Record:
    """Which catalogue a caller was shown.  ``age`` and ``life`` in seconds."""

    digest: bytes
    age: float
    life: float


class Remote(Protocol):
    """``on_change`` is called when another replica learned a list or saw a refusal."""

    counters: Counters
    on_change: OnChange

    async def record(self, key: CallerKey) -> Record | None: ...

    async def catalogue(self, digest: bytes) -> Catalogue | None: ...

    async def publish(self, key: CallerKey, catalogue: Catalogue, life: float) -> None: ...

    async def forget(self, key: CallerKey) -> None: ...

    async def aclose(self) -> None: ...
