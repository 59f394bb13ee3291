"""How tools are shown to a model."""

from __future__ import annotations


def one_line(description: str, chars: int) -> str:
    """The first sentences of a description, at most ``chars`` characters."""
    return " ".join(description.split())[:chars]


def slim_schema(raw_schema: bytes) -> bytes:
    """The schema without what a model does not need."""
    return raw_schema
