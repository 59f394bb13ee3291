"""The calls of ``call_read_tools``: made at once, cancelled together, merged into one answer."""

from __future__ import annotations

import asyncio
import time

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Tool
from extproc.exchange.messages import Reply
from extproc.profiles import Profile
from extproc.rewriter import batch, response, rpc
from extproc.rewriter.decisions import CallMany
from extproc.upstream import Call, CallError, CallResult, Failed, SessionLost, Unauthorized

_CALLING = 0.9
"""Share of ``server.deadline`` after which the calls of one ``call_read_tools`` are given up."""
_Slot = tuple[bytes, str | None, bytes]
"""Caller, session and request id, under which a client can cancel."""


class Batches:
    """Those that run now."""

    def __init__(self) -> None:
        self._running: dict[_Slot, asyncio.Task[object]] = {}

    def cancel(self, caller: CallerContext, request_id: bytes) -> None:
        """``notifications/cancelled``: ends the batch of that request if it is the client's own."""
        slot = _slot(caller, request_id)
        if slot is not None and (task := self._running.get(slot)) is not None:
            task.cancel()

    async def run(self, decision: CallMany, profile: Profile, caller: CallerContext, began: float) -> Reply:
        """The merged answer, or the upstream's own 401, 403 or 404.  ``began`` is when the request came."""
        calls = [Call(each.tool.name, each.arguments, each.headers) for each in decision.calls]
        catalog, deadline = profile.settings.catalog, profile.settings.server.deadline
        left = began + deadline * _CALLING - time.monotonic() if deadline else catalog.timeout
        timeout = max(0.0, min(catalog.timeout, left))
        task = asyncio.ensure_future(profile.client.call_many(caller, calls, timeout=timeout))
        slot = _slot(caller, decision.rpc.id)
        if slot is not None:
            self._running[slot] = task
        try:
            outcome = await task
        except asyncio.CancelledError:
            if task.cancelled() and not _is_cancelled():
                return Reply(rpc.tool_error(decision.rpc, "The calls were cancelled."))
            task.cancel()
            raise
        finally:
            if slot is not None and self._running.get(slot) is task:
                del self._running[slot]
        if isinstance(outcome, Unauthorized | SessionLost):
            if isinstance(outcome, Unauthorized):
                profile.store.drop(caller.key)
            return rpc.relayed(decision.rpc, outcome.status, outcome.headers, outcome.body)
        entries = [_entry(each.tool, one) for each, one in zip(decision.calls, outcome, strict=True)]
        if any(entry.outdated for entry in entries):
            profile.store.mark_stale(caller.key)
        profile.refresher.used(caller)
        return Reply(batch.merge(decision.rpc, entries, profile.settings.limits.batch_result))


def _slot(caller: CallerContext, request_id: bytes) -> _Slot | None:
    """None for a caller that nothing tells from others: an id alone may be anybody's."""
    return None if caller.key is None else (caller.key, caller.session, request_id)


def _entry(tool: Tool, outcome: CallResult | CallError | Failed) -> batch.Entry:
    match outcome:
        case CallResult(raw):
            return batch.Answered(tool.name, *(response.mended(raw, tool) or (raw, False)))
        case CallError(code, message):
            text, outdated = response.explained(code, message[:2000], tool)
            return batch.Broken(tool.name, f"The server answered with error {code}: {text}", outdated)
        case Failed(reason):
            return batch.Broken(
                tool.name, f"No result: {reason.value}. It is a read, so calling it again is safe."
            )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
