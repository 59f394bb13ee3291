"""Plain numbers about the store; whoever exports metrics reads them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Counts since the start.  The second block concerns the shared store."""

    warm: int = 0
    cold: int = 0
    expired: int = 0
    """Views that found a catalogue past its life and past ``catalog.max_stale``."""
    learned: int = 0
    built: int = 0
    """Indexes built."""
    failed_builds: int = 0
    quick: int = 0
    """Searches answered by words alone because the full index was not ready."""
    parts: int = 0
    """Catalogues served by a part of a larger index."""
    kept_complete: int = 0
    """Incomplete lists that were not allowed to replace a complete one."""
    shrunk: int = 0
    """Lists that lost tools and are asked for again soon."""
    superseded: int = 0
    """Answers that arrived after a refusal or a newer answer and were not stored."""
    dropped: int = 0
    marked_stale: int = 0
    evicted_callers: int = 0

    recalled: int = 0
    """Callers this process did not know and the shared store did."""
    recall_missed: int = 0
    published: int = 0
    shared_timeouts: int = 0
    shared_errors: int = 0
    shared_rejected: int = 0
    """Entries of the shared store that could not be opened: another key, or damaged."""
    shared_skipped: int = 0
    """Operations not tried because the shared store failed a moment ago."""
