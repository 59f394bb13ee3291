"""Callers with parts of one catalogue share one index: each has a mask over it.

Where no caller is shown everything, an index over what several are shown together takes its place, so a
thousand callers with a thousand different parts cost one index and a thousand masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extproc.catalog.model import Catalogue
from extproc.store.pool import Shared

if TYPE_CHECKING:
    from extproc.search import ToolIndex

OVERLAP = 0.5
"""Share of a list that must be in an index for the two to be joined."""
GROWTH = 4
"""How many times larger than the list a joined index may be: every search reads all of it."""


@dataclass(frozen=True, slots=True)
class Made:
    """``index`` serves the catalogue.  ``root`` is what it is a part of.

    ``built`` and ``built_index`` are what had to be built for it, None when nothing had to.
    """

    index: ToolIndex
    root: bytes | None = None
    built: Catalogue | None = None
    built_index: ToolIndex | None = None


def make(
    catalogue: Catalogue,
    roots: Sequence[Shared],
    build: Callable[[Catalogue], ToolIndex],
    most_tools: int,
) -> Made:
    """The cheapest index of a catalogue: part of one at hand, part of a joined one, or its own.

    Runs in a thread.  Raises what ``build`` raises.
    """
    for root in roots:
        if len(catalogue) <= len(root.catalogue) <= GROWTH * len(catalogue):
            index = root.index.subset(catalogue)
            if index is not None:
                return Made(index, root.catalogue.digest)
    for root in roots:
        joined = _join(root.catalogue, catalogue, most_tools)
        if joined is not None:
            whole = build(joined)
            index = whole.subset(catalogue)
            if index is not None:
                return Made(index, joined.digest, joined, whole)
    index = build(catalogue)
    return Made(index, None, catalogue, index)


def _join(whole: Catalogue, part: Catalogue, most_tools: int) -> Catalogue | None:
    """Both together, or None when they have too little in common, too much apart, or differ about a tool."""
    known = whole.by_name
    common = 0
    for tool in part.tools:
        other = known.get(tool.name)
        if other is not None:
            if other.digest != tool.digest:
                return None
            common += 1
    size = len(whole) + len(part) - common
    if common < OVERLAP * len(part) or common == len(whole) or size > min(most_tools, GROWTH * len(part)):
        return None
    return Catalogue.of((*whole.tools, *part.tools))
