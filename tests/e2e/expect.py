"""What clients are promised to see, in one place."""

from __future__ import annotations

import json
from typing import Any

LISTED = ["search_tools", "describe_tool", "call_read_tool", "call_write_tool", "call_destructive_tool"]
"""Without a catalogue route ``call_read_tools`` is left out."""

GUIDANCE = "Call search_tools"
"""Words of the built-in guidance."""


def names(tools: list[Any]) -> list[str]:
    return [tool["name"] if isinstance(tool, dict) else tool.name for tool in tools]


def found(answer: Any) -> list[str]:
    """The tool names in a search or describe answer, best first, each once."""
    seen: dict[str, None] = {}
    _walk(json.loads(answer) if isinstance(answer, str) else answer, seen)
    return list(seen)


def _walk(value: Any, seen: dict[str, None]) -> None:
    match value:
        case {"name": str(name)}:
            seen.setdefault(name)
        case dict():
            for part in value.values():
                _walk(part, seen)
        case list():
            for part in value:
                _walk(part, seen)
        case _:
            pass


def echoed(text: str) -> dict[str, Any]:
    """What the fixture server says it was given: ``tool``, ``arguments``, ``caller``."""
    said: dict[str, Any] = json.loads(text)
    return said
