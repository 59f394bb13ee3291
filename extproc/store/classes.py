"""What nameless callers of one route were shown, kept only to tell a tool's class.

A caller that nothing tells from another has no catalogue of its own between two requests, so a call of its
could never be checked.  What is kept here is never shown to anyone: it answers one question, whether every
list of this route agreed on the class of a name.  The upstream still decides whether the caller may call
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cachetools import LRUCache

from extproc.catalog.caller import Place
from extproc.catalog.model import Catalogue, Tool

MAX_PLACES = 256
MAX_LISTS = 64
"""Different lists merged for one place before it starts afresh."""


@dataclass(slots=True)
class _Agreed:
    expires: float
    lists: set[bytes] = field(default_factory=set)
    tools: dict[str, Tool | None] = field(default_factory=dict)


class Classes:
    """``life`` in seconds; the clock is the caller's."""

    def __init__(self, life: float) -> None:
        self._life = life
        self._places: LRUCache[Place, _Agreed] = LRUCache(MAX_PLACES)

    def learn(self, place: Place, catalogue: Catalogue, now: float) -> None:
        agreed = self._places.get(place)
        if agreed is None or now >= agreed.expires or len(agreed.lists) >= MAX_LISTS:
            agreed = self._places[place] = _Agreed(now + self._life)
        if catalogue.digest in agreed.lists:
            return
        agreed.lists.add(catalogue.digest)
        for tool in catalogue:
            held = agreed.tools.setdefault(tool.name, tool)
            if held is not None and held.digest != tool.digest:
                agreed.tools[tool.name] = None

    def tool(self, place: Place, name: str, now: float) -> Tool | None:
        """The definition every list agreed on, or None."""
        agreed = self._places.get(place)
        if agreed is None or now >= agreed.expires:
            return None
        return agreed.tools.get(name)
