"""What the server can be told to do, as one value that the control endpoint replaces."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)


@dataclass(frozen=True)
class Options:
    """Every switch with its default; ``PATCH /control/options`` sets some of them."""

    era: Literal["both", "legacy", "modern"] = "both"
    answers: Literal["json", "sse"] = "json"
    sessions: bool = True
    page_size: int = 0
    """Tools in one page of ``tools/list``; 0 puts all in one."""
    require_token: bool = False
    tokens: dict[str, list[str]] = field(default_factory=dict)
    """Bearer token to globs of the tool names it may see and call.  When set, any other token is refused."""
    anonymous: tuple[str, ...] = ("*",)
    """Globs for callers without a token."""
    list_delay: float = 0.0
    """Seconds before a ``tools/list`` is answered."""
    faults: dict[str, str] = field(default_factory=dict)
    """JSON-RPC method to fault: ``500``, ``503``, ``reset``, ``half``, ``empty``, ``text``, ``error``."""
    compress: bool = False
    """Gzip JSON answers when the request accepts it."""
    ttl_ms: int = 60_000
    cache_scope: Literal["private", "public"] = "private"
    instructions: str | None = "The fixture server answers every call with what it was given."
    list_changed: bool = True
    resume: bool = False
    """Legacy only: break the stream of a POST before the answer; a GET with ``Last-Event-ID`` delivers it."""
    fixture_tools: bool = True
    extra_bytes: int = 0
    """Pads ``tools/list`` answers to at least this size, in bytes, with long descriptions."""

    def patched(self, changes: dict[str, Any]) -> Options:
        """Raises TypeError for an option that does not exist."""
        return replace(self, **changes)
