"""A processor that does nothing, on the product's own server stack: the yardstick of the benchmarks.

The header message is answered as it is, the body is replaced with the same bytes, and the stream is closed:
what every rewritten call costs before anything has been thought about it.

    python bench/noop_server.py --listen 127.0.0.1:50052 [--admin 127.0.0.1:9091]
"""

from __future__ import annotations

import argparse

from extproc.config_sources import load
from extproc.exchange.messages import (
    AnswerBody,
    AnswerHeaders,
    AnswerTrailers,
    BodyArrived,
    Close,
    Command,
    Decision,
    Event,
    HeadersArrived,
    Keep,
    Observe,
    Opening,
    Request,
    Response,
    TrailersArrived,
)
from extproc.server.app import App, run_until_signalled
from extproc.settings import Limits, Server
from extproc.telemetry import Metrics, configure_logging


class SameBytes:
    """An exchange that never asks for a decision."""

    def __init__(self, opening: Opening, server: Server, limits: Limits) -> None:
        pass

    def receive(self, event: Event) -> list[Command]:
        match event:
            case HeadersArrived(side=side, end_of_stream=True):
                return [AnswerHeaders(side), Close()]
            case HeadersArrived(side=side):
                return [AnswerHeaders(side)]
            case BodyArrived(side=side, chunk=chunk):
                return [AnswerBody(side, chunk, (("content-length", str(len(chunk))),)), Close()]
            case TrailersArrived(side=side):
                return [AnswerTrailers(side)]

    def resume(self, decision: Decision) -> list[Command]:
        return []

    def fail(self) -> list[Command]:
        return []

    def finish(self) -> list[Command]:
        return []


class Idle:
    ready = True

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def at_once(self, message: Request | Response) -> Decision | None:
        return None

    async def decide(self, message: Request | Response) -> Decision:
        return Keep()

    def observe(self, head: Observe) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:50052")
    parser.add_argument("--admin", default="")
    args = parser.parse_args()
    loaded = load(flags={"server.listen": args.listen, "server.admin": args.admin})
    configure_logging(loaded.settings.telemetry)
    run_until_signalled(App(loaded, Idle(), Metrics(), SameBytes))


if __name__ == "__main__":
    main()
