"""Leaving a failing upstream alone for a while."""

from __future__ import annotations

import random
from collections.abc import Callable

from extproc.upstream.outcomes import Failed, Reason

THRESHOLD = 5
"""Failures in a row before the route is left alone."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0

_OURS = frozenset((Reason.BUSY, Reason.BACKING_OFF, Reason.NO_ROUTE))
_UPSTREAM = frozenset((Reason.TIMEOUT, Reason.CONNECT, Reason.RESET, Reason.STATUS))


class Circuit:
    """After ``THRESHOLD`` failures in a row requests stop for 1 s, doubled up to 30 s, each with jitter.

    When a pause is over one request goes through; the others follow once it has succeeded.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self._trial = False

    @property
    def open(self) -> bool:
        return self._failures >= THRESHOLD

    @property
    def resting(self) -> bool:
        """Whether :meth:`admits` would say no; once a pause is over it would let one request try."""
        return self.open and (self._trial or self._clock() < self._until)

    def admits(self) -> bool:
        """Whether a request may go out now; an admitted one must be followed by :meth:`report`."""
        if self.resting:
            return False
        self._trial = self.open
        return True

    def report(self, outcome: object) -> None:
        """How an admitted request ended.  A caller's own trouble (4xx, bad lists) is none of the route."""
        self._trial = False
        if isinstance(outcome, Failed):
            if outcome.reason in _UPSTREAM and not outcome.detail.startswith("4"):
                self._failures += 1
                if self.open:
                    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(10, self._failures - THRESHOLD))
                    self._until = self._clock() + pause * random.uniform(0.5, 1.0)
                return
            if outcome.reason in _OURS:
                return
        self._failures = 0

    def abandon(self) -> None:
        """An admitted request was cancelled: nothing is known."""
        self._trial = False
