"""Everything that changes while the server runs: options, tools, sessions, streams, what was received."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.fixture_server.options import Options
from tests.fixture_server.rules import Refusal
from tests.fixture_server.tools import FIXTURE_TOOLS, Tool, padded, visible
from tests.fixture_server.wire import Request

KEPT = 20_000


@dataclass
class Stream:
    """One open event stream that notifications can be sent on."""

    queue: asyncio.Queue[dict[str, Any]]
    meta: dict[str, Any] | None = None


@dataclass
class Session:
    version: str
    pending: dict[Any, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    replay: dict[str, list[str]] = field(default_factory=dict)
    """Stream number to the events that were held back from it."""
    streams: int = 0


@dataclass
class State:
    catalogue: list[Tool]
    options: Options = field(default_factory=Options)
    defaults: Options = field(default_factory=Options)
    sessions: dict[str, Session] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    """Tools whose call ended because the client went away or cancelled it."""

    def record(self, request: Request) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "method": request.method,
            "path": request.path,
            "headers": [list(pair) for pair in request.headers],
            "body": base64.b64encode(request.body).decode(),
            "status": 0,
            "time": time.monotonic(),
        }
        if len(self.received) < KEPT:
            self.received.append(entry)
        return entry

    def caller(self, request: Request) -> str:
        """A label for whoever asks.  Raises Refusal (401) for a token that is missing or unknown."""
        token = (request.header("authorization") or "").removeprefix("Bearer ").strip()
        known = self.options.tokens
        if (known and token and token not in known) or (self.options.require_token and not token):
            challenge = 'Bearer resource_metadata="http://fixture.test/.well-known/oauth-protected-resource"'
            if token:
                challenge += ', error="invalid_token"'
            raise Refusal(401, -32600, "Unauthorized", headers=(("www-authenticate", challenge),))
        return token

    def tools(self, token: str) -> list[Tool]:
        """What the holder of ``token`` (empty: anonymous) may see, in the order of the file."""
        globs: Iterable[str] = self.options.tokens.get(token, ["*"]) if token else self.options.anonymous
        own = FIXTURE_TOOLS if self.options.fixture_tools else ()
        return padded(visible([*own, *self.catalogue], globs), self.options.extra_bytes)

    def notify(self) -> int:
        """Send ``notifications/tools/list_changed`` on every open stream; returns how many there were."""
        for stream in self.streams:
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            if stream.meta is not None:
                message["params"] = {"_meta": stream.meta}
            stream.queue.put_nowait(message)
        return len(self.streams)

    def reset(self) -> None:
        self.options = self.defaults
        self.received.clear()
        self.cancelled.clear()


def label(token: str) -> str:
    """What answers say about the caller: recognisable for a test, useless for a thief."""
    return hashlib.sha256(token.encode()).hexdigest()[:12] if token else "anonymous"


def digest(name: str, arguments: Any) -> str:
    canonical = json.dumps([name, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
