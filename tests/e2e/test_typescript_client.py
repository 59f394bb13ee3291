"""The official TypeScript client on the Node of the test environment."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.e2e.expect import GUIDANCE, LISTED, echoed, found
from tests.harness.node import NODE
from tests.harness.stack import Stack

SCRIPT = Path(__file__).parent / "node" / "client.mjs"


async def run(url: str, echo: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(SCRIPT), url, echo, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    answer: dict[str, Any] = json.loads(out)
    return answer


def check(said: dict[str, Any], echo: str) -> None:
    assert said["tools"] == LISTED
    assert echo in found(said["searched"])
    assert not said["isError"], said["called"]
    assert echoed(said["called"])["arguments"] == {"text": "iš TypeScript"}


async def test_single_upstream(single: Stack) -> None:
    said = await run(single.url, single.name("fixture_echo"))
    assert GUIDANCE in said["instructions"]
    check(said, single.name("fixture_echo"))


async def test_joined_servers(joined: Stack) -> None:
    check(await run(joined.url, joined.name("fixture_echo")), joined.name("fixture_echo"))
