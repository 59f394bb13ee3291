"""Queries that name a tool, wholly or nearly."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rapidfuzz import fuzz, process

_MARKS = re.compile(r"[\s_\-./:]+")
_IDENTIFIER = re.compile(r"[\w\-./:]+")
_PLAIN = re.compile(r"[A-Z]?[a-z ,]*").fullmatch
_INNER = re.compile(r"[_\-./:]|[a-z0-9][A-Z]")
_LONGEST = 200
_CLOSE = 90.0


def key(name: str) -> str:
    """A name without its separators and letter case."""
    return _MARKS.sub("", name).casefold()


class Names:
    """Names of a catalogue, whole and without their server prefix."""

    def __init__(self, full: Sequence[str], local: Sequence[str]) -> None:
        self._full: dict[str, list[int]] = {}
        self._local: dict[str, list[int]] = {}
        for row, (name, short) in enumerate(zip(full, local, strict=True)):
            self._full.setdefault(key(name), []).append(row)
            if short != name:
                self._local.setdefault(key(short), []).append(row)
        self._keys = [*self._full, *self._local]

    def named(self, query: str) -> dict[int, int]:
        """Rows that ``query`` names, with a rank: 0 the whole name, 1 the name without server, 2 nearly.

        An identifier within a longer query counts when its form shows that it is one (``create_issue``).
        """
        query = query.strip().strip("`'\"")
        # Plain words hold no identifier and need no second look: most queries are such.
        identifier = None
        if _PLAIN(query):
            whole = query.replace(" ", "").lower() if len(query) <= _LONGEST else ""
        else:
            whole = key(query) if len(query) <= _LONGEST else ""
            identifier = _INNER.search(query)
        candidates = [whole] if whole else []
        if identifier and len(query) > len(whole):
            pieces = _IDENTIFIER.findall(query[:10_000])
            candidates += [
                key(piece)
                for piece in pieces
                if len(piece) <= _LONGEST and _INNER.search(piece.strip("_-./:"))
            ]
        found: dict[int, int] = {}
        for candidate in dict.fromkeys(candidates):
            for row in self._full.get(candidate, ()):
                found[row] = 0
            for row in self._local.get(candidate, ()):
                found.setdefault(row, 1)
        if not found and identifier and len(whole) >= 6 and _IDENTIFIER.fullmatch(query):
            near = process.extract(whole, self._keys, scorer=fuzz.ratio, score_cutoff=_CLOSE, limit=3)
            for name, likeness, _ in near:
                if likeness >= near[0][1] - 1:
                    for row in (*self._full.get(name, ()), *self._local.get(name, ())):
                        found.setdefault(row, 2)
        return found

    @property
    def nbytes(self) -> int:
        return sum(180 + len(name) for name in self._keys)
