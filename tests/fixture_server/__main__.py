"""``python -m tests.fixture_server --port 9106 --catalog FILE``: serve until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from tests.fixture_server.options import Options
from tests.fixture_server.server import JSON_TYPE, Exchange, delete, encode, get
from tests.fixture_server.state import State
from tests.fixture_server.tools import load, read_catalogue
from tests.fixture_server.wire import Request, Responder, serve


async def handle(state: State, request: Request, responder: Responder) -> None:
    if request.path.startswith("/control/"):
        await control(state, request, responder)
        return
    if request.path == "/healthz":
        await responder.send(200, b"ok")
        return
    entry = state.record(request)
    try:
        match request.method:
            case "POST":
                await Exchange(state, request, responder).answer()
            case "GET":
                await get(state, request, responder)
            case "DELETE":
                await delete(state, request, responder)
            case _:
                await responder.send(405, b"", [("allow", "GET, POST, DELETE")])
    finally:
        entry["status"] = responder.status


async def control(state: State, request: Request, responder: Responder) -> None:
    """The tests' own door: options, records, catalogue, notifications."""
    answer: Any = {}
    match request.method, request.path.removeprefix("/control/"):
        case "PATCH", "options":
            state.options = state.options.patched(json.loads(request.body))
        case "POST", "reset":
            state.reset()
        case "PUT", "catalogue":
            state.catalogue = read_catalogue(request.body.decode())
            answer = {"notified": state.notify()}
        case "POST", "list_changed":
            answer = {"notified": state.notify()}
        case "GET", "requests":
            answer = state.received
        case "DELETE", "requests":
            state.received.clear()
        case "DELETE", "sessions":
            state.sessions.clear()
        case "GET", "state":
            streams, sessions = len(state.streams), len(state.sessions)
            answer = {"streams": streams, "sessions": sessions, "cancelled": state.cancelled}
        case _:
            await responder.send(404)
            return
    await responder.send(200, encode(answer), [JSON_TYPE])


async def main(arguments: argparse.Namespace) -> None:
    options = Options().patched(json.loads(arguments.options))
    state = State(load(arguments.catalog), options, options)

    async def handler(request: Request, responder: Responder) -> None:
        await handle(state, request, responder)

    async with await serve(handler, "127.0.0.1", arguments.port) as server:
        await server.serve_forever()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.fixture_server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--catalog", type=Path, default=None, help="JSON lines, one MCP tool each")
    parser.add_argument("--options", default="{}", help="JSON object of Options fields")
    return parser.parse_args()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(parse()))
