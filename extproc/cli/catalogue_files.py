"""Catalogues and queries from files of JSON, with answers that name the line."""

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

TOOL_FILE = "MCP tools: one definition a line, a JSON array, or a saved tools/list answer"


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
    """At least one tool definition, as :func:`numbered_tools` reads them.  Raises ``FileProblem``."""
    return [entry for _, entry in numbered_tools(path)]


def numbered_tools(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Tool definitions with their lines or places: one a line, a JSON array, or a ``tools/list`` answer.

    Raises ``FileProblem``, also when there is none.
    """
    text = _text(path)
    match _whole(text):
        case list(entries):
            found = [(number, _object(path, number, entry)) for number, entry in enumerate(entries, 1)]
        case {"error": _, **rest} if "name" not in rest:
            raise FileProblem(f"no tools in {path}: it is the answer of a request that failed")
        case {"jsonrpc": _} | {"result": _}:
            raise FileProblem(f"no tools in {path}: it is the answer of another request than tools/list")
        case _:
            found = list(_lines(path, text))
    if not found:
        raise FileProblem(f"no tools in {path}")
    return found


def to_catalogue(entries: list[dict[str, Any]]) -> tuple[Catalogue, int]:
    """The catalogue of these definitions, and how many of them are no usable tools."""
    tools: list[Tool] = []
    for entry in entries:
        try:
            written = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")
        except RecursionError:
            continue
        if (tool := parse_tool(written, Tools(), modern=False)) is not None:
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


def _whole(text: str) -> Any:
    """The tools of a text that is one JSON value, that value where they are not found, None for lines."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"result": {"tools": list(tools)}} | {"tools": list(tools)}:
            return tools
        case {"result": list(tools)}:
            return tools
        case _:
            return value


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise FileProblem(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{path}: not UTF-8 text") from None


def _lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise FileProblem(f"{path}:{number}: not JSON: {error}") from None
            except RecursionError:
                raise FileProblem(f"{path}:{number}: JSON that is nested too deeply") from None
            yield number, _object(path, number, value)


def _object(path: Path, number: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise FileProblem(f"{path}:{number}: a JSON object is needed")
    return dict(value)
