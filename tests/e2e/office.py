"""What tests of lists and calls ask about the fixture server, and how they wait for what happens behind."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from tests.e2e.expect import found
from tests.harness.client import Answer, Wire
from tests.harness.servers import CATALOGUE, Fixture

PATIENCE = 60.0
"""Seconds after which something that should happen counts as never happening."""


def token(kind: str = "caller") -> str:
    return f"{kind}-{secrets.token_hex(8)}"


def tool(name: str, description: str = "Do something", **more: Any) -> dict[str, Any]:
    """A read-only tool with an open schema."""
    made = {"name": name, "description": description, "inputSchema": {"type": "object"}}
    return {**made, "annotations": {"readOnlyHint": True}, **more}


def catalogue() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CATALOGUE.read_text("utf-8").splitlines()]


def bodies(office: Fixture, method: str) -> list[dict[str, Any]]:
    """The JSON-RPC messages of this method that the server received, in order."""
    return [message for _, message in requests(office, method)]


def requests(office: Fixture, method: str) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Headers and message of every POST of this method."""
    made = []
    for entry in office.received():
        if entry["method"] != "POST":
            continue
        try:
            message = json.loads(base64.b64decode(entry["body"]))
        except ValueError:
            continue
        if isinstance(message, dict) and message.get("method") == method:
            made.append(({name.lower(): value for name, value in entry["headers"]}, message))
    return made


def calls(office: Fixture, name: str) -> list[dict[str, Any]]:
    """Every ``tools/call`` of this tool that arrived."""
    return [message for message in bodies(office, "tools/call") if message["params"]["name"] == name]


def under_way(office: Fixture, name: str) -> int:
    """How many calls of this tool have arrived and are not answered yet."""
    entries = (entry for entry in office.received() if entry["method"] == "POST" and not entry["status"])
    return sum(f'"name":"{name}"'.encode() in base64.b64decode(entry["body"]) for entry in entries)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll; fails with ``what`` when it never comes."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


async def listed(office: Fixture, count: int) -> None:
    """Until the server has answered ``count`` lists."""

    async def enough() -> bool:
        return len(bodies(office, "tools/list")) >= count

    await until(enough, f"{count} lists")


async def hits(wire: Wire, query: str, **more: Any) -> list[str]:
    answer: Answer = await wire.search(query, limit=20, **more)
    assert answer.status == 200, answer.body
    return found(answer.text)


async def finds(wire: Wire, name: str, query: str, *, wanted: bool = True) -> None:
    """Until a search for ``query`` shows ``name``, or no longer does."""

    async def shown() -> bool:
        return (name in await hits(wire, query)) is wanted

    await until(shown, f"{name} {'found' if wanted else 'gone'}")
