"""The definitions a client sees instead of the upstream's tools.

Plain schemas only: no ``$ref``, ``anyOf``, ``const`` or ``outputSchema``, which several model providers
refuse, and no ``x-mcp-header``.  Every annotation is explicit, because an absent one means destructive and
open world.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from extproc.catalog.model import Catalogue, Tool, ToolClass
from extproc.catalog.parse import is_pinned
from extproc.mcp import slices
from extproc.rewriter.overview import overview
from extproc.settings import Tools


class Meta(StrEnum):
    """Names of the tools the processor itself answers or rewrites."""

    SEARCH = "search_tools"
    DESCRIBE = "describe_tool"
    CALL_READ = "call_read_tool"
    CALL_READ_MANY = "call_read_tools"
    CALL_WRITE = "call_write_tool"
    CALL_DESTRUCTIVE = "call_destructive_tool"


CALL_FOR = {
    ToolClass.READ: Meta.CALL_READ,
    ToolClass.WRITE: Meta.CALL_WRITE,
    ToolClass.DESTRUCTIVE: Meta.CALL_DESTRUCTIVE,
}
CLASS_OF = {meta: tool_class for tool_class, meta in CALL_FOR.items()}
NAMES = frozenset(Meta)

_TEXT = {"type": "string"}
_ARGUMENTS = {
    "type": "object",
    "description": "Arguments for that tool, as its inputSchema says.",
    "additionalProperties": True,
}
_NAME = {"type": "string", "description": "Exact tool name from search_tools."}


def _definition(
    name: Meta,
    title: str,
    description: str,
    properties: dict[str, object],
    required: list[str],
    *,
    read_only: bool,
    destructive: bool = False,
    idempotent: bool,
    open_world: bool,
) -> dict[str, object]:
    return {
        "name": name.value,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
        "annotations": {
            "title": title,
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        },
    }


def _single_call(
    name: Meta, kind: str, title: str, *, read_only: bool, destructive: bool
) -> dict[str, object]:
    return _definition(
        name,
        title,
        f"Run one {kind} tool found with search_tools. Other kinds are refused with the right call to use.",
        {"name": _NAME, "arguments": _ARGUMENTS},
        ["name"],
        read_only=read_only,
        destructive=destructive,
        idempotent=False,
        open_world=True,
    )


def _search(covers: str) -> dict[str, object]:
    return _definition(
        Meta.SEARCH,
        "Search tools",
        "Find tools by what they do. Many tools of many connected services are behind this server and are "
        "not listed: always search before saying that something cannot be done. Ask in plain words, in any "
        "language, one query for each thing you need. Each hit names the call tool to run it with; the best "
        "hits come with their inputSchema." + (covers and f" {covers}"),
        {
            "queries": {
                "type": "array",
                "items": _TEXT,
                "minItems": 1,
                "maxItems": 5,
                "description": "What the tools should do, for example ['create an issue', 'send an email'].",
            },
            "limit": {"type": "integer", "minimum": 1, "description": "Hits for each query."},
            "server": {
                "type": "string",
                "description": "Only tools of this server (the prefix of tool names).",
            },
        },
        ["queries"],
        read_only=True,
        idempotent=True,
        open_world=False,
    )


def _describe() -> dict[str, object]:
    return _definition(
        Meta.DESCRIBE,
        "Describe tools",
        "Full description and inputSchema of tools, by exact name. Use it before a call whose schema you "
        "have not seen.",
        {
            "names": {
                "type": "array",
                "items": _TEXT,
                "minItems": 1,
                "maxItems": 10,
                "description": "Exact tool names from search_tools.",
            }
        },
        ["names"],
        read_only=True,
        idempotent=True,
        open_world=False,
    )


def _call_many(most: int) -> dict[str, object]:
    return _definition(
        Meta.CALL_READ_MANY,
        "Call several read tools",
        "Run several read-only tools at once; one result for each call, in order.",
        {
            "calls": {
                "type": "array",
                "minItems": 1,
                "maxItems": most,
                "items": {
                    "type": "object",
                    "properties": {"name": _NAME, "arguments": _ARGUMENTS},
                    "required": ["name"],
                },
            }
        },
        ["calls"],
        read_only=True,
        idempotent=False,
        open_world=True,
    )


@lru_cache(maxsize=256)
def definitions(max_batch: int, *, tasks: bool = False, covers: str = "") -> tuple[bytes, ...]:
    """The definitions as JSON, always in the same order and bytes.

    ``max_batch`` 0 leaves ``call_read_tools`` out.  ``tasks`` offers task execution on the single calls.
    ``covers`` ends the description of ``search_tools``.
    """
    single = [
        _single_call(Meta.CALL_READ, "read-only", "Call a read tool", read_only=True, destructive=False),
        _single_call(
            Meta.CALL_WRITE,
            "writing (not destructive)",
            "Call a write tool",
            read_only=False,
            destructive=False,
        ),
        _single_call(
            Meta.CALL_DESTRUCTIVE,
            "destructive or unclassified",
            "Call a destructive tool",
            read_only=False,
            destructive=True,
        ),
    ]
    if tasks:
        single = [{**tool, "execution": {"taskSupport": "optional"}} for tool in single]
    tools = [_search(covers), _describe(), single[0]]
    if max_batch:
        tools.append(_call_many(max_batch))
    return tuple(slices.encode(tool) for tool in [*tools, *single[1:]])


def listed(
    catalogue: Catalogue | None, policy: Tools, max_batch: int, *, tasks: bool = False, cover: bool = False
) -> bytes:
    """The ``tools`` array a client sees: the six, then pinned tools with their own definitions.

    ``cover`` lets ``search_tools`` say what the catalogue covers.
    """
    pinned = pinned_tools(catalogue, policy) if catalogue is not None else []
    covers = overview(catalogue) if cover and catalogue is not None else ""
    own = definitions(max_batch, tasks=tasks, covers=covers)
    return slices.join_array([*own, *(tool.raw for tool in pinned)])


def pinned_tools(catalogue: Catalogue, policy: Tools) -> list[Tool]:
    if not policy.pin and not policy.pin_apps:
        return []
    return [tool for tool in catalogue if is_pinned(tool, policy) and tool.name not in NAMES]
