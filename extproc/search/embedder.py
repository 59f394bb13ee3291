"""The seam between ranking and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into unit vectors.  Implementations are safe to call from any thread."""

    @property
    def name(self) -> str:
        """Identifies the model and its version: part of every cache key."""

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape ``(len(texts), dimension)``; each row has length 1, or 0 for a text with nothing known in it.

        Raises ``EmbedderError`` when the model cannot answer (a remote service that is down).
        """


class EmbedderError(Exception):
    """The embedder cannot answer now; ranking goes on without it."""


class PieceTable(Embedder, Protocol):
    """A static table, where many small texts cost no more than one long text.

    Queries are read word by word with it, tools in parts; everything else is given whole texts.
    """

    def sums(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As ``embed`` before rows are brought to length 1: the rows of two words add up to that of both."""


def as_table(embedder: Embedder) -> PieceTable | None:
    """The embedder itself if it is a table of pieces, else None."""
    return cast(PieceTable, embedder) if callable(getattr(embedder, "sums", None)) else None
