"""Lists that a gateway may have cut at a server's first page.

agentgateway reads one page of each target and drops its ``nextCursor``, so nothing in the answer tells that
there is more.  What is left to see: as many tools as servers commonly put on a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from extproc.catalog.model import ByDigest, Catalogue
from extproc.catalog.parse import is_hidden
from extproc.exchange.messages import Dialect
from extproc.search.servers import SEPARATORS, detect_separator, split_name
from extproc.settings import Tools

PAGES = frozenset((50, 100, 200, 250, 500, 1000))
"""Tools that servers commonly put on one page."""
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One server's list that is, or may be, cut.

    ``server`` is empty where names carry no prefix.  ``missing`` counts tools that the server's own route
    lists and the gateway did not pass on; None where only the number of tools looks like a page.
    """

    server: str
    listed: int
    missing: int | None = None


def looks_cut(catalogue: Catalogue, dialect: Dialect) -> tuple[Shortfall, ...]:
    """Servers with exactly as many tools as a page has, sorted; none where the gateway passes pages on."""
    if dialect is not Dialect.AGENTGATEWAY or not catalogue.complete:
        return ()
    return _looks_cut(ByDigest(catalogue))


def missing(server: str, offered: Iterable[str], catalogue: Catalogue, policy: Tools) -> int:
    """How many of the names that ``server`` itself lists are in no form in the catalogue.

    Tools that the operator hides are not missed.
    """
    count = 0
    for name in offered:
        forms = (name, *(f"{server}{separator}{name}" for separator in SEPARATORS))
        if not any(catalogue.get(form) is not None or is_hidden(form, policy) for form in forms):
            count += 1
    return count


def listed_of(server: str, catalogue: Catalogue) -> int:
    """How many tools of the catalogue carry the server's name as a prefix."""
    starts = tuple(server + separator for separator in SEPARATORS)
    return sum(tool.name.startswith(starts) for tool in catalogue)


def note(found: Iterable[Shortfall]) -> str:
    """One sentence or two for a model; empty when nothing was found.

    It tells no number of tools that this caller was not shown.
    """
    known, suspected = [], []
    for each in found:
        label = f"server {each.server[:40]!r}" if each.server else "the server"
        if each.missing:
            known.append(label)
        else:
            suspected.append(f"{label} ({each.listed})")
    texts = []
    if known:
        texts.append(
            f"More tools exist than can be found here, for the gateway cut the list of {_some(known)}."
        )
    if suspected:
        texts.append(
            f"The tool list may be cut at a page: {_some(suspected)}. A tool that is missing may still exist."
        )
    return " ".join(texts)


def _some(parts: list[str]) -> str:
    more = f" and {len(parts) - _MAX_NAMED} more servers" if len(parts) > _MAX_NAMED else ""
    return ", ".join(parts[:_MAX_NAMED]) + more


@lru_cache(maxsize=256)
def _looks_cut(key: ByDigest[Catalogue]) -> tuple[Shortfall, ...]:
    names = [tool.name for tool in key.value]
    separator = detect_separator(names)
    sizes = Counter(split_name(name, separator)[0] for name in names)
    found = tuple(Shortfall(server, size) for server, size in sorted(sizes.items()) if size in PAGES)
    # One server may list tools under several prefixes of its own: then all of them are its page.
    return found or ((Shortfall("", len(names)),) if len(names) in PAGES else ())
