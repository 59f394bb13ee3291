"""Several calls at once with a result for each (``call_read_tools``)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from extproc.exchange.messages import Headers
from extproc.mcp import slices
from extproc.mcp.headers import encode_value
from extproc.upstream import rpc
from extproc.upstream.channel import Channel, Ids
from extproc.upstream.circuit import Circuit
from extproc.upstream.outcomes import (
    CallError,
    CallOutcome,
    CallResult,
    Failed,
    Reason,
    SessionLost,
    Unauthorized,
)
from extproc.upstream.transport import Transport

_CANCEL_DEADLINE = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """``arguments`` is the raw JSON object, sent byte for byte.

    ``headers`` are the ``Mcp-Param-*`` of modern requests; ``Mcp-Name`` is added here.
    """

    name: str
    arguments: bytes = field(default=b"{}", repr=False)
    headers: Headers = field(default=(), repr=False)


class _Ended(Exception):
    """One answer that stands for the whole batch."""

    def __init__(self, outcome: Unauthorized | SessionLost) -> None:
        super().__init__()
        self.outcome = outcome


class Batch:
    """One run of calls over one channel; ``size_limit`` bytes and ``timeout`` seconds hold for each call."""

    def __init__(
        self,
        transport: Transport,
        channel: Channel,
        ids: Ids,
        places: asyncio.Semaphore,
        circuit: Circuit,
        *,
        size_limit: int,
        timeout: float,
        cancels: set[asyncio.Task[None]],
    ) -> None:
        self._transport = transport
        self._channel = channel
        self._ids = ids
        self._places = places
        self._circuit = circuit
        self._size_limit = size_limit
        self._timeout = timeout
        self._cancels = cancels

    async def run(self, calls: Sequence[Call]) -> tuple[CallOutcome, ...] | Unauthorized | SessionLost:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(call)) for call in calls]
        except* _Ended as ended:
            first = ended.exceptions[0]
            while isinstance(first, ExceptionGroup):
                first = first.exceptions[0]
            assert isinstance(first, _Ended)
            outcome = first.outcome
        else:
            return tuple(task.result() for task in tasks)
        return outcome

    async def _one(self, call: Call) -> CallOutcome:
        if not self._circuit.admits():
            return Failed(Reason.BACKING_OFF)
        request_id: int | None = None
        reply: rpc.Reply
        try:
            async with asyncio.timeout(self._timeout):
                async with self._places:
                    request_id = self._ids.next()
                    reply = await self._send(call, request_id)
        except TimeoutError:
            if request_id is not None:
                self._cancel(request_id)
            reply = Failed(Reason.BUSY if request_id is None else Reason.TIMEOUT)
        except asyncio.CancelledError:
            self._circuit.abandon()
            if request_id is not None:
                self._cancel(request_id)
            raise
        except Exception as error:  # one faulty entry must not take the others with it
            reply = Failed(Reason.INTERNAL, type(error).__name__)
        outcome = self._outcome(reply)
        # A slow tool says nothing about the route.
        slow = isinstance(outcome, Failed) and outcome.reason is Reason.TIMEOUT
        self._circuit.report(Failed(Reason.BUSY) if slow else outcome)
        if isinstance(outcome, Unauthorized | SessionLost):
            raise _Ended(outcome)
        return outcome

    async def _send(self, call: Call, request_id: int) -> rpc.Reply:
        # Parameters carry no progress token: tokens must be unique among a session's open requests.
        params = {"name": slices.quote(call.name), "arguments": call.arguments}
        extra: Headers = ()
        if self._channel.meta is not None:
            extra = (("mcp-name", encode_value(call.name)), *call.headers)
        return await rpc.request(
            self._transport,
            self._channel,
            "tools/call",
            params,
            request_id,
            extra=extra,
            limit=self._size_limit,
        )

    def _outcome(self, reply: rpc.Reply) -> CallOutcome | Unauthorized | SessionLost:
        match reply:
            case rpc.Answer(result=result):
                return CallResult(result)
            case rpc.HttpError(status=401 | 403):
                return Unauthorized(reply.status, reply.headers, reply.body)
            case rpc.RpcError(status=404) if self._channel.session is not None:
                return SessionLost(404, (("content-type", "application/json"),), _as_error(reply.raw))
            case rpc.HttpError(status=404) if self._channel.session is not None:
                return SessionLost(404, reply.headers, reply.body)
            case rpc.HttpError(status=status):
                return Failed(Reason.STATUS, str(status))
            case rpc.RpcError(code=code, message=message, raw=raw):
                return CallError(code, message, raw)
            case Failed():
                return reply

    def _cancel(self, request_id: int) -> None:
        """Closing the stream cancels a modern request; a legacy server has to be told."""
        if self._channel.meta is not None:
            return
        task = asyncio.get_running_loop().create_task(self._tell(request_id))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _tell(self, request_id: int) -> None:
        params = {"requestId": b"%d" % request_id}
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_DEADLINE):
                await rpc.notify(self._transport, self._channel, "notifications/cancelled", params)


def _as_error(raw: bytes) -> bytes:
    return slices.join({"jsonrpc": b'"2.0"', "id": b"null", "error": raw})
