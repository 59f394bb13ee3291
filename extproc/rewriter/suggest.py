"""Which tool a wrong name means: nearest names of the caller's own catalogue, nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

from extproc.catalog.model import Catalogue

_SEPARATORS = re.compile(r"[\W_]+")
_PREFIXES = ("__", "_", ".", "/", ":", "-")
MAX_NAME = 256
"""Characters of a wrong name that are compared."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """``names`` nearest first; ``meant`` is the one name that is clearly meant, if there is one."""

    names: tuple[str, ...]
    meant: str | None


def suggest(wrong: str, catalogue: Catalogue, most: int = 3) -> Suggestions:
    """Names close to ``wrong``; separators, case and a missing or wrong server prefix do not count."""
    wrong = wrong[:MAX_NAME]
    wanted = _folded(wrong)
    if not wanted or not len(catalogue):
        return Suggestions((), None)
    names = [tool.name for tool in catalogue]
    same = [name for name in names if _folded(name) == wanted]
    if not same:
        locals_wanted = {_folded(part) for part in _without_prefix(wrong)} | {wanted}
        same = [
            name for name in names if any(_folded(part) in locals_wanted for part in _without_prefix(name))
        ]
    if same:
        return Suggestions(tuple(same[:most]), same[0] if len(same) == 1 else None)
    folded = {name: _folded(name) for name in names}
    near = process.extract(
        wanted, folded, scorer=JaroWinkler.normalized_similarity, limit=most, score_cutoff=0.8
    )
    found = [(str(name), score) for _, score, name in near]
    clear = bool(found) and found[0][1] >= 0.95 and (len(found) == 1 or found[1][1] <= found[0][1] - 0.03)
    return Suggestions(tuple(name for name, _ in found), found[0][0] if clear else None)


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _without_prefix(name: str) -> list[str]:
    """What is left of a name without a server in front, for every separator gateways use."""
    rest = [name.partition(separator)[2] for separator in _PREFIXES]
    return [part for part in rest if part]
