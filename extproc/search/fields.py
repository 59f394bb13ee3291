"""What of a tool definition is searched: five fields of words and one text to embed."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Texts:
    """Everything about one tool that is searched, as text; its schema is read once.

    ``text``: ``server: split name. description Parameters: names``, at most 300 characters of description.
    ``sentence``: the first sentence of the description.
    """

    named: Named
    parameters: tuple[tuple[str, str], ...]
    text: str
    name: str
    sentence: str

    @classmethod
    def of(cls, named: Named) -> Texts:
        tool = named.tool
        parameters = tuple(schema_parameters(tool.input_schema))
        described = tool.description or tool.title
        name = split_identifier(named.local)
        head = f"{split_identifier(named.server)}: {name}" if named.server else name
        names = split_identifier(", ".join(each for each, _ in parameters[:12]))
        text = f"{head}. {described[:300]}" + (f" Parameters: {names}" if names else "")
        return cls(named, parameters, clean(text), clean(name), clean(first_sentence(described)))

    def fields(self, analyzer: Analyzer) -> Fields:
        """Tokens of each field; a broken or very deep schema counts as one without parameters."""
        tool = self.named.tool
        described = " ".join(text for _, text in self.parameters)[:_MAX_DESCRIPTION]
        title = f" {tool.title}" if tool.title and tool.title.casefold() != tool.name.casefold() else ""
        description = tool.description[:_MAX_DESCRIPTION] + title
        lithuanian = analyzer.looks_lithuanian(description + described)
        names = " ".join(name for name, _ in self.parameters)
        texts = (self.named.local, description, names, described, self.named.server)
        return tuple(tuple(analyzer.tokens(text, lithuanian)) for text in texts)

    def words(self) -> tuple[str, ...]:
        """The words that stand for the tool one by one: its name, first sentence and server."""
        return content_words(f"{self.name} {self.sentence} {clean(self.named.server)}", 24)


class Readings:
    """The texts of some tools, each read when it is first needed and once."""

    def __init__(self, named: Sequence[Named]) -> None:
        self.named = named
        self._texts: dict[int, Texts] = {}

    def __len__(self) -> int:
        return len(self.named)

    def __getitem__(self, row: int) -> Texts:
        texts = self._texts.get(row)
        if texts is None:
            texts = self._texts[row] = Texts.of(self.named[row])
        return texts


def schema_parameters(raw_schema: bytes) -> list[tuple[str, str]]:
    """Name and description of the properties of a JSON schema, nested ones included, at most 200."""
    out: list[tuple[str, str]] = []
    try:
        _collect(msgspec.json.decode(raw_schema), 1, out)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return []
    return out[:_MAX_PARAMETERS]


def _collect(schema: Any, depth: int, out: list[tuple[str, str]]) -> None:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, value in properties.items():
        if len(out) >= _MAX_PARAMETERS:
            return
        described = value.get("description") if isinstance(value, dict) else None
        out.append((name, described if isinstance(described, str) else ""))
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            if "properties" in value:
                _collect(value, depth + 1, out)
            if "items" in value:
                _collect(value["items"], depth + 1, out)
