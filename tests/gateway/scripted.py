"""A processor that follows a script, for planting faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Event,
    HeadersArrived,
    Opening,
    Side,
    TrailersArrived,
)

from .wire import Answer, BodyAnswer, HeadersAnswer, Streamed, TrailersAnswer

Script: TypeAlias = Callable[[Event], Sequence[Answer] | None]
"""The answers to one event; None leaves them to :func:`obedient`."""


def obedient(event: Event, mode: BodyMode) -> Sequence[Answer]:
    """Answer every message so that nothing changes."""
    match event:
        case HeadersArrived(side):
            return (HeadersAnswer(side),)
        case BodyArrived(side, chunk, end) if mode is BodyMode.FULL_DUPLEX:
            return (BodyAnswer(side, Streamed(chunk, end)),)
        case BodyArrived(side):
            return (BodyAnswer(side),)
        case TrailersArrived(side):
            return (TrailersAnswer(side),)


class Scripted:
    """``Scripted(script)`` opens streams that follow ``script`` and are obedient otherwise."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._opening = Opening()

    def __call__(self, opening: Opening) -> Scripted:
        self._opening = opening
        return self

    async def receive(self, event: Event) -> Sequence[Answer]:
        answers = self._script(event)
        if answers is not None:
            return answers
        request = event.side is Side.REQUEST
        return obedient(event, self._opening.request_mode if request else self._opening.response_mode)

    async def end(self) -> None:
        """Nothing is left to do."""
