"""What a caller's catalogue covers, in one line: a model that does not know what is there does not search."""

from __future__ import annotations

from functools import lru_cache

from extproc.catalog.model import ByDigest, Catalogue
from extproc.search.servers import detect_separator, split_name

MAX_CHARS = 320
"""Characters of the whole line."""
_MAX_NAME = 32


def overview(catalogue: Catalogue) -> str:
    """Servers by name prefix, sorted; empty where tool names carry none.

    No counts: a text that changes with every tool would cost clients their prompt caches.  Control characters
    and line breaks of names do not survive.
    """
    return _overview(ByDigest(catalogue)) if len(catalogue) else ""


@lru_cache(maxsize=256)
def _overview(key: ByDigest[Catalogue]) -> str:
    names = [tool.name for tool in key.value]
    separator = detect_separator(names)
    servers = sorted({split_name(name, separator)[0] for name in names} - {""})
    return _fitted("Connected servers: ", [_shown(server) for server in servers]) if servers else ""


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
