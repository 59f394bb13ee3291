"""``-f FILE [--validate-only]``, as agentgateway is started."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path

import grpc.aio
import httpx
import yaml

from tests.agentgateway.stand_in.authentication import METADATA, challenge, identify, metadata
from tests.agentgateway.stand_in.config import Bind, read
from tests.agentgateway.stand_in.filter import Exchange, GatewayError, Refusal, write
from tests.agentgateway.stand_in.relay import Relay
from tests.fixture_server.wire import Request, Responder, serve
from tests.gateway.wire import HttpRequest

LOG = logging.getLogger("stand-in")
UNBOUNDED = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class Server:
    """One bind."""

    def __init__(self, bind: Bind, client: httpx.AsyncClient) -> None:
        self.routes = [(route, Relay(route.targets, client)) for route in bind.routes]
        self.channels: dict[str, grpc.aio.Channel] = {}

    async def handle(self, request: Request, responder: Responder) -> None:
        work = asyncio.ensure_future(self._handle(request, responder))
        gone = asyncio.ensure_future(responder.gone.wait())
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        work.cancel()
        await asyncio.wait({work})
        if work.cancelled():
            return
        match work.exception():
            case None:
                return
            case Refusal() | GatewayError() as error:
                LOG.error("%s %s: %s", request.method, request.path, error)
                status = error.status if isinstance(error, GatewayError) else 500
            case httpx.HTTPError():
                status = 502
            case error:
                LOG.error("%s %s", request.method, request.path, exc_info=error)
                status = 500
        if responder.status:
            responder.abort()
        else:
            await responder.send(status, b"ext_proc failed", [("content-type", "text/plain")])

    async def _handle(self, request: Request, responder: Responder) -> None:
        for route, relay in self.routes:
            if request.path not in route.paths:
                continue
            policy, known = route.policy, {}
            if route.authentication is not None:
                if request.path.startswith(METADATA):
                    await metadata(route.authentication, responder)
                    return
                found = identify(route.authentication, request)
                if found is None:
                    await challenge(route.authentication, request, responder)
                    return
                known = found
            if policy is None or (policy.methods and request.method not in policy.methods):
                reply = await relay.answer(
                    HttpRequest(request.method, request.path, tuple(request.headers), request.body)
                )
                try:
                    await write(reply, responder)
                finally:
                    await reply.close()
                return
            channel = self.channels.get(policy.host)
            if channel is None:
                channel = grpc.aio.insecure_channel(policy.host, UNBOUNDED)
                self.channels[policy.host] = channel
            await Exchange(policy, channel, relay.answer, known).run(request, responder)
            return
        await responder.send(404, b"no route", [("content-type", "text/plain")])


async def run(binds: tuple[Bind, ...]) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:
        for name in ("accept", "accept-encoding", "user-agent"):
            del client.headers[name]
        servers = [await serve(Server(bind, client).handle, "127.0.0.1", bind.port) for bind in binds]
        await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    parser = argparse.ArgumentParser(prog="agentgateway")
    parser.add_argument("-f", "--file", required=True, type=Path)
    parser.add_argument("--validate-only", action="store_true")
    options = parser.parse_args()
    document = yaml.safe_load(options.file.read_text("utf-8"))
    if options.validate_only:
        return
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(run(read(document)))


if __name__ == "__main__":
    main()
