"""The seam between ranking and the rest: ``ToolIndex.build(catalogue)``, ``.search(query, k)``."""

from __future__ import annotations

from dataclasses import dataclass

from extproc.catalog.model import Catalogue, Tool


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked tool.  ``exact`` is true when the query names the tool."""

    tool: Tool
    score: float
    exact: bool = False


class ToolIndex:
    """An immutable index of one catalogue.  Safe to share between threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    @classmethod
    def build(cls, catalogue: Catalogue) -> ToolIndex:
        return cls(catalogue)

    def search(self, query: str, k: int, server: str | None = None) -> list[Hit]:
        """The at most ``k`` best tools for ``query``, best first; only those of ``server`` when given."""
        words = {word.lower() for word in query.split()}
        scored = (
            Hit(tool, float(sum(word in f"{tool.name} {tool.description}".lower() for word in words)))
            for tool in self.catalogue
        )
        return sorted((hit for hit in scored if hit.score > 0), key=lambda hit: (-hit.score, hit.tool.name))[:k]
