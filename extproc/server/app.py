"""Wires settings, the processor, the gRPC service and the administration endpoint into one running whole."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from extproc.addresses import parse_address, parse_tcp
from extproc.config_sources import Loaded
from extproc.exchange.machine import Exchange
from extproc.server.admin import Admin
from extproc.server.driver import Driver, ExchangeFactory, Processor
from extproc.server.service import Service
from extproc.server.sockets import AddressInUse
from extproc.telemetry import Metrics, fields, logger

SWITCH_INTERVAL = 0.0005
"""Seconds for which an index that is being built may hold up the event loop; Python's own 5 ms, paid for each
message of an answer, made a list of 1,500 tools wait longer than it takes to read."""


class ManagedProcessor(Processor, Protocol):
    """A processor with a life of its own: models to load, connections to close."""

    @property
    def ready(self) -> bool: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


def event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one: it halves the cost of a message."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_until_signalled(app: App) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, stop)
        await app.run(stop, _keep_loaded)

    sys.setswitchinterval(SWITCH_INTERVAL)
    schedule_in_batches()
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(main())


def schedule_in_batches() -> None:
    """For this thread and all that it starts, gRPC's among them.

    Under load a message then waits until whoever runs has finished instead of interrupting it: fewer switches
    between a gateway and its processor, each with more messages (docs/decisions/request-path.md).
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    # A sandbox may forbid it, and whoever started the process may have chosen something else.
    with suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _keep_loaded() -> None:
    # Modules and models stay for good: a full collection over them would hold every request up.
    gc.collect()
    gc.freeze()


def _stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(1)
    stop.set()


class App:
    """One serving process."""

    def __init__(
        self,
        loaded: Loaded,
        processor: ManagedProcessor,
        metrics: Metrics,
        exchange: ExchangeFactory = Exchange,
    ) -> None:
        self._settings = loaded.settings
        self._processor = processor
        self._serving = False
        self._driver = Driver(exchange, processor, loaded.settings, loaded.profiles, metrics)
        self._admin = Admin(metrics.registry, lambda: self.ready)

    @property
    def ready(self) -> bool:
        return self._serving and self._processor.ready

    async def run(self, stop: asyncio.Event, loaded: Callable[[], None] = lambda: None) -> None:
        """Serve until ``stop``, then drain.  ``loaded`` is called once everything is in memory.

        Raises :class:`AddressInUse` and :class:`extproc.server.service.TlsError` before anything is served.
        """
        server = self._settings.server
        # Here and not earlier: a grpc.aio server belongs to the loop it is made in.
        service = Service(self._driver, server)
        try:
            if server.admin:
                await self._start_admin(server.admin)
            await self._processor.start()
            loaded()
            bound = await service.start(parse_address(server.listen))
            await service.ready()
            self._serving = True
            logger.info("serving", extra=fields(listen=str(bound)))
            await stop.wait()
            await self._drain(service)
        finally:
            self._serving = False
            await service.stop(0)
            await self._processor.close()
            await self._admin.stop()

    async def _start_admin(self, text: str) -> None:
        address = parse_tcp(text)
        try:
            port = await self._admin.start(address.host, address.port)
        except OSError as error:
            raise AddressInUse(f"cannot listen on {address}: {error.strerror or error}") from None
        logger.info("administration", extra=fields(listen=str(type(address)(address.host, port))))

    async def _drain(self, service: Service) -> None:
        server = self._settings.server
        self._serving = False
        await service.not_ready()
        logger.info("draining", extra=fields(seconds=server.drain))
        if server.lame_duck:
            await asyncio.sleep(server.lame_duck)
        await service.stop(server.drain)
