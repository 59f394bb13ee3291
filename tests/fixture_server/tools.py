"""The tools: those of the catalogue file and a few of the server's own that misbehave on request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

Tool: TypeAlias = dict[str, Any]

STANDARD = {"name", "title", "description", "inputSchema", "outputSchema"}
STANDARD |= {"annotations", "icons", "execution", "_meta"}
READ = {"readOnlyHint": True, "openWorldHint": False}
WRITE = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
DELETE = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False}


def read_catalogue(text: str) -> list[Tool]:
    """Tools from JSON lines, the fields outside the specification's ``Tool`` left out."""
    lines = (json.loads(line) for line in text.splitlines() if line.strip())
    return [{key: value for key, value in tool.items() if key in STANDARD} for tool in lines]


def load(path: Path | None) -> list[Tool]:
    return read_catalogue(path.read_text("utf-8")) if path else []


def _tool(name: str, description: str, annotations: Mapping[str, bool] | None, **properties: Any) -> Tool:
    tool: Tool = {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    }
    return {**tool, "annotations": dict(annotations)} if annotations else tool


FAULT = {"type": "string", "description": "500, 403, reset, half, is_error, invalid_params, unknown_tool"}

FIXTURE_TOOLS: tuple[Tool, ...] = (
    _tool("fixture_echo", "Give back the arguments as they came", READ, text={"type": "string"}),
    _tool("fixture_write", "Pretend to store a note", WRITE, text={"type": "string"}),
    _tool("fixture_delete", "Pretend to delete a note", DELETE, text={"type": "string"}),
    _tool("fixture_unannotated", "Say nothing about what this does", None, text={"type": "string"}),
    _tool("fixture_slow", "Wait before answering", READ, seconds={"type": "number"}),
    _tool(
        "fixture_progress",
        "Report progress while working",
        READ,
        steps={"type": "integer"},
        delay={"type": "number"},
    ),
    _tool("fixture_elicit", "Ask the person a question before answering", READ, question={"type": "string"}),
    _tool("fixture_fail", "Fail while reading", READ, how=FAULT),
    _tool("fixture_fail_write", "Fail while storing", WRITE, how=FAULT),
    _tool("fixture_fail_delete", "Fail while deleting", DELETE, how=FAULT),
    _tool("fixture_big", "Answer with a text of the given size", READ, bytes={"type": "integer"}),
    _tool("fixture_content", "Answer with text, an image and structured content", READ),
    _tool(
        "fixture_region",
        "Read from one region",
        READ,
        region={"type": "string", "x-mcp-header": "Region"},
        level={"type": "integer", "x-mcp-header": "Level"},
        dry={"type": "boolean", "x-mcp-header": "Dry"},
        text={"type": "string"},
    ),
    _tool(
        "fixture_bad_header",
        "Carry a header annotation on a number, which makes the tool invalid",
        READ,
        amount={"type": "number", "x-mcp-header": "Amount"},
    ),
)


def visible(tools: Iterable[Tool], globs: Iterable[str]) -> list[Tool]:
    patterns = tuple(globs)
    return [tool for tool in tools if any(fnmatchcase(tool["name"], pattern) for pattern in patterns)]


def padded(tools: list[Tool], size: int) -> list[Tool]:
    """The same tools with descriptions long enough for ``size`` bytes in all."""
    if not size or not tools:
        return tools
    filler = " and every detail a reader might want" * (size // (37 * len(tools)) + 1)
    return [{**tool, "description": tool.get("description", "") + filler} for tool in tools]


def header_arguments(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Header name (lower case) and value, None where absent, for each ``x-mcp-header`` annotation."""
    yield from _annotated(tool["inputSchema"], arguments)


def _annotated(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any]]:
    given = value if isinstance(value, dict) else {}
    for name, part in schema.get("properties", {}).items():
        if isinstance(part, dict):
            if "x-mcp-header" in part and part.get("type") in ("string", "integer", "boolean"):
                yield f"mcp-param-{part['x-mcp-header']}".lower(), given.get(name)
            yield from _annotated(part, given.get(name))
