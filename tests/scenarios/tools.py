"""The catalogue the scenarios share: every annotation and schema shape that decides something."""

from __future__ import annotations

import json
from typing import Any

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
OPEN: dict[str, Any] = {"type": "object"}
HEADERED = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "page": {"type": "object", "properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
        "note": {"type": "string"},
    },
}
INVALID_HEADER = {"type": "object", "properties": {"ratio": {"type": "number", "x-mcp-header": "Ratio"}}}


def tool(name: str, text: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": text, "inputSchema": schema or OPEN, **more}


TOOLS: tuple[dict[str, Any], ...] = (
    tool("files__read_file", "Read a text file from disk", PATH, annotations={"readOnlyHint": True}),
    tool("files__write_file", "Write a text file to disk", PATH, annotations={"destructiveHint": False}),
    tool("files__delete_file", "Remove a file for good", PATH),
    tool("mail__send", "Send an email message", annotations={"readOnlyHint": "true"}),
    tool(
        "mail__list_unread",
        "List unread email of a region",
        HEADERED,
        annotations={"readOnlyHint": True, "destructiveHint": True, "openWorldHint": False},
    ),
    tool("wetter__prüfe ort", "Report the weather of a town", annotations={"readOnlyHint": True}),
    tool("search_tools", "Search the workshop for hammers", annotations={"readOnlyHint": True}),
    tool("bad__ratio", "Compute a ratio", INVALID_HEADER, annotations={"readOnlyHint": True}),
    tool("desk__confirm", "Ask a person to confirm", annotations={"destructiveHint": False}),
    tool(
        "jobs__run",
        "Run a long job",
        execution={"taskSupport": "required"},
        annotations={"readOnlyHint": True},
    ),
    tool(
        "ui__board",
        "Show a board",
        _meta={"ui": {"resourceUri": "ui://b"}},
        annotations={"readOnlyHint": True},
    ),
    tool(
        "data__query",
        "Query rows",
        outputSchema={"type": "object", "properties": {"rows": {"type": "array"}}},
        annotations={"readOnlyHint": True},
    ),
)
SIX = (
    "search_tools",
    "describe_tool",
    "call_read_tool",
    "call_write_tool",
    "call_destructive_tool",
    "call_read_tools",
)


def raw(tools: tuple[dict[str, Any], ...] = TOOLS) -> list[bytes]:
    return [json.dumps(one, ensure_ascii=False).encode() for one in tools]
