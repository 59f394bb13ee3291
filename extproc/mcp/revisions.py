"""Which revision of MCP a message belongs to (facts per dated specification)."""

from __future__ import annotations

import re
from functools import lru_cache

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ASSUMED = "2025-03-26"
"""What a request without any sign of its revision is taken for (2025-06-18, transports)."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

_DATED = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


@lru_cache(maxsize=64)
def is_modern(revision: str) -> bool:
    """Whether a revision has per-request metadata instead of the ``initialize`` handshake."""
    return revision == "draft" or (bool(_DATED.match(revision)) and revision >= MODERN)


def is_known(revision: str) -> bool:
    return revision in LEGACY or revision == MODERN or revision == "draft"


def has_structured_content(revision: str) -> bool:
    """``structuredContent`` exists from 2025-06-18 on."""
    return revision >= "2025-06-18"


def allows_batches(revision: str) -> bool:
    """JSON-RPC arrays are valid in 2025-03-26 only."""
    return revision == "2025-03-26"
