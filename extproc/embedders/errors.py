"""Why an embedder could not be loaded."""

from __future__ import annotations

from extproc.search.embedder import EmbedderError


class EmbedderUnavailable(EmbedderError):
    """The embedder cannot be loaded at all; the text says why and what to do."""
