"""Catalogues and queries from JSON-lines files, with answers that name the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extproc.catalog.model import Catalogue, Tool
from extproc.catalog.parse import parse_tool
from extproc.cli import UsageError
from extproc.settings import Tools


class FileProblem(UsageError):
    """A file that cannot be used; the text names the file, the line and what is wrong."""


@dataclass(frozen=True, slots=True)
class Need:
    """One query of an evaluation file; ``lang``, ``kind`` and ``split`` are empty when it does not say."""

    query: str
    relevant: tuple[str, ...]
    lang: str = ""
    kind: str = ""
    split: str = ""


def read_tools(path: Path) -> list[dict[str, Any]]:
    """Tool definitions: one a line, a JSON array, or a ``tools/list`` result.  Raises ``FileProblem``."""
    text = _text(path)
    if text.lstrip().startswith(("[", "{")) and (whole := _whole(text)) is not None:
        return [_object(path, number, entry) for number, entry in enumerate(whole, 1)]
    return [entry for _, entry in _lines(path, text)]


def to_catalogue(entries: list[dict[str, Any]]) -> tuple[Catalogue, int]:
    """The catalogue of these definitions, and how many of them are no usable tools."""
    tools: list[Tool] = []
    for entry in entries:
        tool = parse_tool(
            json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace"), Tools(), modern=False
        )
        if tool is not None:
            tools.append(tool)
    return Catalogue.of(tools), len(entries) - len(tools)


def read_needs(path: Path) -> list[Need]:
    """Queries with the tools that serve them, one a line.  Raises ``FileProblem``."""
    out = []
    for number, entry in _lines(path, _text(path)):
        query, relevant = entry.get("query"), entry.get("relevant")
        if not isinstance(query, str):
            raise FileProblem(f"{path}:{number}: 'query' must be a string")
        if (
            not isinstance(relevant, list)
            or not relevant
            or not all(isinstance(name, str) for name in relevant)
        ):
            raise FileProblem(f"{path}:{number}: 'relevant' must be a list of at least one tool name")
        rest = {
            key: value if isinstance(value := entry.get(key), str) else ""
            for key in ("lang", "kind", "split")
        }
        out.append(Need(query, tuple(relevant), **rest))
    if not out:
        raise FileProblem(f"{path}: no queries")
    return out


def _whole(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for key in ("result", "tools"):
        if isinstance(value, dict) and key in value:
            value = value[key]
    return value if isinstance(value, list) else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise FileProblem(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{path}: not UTF-8 text") from None


def _lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileProblem(f"{path}:{number}: not JSON: {error}") from None
            yield number, _object(path, number, value)


def _object(path: Path, number: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise FileProblem(f"{path}:{number}: a JSON object is needed")
    return dict(value)
