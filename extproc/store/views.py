"""What the store knows about one caller at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from extproc.catalog.model import Catalogue

if TYPE_CHECKING:
    from extproc.search import ToolIndex


@dataclass(frozen=True, slots=True)
class Warm:
    """A catalogue that may serve.

    ``age`` in seconds since it was learned.  ``fresh`` is false once its life is over or something said
    that it changed: calls may still be checked against it, but where nothing refreshes it in the
    background a search should learn again.
    """

    catalogue: Catalogue
    index: ToolIndex
    age: float = 0.0
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Cold:
    """Nothing usable is known about this caller."""


View: TypeAlias = Warm | Cold
