"""What of a tool definition is searched: five fields of words and one text to embed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from extproc.catalog.model import Tool
from extproc.search.segments import content_words, first_sentence
from extproc.search.words import Analyzer, clean, split_identifier

FIELDS = ("name", "description", "parameters", "parameter descriptions", "server")

_MAX_PARAMETERS = 200
_MAX_DEPTH = 4
_MAX_DESCRIPTION = 8_000

Fields = tuple[tuple[str, ...], ...]
"""Tokens by field, in the order of ``FIELDS``."""


@dataclass(frozen=True, slots=True)
class Named:
    """A tool with its name taken apart: ``server`` is empty when the name has no server prefix."""

    tool: Tool
    server: str
    local: str


def tool_fields(named: Named, analyzer: Analyzer) -> Fields:
    """Tokens of each field; a broken or very deep schema counts as one without parameters."""
    tool = named.tool
    parameters = list(schema_parameters(tool.input_schema))
    described = " ".join(text for _, text in parameters)[:_MAX_DESCRIPTION]
    title = f" {tool.title}" if tool.title and tool.title.casefold() != tool.name.casefold() else ""
    description = tool.description[:_MAX_DESCRIPTION] + title
    lithuanian = analyzer.looks_lithuanian(description + described)
    texts = (named.local, description, " ".join(name for name, _ in parameters), described, named.server)
    return tuple(tuple(analyzer.tokens(text, lithuanian)) for text in texts)


def embedding_text(named: Named, limit: int = 600) -> str:
    """``server: split name. description Parameters: names``; at most ``limit`` characters of description."""
    tool = named.tool
    head = split_identifier(named.local)
    if named.server:
        head = f"{split_identifier(named.server)}: {head}"
    names = ", ".join(split_identifier(name) for name, _ in list(schema_parameters(tool.input_schema))[:12])
    described = tool.description or tool.title
    return clean(f"{head}. {described[:limit]}" + (f" Parameters: {names}" if names else ""))


def embedding_parts(named: Named) -> tuple[str, str, str]:
    """The whole text, the name, the first sentence of the description."""
    sentence = clean(first_sentence(named.tool.description or named.tool.title))
    return embedding_text(named), clean(split_identifier(named.local)), sentence


def tool_words(named: Named) -> tuple[str, ...]:
    """The words that stand for a tool one by one: its name, first sentence and server."""
    sentence = first_sentence(named.tool.description or named.tool.title)
    return content_words(clean(f"{named.local} {sentence} {named.server}"), 24)


def schema_parameters(raw_schema: bytes) -> Iterator[tuple[str, str]]:
    """Name and description of the properties of a JSON schema, nested ones included, at most 200."""
    try:
        schema = msgspec.json.decode(raw_schema)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return
    for count, found in enumerate(_properties(schema, 0)):
        if count >= _MAX_PARAMETERS:
            return
        yield found


def _properties(schema: Any, depth: int) -> Iterator[tuple[str, str]]:
    properties = schema.get("properties") if isinstance(schema, dict) and depth < _MAX_DEPTH else None
    if not isinstance(properties, dict):
        return
    for name, value in properties.items():
        if not isinstance(value, dict):
            yield name, ""
            continue
        described = value.get("description")
        yield name, described if isinstance(described, str) else ""
        yield from _properties(value, depth + 1)
        yield from _properties(value.get("items"), depth + 1)
