"""The life of a serving process: readiness, draining, addresses that are taken."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from extproc.codec.wire_pb2 import ProcessingResponse
from extproc.config_sources import Loaded
from extproc.exchange.messages import Forward
from extproc.server.app import App, schedule_in_batches
from extproc.server.service import SERVICE
from extproc.server.sockets import AddressInUse
from extproc.settings import Server, Settings
from extproc.telemetry import Metrics
from tests.server.stand_ins import Decider, Plain, body, head, kinds


class Running:
    def __init__(self, app: App, decider: Decider, stop: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.app = app
        self.decider = decider
        self.stop = stop
        self.task = task
        self.grpc = ""
        self.admin = ""

    async def drained(self) -> None:
        """Return when ``/readyz`` says no."""
        while await self.readyz() == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def readyz(self) -> int:
        host, _, port = self.admin.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return int(answer.split(b" ")[1])


@asynccontextmanager
async def running(
    server: Server, caplog: pytest.LogCaptureFixture, decider: Decider | None = None
) -> AsyncIterator[Running]:
    caplog.set_level("INFO", "extproc")
    decider = decider or Decider(Forward(b"new"))
    app = App(Loaded(Settings(server=server), {}), decider, Metrics(), Plain)
    stop = asyncio.Event()
    run = Running(app, decider, stop, asyncio.create_task(app.run(stop)))
    while not app.ready and not run.task.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    listens = {
        record.getMessage(): vars(record)["fields"]["listen"]
        for record in caplog.records
        if record.name == "extproc"
    }
    run.grpc, run.admin = listens.get("serving", ""), listens.get("administration", "")
    try:
        yield run
    finally:
        stop.set()
        await asyncio.wait([run.task])


def free(**settings: float) -> Server:
    return Server(listen="127.0.0.1:0", admin="127.0.0.1:0", **settings)  # type: ignore[arg-type]


async def test_ready_means_serving(caplog: pytest.LogCaptureFixture) -> None:
    async with running(free(), caplog) as run:
        assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", run.grpc)
        assert await run.readyz() == 200
        run.decider.ready = False
        assert await run.readyz() == 503
    assert (run.decider.started, run.decider.closed) == (1, 1)


async def test_without_an_admin_address_nothing_listens(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Server(listen="127.0.0.1:0", admin=""), caplog) as run:
        assert (bool(run.grpc), run.admin) == (True, "")


async def test_draining_lets_open_exchanges_end_and_takes_no_new_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(free(drain=20), caplog) as run:
        async with grpc.aio.insecure_channel(run.grpc) as channel:
            call = channel.stream_stream(f"/{SERVICE}/Process")()
            await call.write(head())
            await call.read()
            run.stop.set()
            await run.drained()
            await call.write(body())
            answer = await call.read()
            assert kinds([ProcessingResponse.FromString(answer)]) == ["request_body"]
            assert await call.code() is grpc.StatusCode.OK
        await run.task
        async with grpc.aio.insecure_channel(run.grpc) as channel:
            late = channel.stream_stream(f"/{SERVICE}/Process")()
            assert await late.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_lame_duck_still_takes_new_exchanges(caplog: pytest.LogCaptureFixture) -> None:
    async with running(free(drain=0, lame_duck=600), caplog) as run:
        run.stop.set()
        await run.drained()
        async with grpc.aio.insecure_channel(run.grpc) as channel:
            call = channel.stream_stream(f"/{SERVICE}/Process")()
            await call.write(head())
            assert kinds([ProcessingResponse.FromString(await call.read())]) == ["request_headers"]
        run.task.cancel()


async def test_an_exchange_that_does_not_end_is_ended_after_the_drain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    decider = Decider(None)
    settings = free(drain=0.05, deadline=0)
    async with (
        running(settings, caplog, decider) as run,
        grpc.aio.insecure_channel(run.grpc) as channel,
    ):
        call = channel.stream_stream(f"/{SERVICE}/Process")()
        await call.write(head())
        await call.read()
        await call.write(body())
        await decider.asked_for(1)
        run.stop.set()
        await run.task
        assert await call.code() is not grpc.StatusCode.OK
    assert decider.cancelled == 1


@pytest.mark.parametrize("which", ["listen", "admin"])
async def test_an_address_that_is_taken_is_named(which: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        addresses = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"} | {which: taken}
        async with running(Server(**addresses), caplog) as run:  # type: ignore[arg-type]
            with pytest.raises(AddressInUse, match=taken):
                await run.task
    assert run.decider.closed == 1


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a policy of Linux")
@pytest.mark.parametrize(("before", "after"), [("SCHED_OTHER", "SCHED_BATCH"), ("SCHED_IDLE", "SCHED_IDLE")])
def test_the_process_is_scheduled_in_batches_unless_told_otherwise(before: str, after: str) -> None:
    def policy() -> int:
        os.sched_setscheduler(0, getattr(os, before), os.sched_param(0))
        schedule_in_batches()
        return os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(policy).result() == getattr(os, after)
