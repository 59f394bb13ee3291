"""The product's pure core as the peer's processor: an exchange and whoever decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from extproc.exchange.machine import Exchange
from extproc.exchange.messages import (
    Command,
    Decide,
    Decision,
    Event,
    Observe,
    Opening,
    Request,
    Response,
    Warn,
)
from extproc.replay import Recorded
from extproc.settings import Limits, Server

from .wire import Answer, lift

AnyExchange: TypeAlias = Exchange | Recorded
Decider: TypeAlias = Callable[[Request | Response], Awaitable[Decision]]


class Core:
    """Opens streams that run exchanges.  ``asked`` lists the messages decided on, ``warnings`` what was said.

    An exception of the decider fails the exchange as the server does and is kept in ``errors``.
    """

    def __init__(
        self,
        decider: Decider,
        server: Server | None = None,
        limits: Limits | None = None,
        observe: Callable[[Observe], None] = lambda head: None,
        factory: Callable[[Opening, Server, Limits], AnyExchange] = Exchange,
    ) -> None:
        self._factory = factory
        self._observe = observe
        self._decider, self._server, self._limits = decider, server or Server(), limits or Limits()
        self.asked: list[Request | Response] = []
        self.warnings: list[Warn] = []
        self.errors: list[Exception] = []

    def __call__(self, opening: Opening) -> CoreStream:
        exchange = self._factory(opening, self._server, self._limits)
        return CoreStream(self, exchange)

    def finish(self, exchange: AnyExchange) -> list[Warn]:
        """What an exchange has to say when the gateway ends its stream."""
        return [command for command in exchange.finish() if isinstance(command, Warn)]

    async def commands(self, exchange: AnyExchange, event: Event) -> list[Command]:
        """Every command an event leads to, decisions made."""
        queue = exchange.receive(event)
        done: list[Command] = []
        while queue:
            command = queue.pop(0)
            match command:
                case Decide(message):
                    self.asked.append(message)
                    try:
                        decision = await self._decider(message)
                    except Exception as error:
                        self.errors.append(error)
                        queue[:0] = exchange.fail()
                    else:
                        queue[:0] = exchange.resume(decision)
                case Observe():
                    self._observe(command)
                case Warn():
                    self.warnings.append(command)
                case _:
                    done.append(command)
        return done


class CoreStream:
    def __init__(self, core: Core, exchange: AnyExchange) -> None:
        self._core, self._exchange = core, exchange

    async def receive(self, event: Event) -> Sequence[Answer]:
        commands = await self._core.commands(self._exchange, event)
        return [answer for command in commands for answer in lift(command)]

    async def end(self) -> None:
        self._core.warnings += self._core.finish(self._exchange)
