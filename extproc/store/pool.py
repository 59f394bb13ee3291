"""Catalogues and indexes shared by content: callers with equal lists hold one, equal tools exist once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from extproc.catalog.model import Catalogue, Tool

if TYPE_CHECKING:
    from extproc.search import ToolIndex

TOOL_OVERHEAD = 640
"""Bytes of one tool besides its texts: object, digest, dictionary slots."""
MAX_ROOTS = 6
"""Indexes tried for a part before a new one is built."""
INDEX_BYTES_PER_TOOL = 2_500
"""Assumed for an index that does not state its own size as ``nbytes``."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One catalogue and its index, however many callers are shown it.

    ``size`` in bytes, tools excluded.  ``root`` is the digest of the catalogue whose index this one is a
    part of, None for an index of its own.
    """

    catalogue: Catalogue
    index: ToolIndex
    size: int
    root: bytes | None = None


@dataclass(slots=True)
class _Held:
    tool: Tool
    uses: int


def tool_size(tool: Tool) -> int:
    """Estimated resident bytes of one tool."""
    return TOOL_OVERHEAD + len(tool.raw) + len(tool.input_schema) + len(tool.description) + 2 * len(tool.name)


class Pool:
    """Least recently used catalogues leave when all of them together exceed ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared: OrderedDict[bytes, Shared] = OrderedDict()
        self._tools: dict[bytes, _Held] = {}
        self.size = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._shared)

    @property
    def tools(self) -> int:
        """Distinct tools held."""
        return len(self._tools)

    def get(self, digest: bytes) -> Shared | None:
        shared = self._shared.get(digest)
        if shared is not None:
            self._shared.move_to_end(digest)
            # A part keeps its whole in memory, so the whole must not be taken for unused and uncounted.
            if shared.root is not None and shared.root in self._shared:
                self._shared.move_to_end(shared.root)
        return shared

    def roots(self) -> list[Shared]:
        """Some indexes that are no part of another, most recently used first."""
        found = (shared for shared in reversed(self._shared.values()) if shared.root is None)
        return list(islice(found, MAX_ROOTS))

    def peek(self, digest: bytes) -> Shared | None:
        """Like :meth:`get` without counting as a use."""
        return self._shared.get(digest)

    def intern(self, catalogue: Catalogue) -> Catalogue:
        """The same catalogue made of the tool objects already held."""
        held = self._tools
        tools = tuple(
            tool if (known := held.get(tool.digest)) is None else known.tool for tool in catalogue.tools
        )
        return replace(catalogue, tools=tools)

    def add(self, catalogue: Catalogue, index: ToolIndex, root: bytes | None = None) -> Shared:
        """Hold a catalogue; the returned value is good even when it is too large to be held."""
        size = getattr(index, "nbytes", None)
        own = (size if isinstance(size, int) else INDEX_BYTES_PER_TOOL * len(catalogue)) + 8 * len(catalogue)
        shared = Shared(catalogue, index, own + 1_000, root)
        if catalogue.digest in self._shared:
            self._remove(catalogue.digest)
        self._shared[catalogue.digest] = shared
        self.size += shared.size
        for tool in catalogue.tools:
            known = self._tools.get(tool.digest)
            if known is None:
                self._tools[tool.digest] = _Held(tool, 1)
                self.size += tool_size(tool)
            else:
                known.uses += 1
        while self.size > self._limit and self._shared:
            self._remove(next(iter(self._shared)))
            self.evicted += 1
        return shared

    def _remove(self, digest: bytes) -> None:
        shared = self._shared.pop(digest)
        self.size -= shared.size
        for tool in shared.catalogue.tools:
            known = self._tools[tool.digest]
            known.uses -= 1
            if known.uses == 0:
                del self._tools[tool.digest]
                self.size -= tool_size(tool)
