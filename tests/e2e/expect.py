"""What clients are promised to see, in one place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.gateway import Envoy
from tests.harness.stack import Stack

LISTED = ["search_tools", "describe_tool", "call_read_tool", "call_write_tool", "call_destructive_tool"]
"""Without a catalogue route ``call_read_tools`` is left out."""

GUIDANCE = "Call search_tools"
"""Words of the built-in guidance."""

BUFFERED = "agentgateway"
"""Its file with buffered bodies, by the name in :func:`tests.harness.stack.gateways`."""
FULL_DUPLEX = "agentgateway-full-duplex"
UNREAD = "agentgateway has no STREAMED: with buffered bodies the events of a call are not read"
OWN_ERRORS = "what agentgateway itself answers, a target's failure included, passes no processor"
REWRITTEN = "agentgateway reads each message and writes it anew: numbers and unknown members may change"
FIRST_PAGE = "agentgateway hands out the first page of a target's list"


def lacks(gateway: str, lacking: tuple[str, ...], why: str) -> None:
    """Skip on the gateways that cannot show this."""
    if gateway in lacking:
        pytest.skip(why)


def envoy_only(running: Stack, why: str) -> None:
    """Skip where the set-up, which the whole session shares, is on agentgateway."""
    if not isinstance(running.gateway, Envoy):
        pytest.skip(why)


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
