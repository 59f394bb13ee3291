"""Server prefixes of tool names.

Envoy's ``mcp_router`` names tools ``server__tool``, agentgateway ``server_tool`` (and not at all with
a single target); other gateways use a dot, a slash or a dash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from extproc.search.stopwords import word_set

SEPARATORS = ("__", "/", ".", "_", "-")
"""Tried in this order: the unmistakable ones first."""
_CLEAR = frozenset(("__", "/", "."))
_VERBS = word_set(
    """
    add append apply archive assign call cancel check clear click close convert copy count create
    delete describe disable download edit enable execute export fetch fill find generate get import
    insert install is list load make merge move open post publish push query read remove rename
    replace reply resolve restart run save search select send set share show start stop submit
    summarize sync take test translate transfer unassign update upload validate verify view wait
    watch write
    """
)


class UnknownServer(ValueError):
    """No tool has this server prefix.  ``servers`` are the names the caller could have meant."""

    def __init__(self, server: str, servers: Sequence[str]) -> None:
        self.server = server
        self.servers = tuple(servers)
        names = ", ".join(self.servers) or "none: the tool names carry no server prefix"
        super().__init__(f"unknown server {server[:80]!r}; servers: {names}")


def detect_separator(names: Sequence[str]) -> str:
    """The separator between server and tool in these names, or an empty string.

    ``__``, ``/`` and ``.`` count when nine names in ten have them; ``_`` and ``-``, which are common inside
    names too, only when all have them and most first parts are no verbs (``get_weather`` has no server).
    """
    for separator in SEPARATORS:
        prefixes = [_prefix(name, separator) for name in names]
        found = Counter(prefix for prefix in prefixes if prefix)
        count = sum(found.values())
        if not count:
            continue
        if separator in _CLEAR:
            if count >= 0.9 * len(names):
                return separator
        elif count == len(names):
            verbs = sum(n for prefix, n in found.items() if prefix.casefold() in _VERBS)
            if verbs <= 0.2 * count and len(found) <= max(1, 0.7 * count):
                return separator
    return ""


def split_name(name: str, separator: str) -> tuple[str, str]:
    """``(server, local name)``; the server is empty when the name has no prefix."""
    prefix = _prefix(name, separator) if separator else ""
    return (prefix, name[len(prefix) + len(separator) :]) if prefix else ("", name)


def server_names(names: Iterable[str], separator: str) -> tuple[str, ...]:
    """Different server prefixes, sorted."""
    return tuple(sorted({prefix for name in names if (prefix := split_name(name, separator)[0])}))


def rows_of_server(names: Sequence[str], server: str, separator: str) -> list[int]:
    """Positions of the names that belong to ``server``; letter case and a trailing separator are forgiven.

    A prefix that detection did not take for a server counts too, when any separator follows it.
    """
    wanted = server.strip().rstrip("_./-").casefold()
    if not wanted:
        return []
    rows = [row for row, name in enumerate(names) if split_name(name, separator)[0].casefold() == wanted]
    if rows:
        return rows
    starts = tuple(wanted + each for each in SEPARATORS)
    return [row for row, name in enumerate(names) if name.casefold().startswith(starts)]


def _prefix(name: str, separator: str) -> str:
    before, found, after = name.partition(separator)
    return before if found and after.strip("_-./") else ""
