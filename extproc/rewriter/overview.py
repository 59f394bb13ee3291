"""What a caller's catalogue covers, in one line: a model that does not know what is there does not search."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from extproc.catalog.model import ByDigest, Catalogue
from extproc.search.servers import detect_separator, split_name

MAX_CHARS = 480
"""Characters of the whole line."""
_MAX_NAME = 32


def overview(catalogue: Catalogue) -> str:
    """Servers by name prefix with their numbers of tools, sorted; empty where tool names carry none.

    The same text for the same catalogue, whatever the order of its tools.  Control characters and line breaks
    of names do not survive.
    """
    return _overview(ByDigest(catalogue)) if len(catalogue) else ""


@lru_cache(maxsize=256)
def _overview(key: ByDigest[Catalogue]) -> str:
    names = [tool.name for tool in key.value]
    separator = detect_separator(names)
    sizes = Counter(split_name(name, separator)[0] for name in names)
    parts = [f"{_shown(server)} ({size})" for server, size in sorted(sizes.items()) if server]
    return _fitted("Connected servers: ", parts) if parts else ""


def _fitted(head: str, parts: list[str]) -> str:
    kept = len(parts)
    while True:
        more = f" and {len(parts) - kept} more" if kept < len(parts) else ""
        line = f"{head}{', '.join(parts[:kept])}{more}."
        if len(line) <= MAX_CHARS or kept == 1:
            return line
        kept -= 1


def _shown(server: str) -> str:
    clean = "".join(char if char.isprintable() else "?" for char in server)
    return clean if len(clean) <= _MAX_NAME else f"{clean[:_MAX_NAME]}…"
