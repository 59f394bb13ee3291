"""What the store knows about one caller at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from extproc.catalog.model import Catalogue

if TYPE_CHECKING:
    from extproc.search import ToolIndex


class Warm(msgspec.Struct, frozen=True):
    """A catalogue that may serve.

    ``age`` in seconds since it was learned.  ``fresh`` is false once its life is over or something said
    that it changed: calls may still be checked against it, but where nothing refreshes it in the
    background a search should learn again.
    """

    catalogue: Catalogue
    index: ToolIndex
    age: float = 0.0
    fresh: bool = True


class Cold(msgspec.Struct, frozen=True):
    """Nothing usable is known about this caller."""


View: TypeAlias = Warm | Cold
