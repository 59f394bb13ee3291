"""Credentials, queries, arguments and results turn up nowhere but in the answers they belong to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import secrets
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.office import bodies, token, tool, until
from tests.e2e.shared_store import BINARY, SharedStore
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.stack import Stack

PLAIN: dict[str, Any] = {"search": {"embedder": "none"}}


@dataclass
class Canaries:
    """Words that are to be found nowhere.  Each is made once and is like no other text."""

    made: dict[str, str] = field(default_factory=dict)

    def __call__(self, kind: str) -> str:
        return self.made.setdefault(kind, f"{kind}{secrets.token_hex(12)}")

    def found_in(self, data: bytes) -> list[str]:
        """Kinds of canaries in ``data``: as they are, or in base64 at any offset."""
        seen = []
        for kind, word in self.made.items():
            forms = [word.encode()]
            for offset in range(3):
                coded = base64.b64encode(b"\0" * offset + word.encode())
                forms.append(coded[4:-4])
            if any(form in data for form in forms):
                seen.append(kind)
        return seen


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SharedStore | None]:
    """None where the machine has no server to share a store through."""
    if BINARY is None:
        yield None
        return
    (tmp_path / "store").mkdir()
    made = SharedStore(tmp_path / "store")
    made.start()
    yield made
    made.process.stop()


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_no_secret_is_left_anywhere(
    tmp_path: Path, gateway: str, store: SharedStore | None, log_format: str
) -> None:
    """Everything a client can do, well and badly, at the most talkative level; then every trace is read."""
    canaries = Canaries()
    sections: dict[str, Any] = store.settings() if store is not None else {}
    sections["catalog"] = {**sections.get("catalog", {}), "ttl": 1.0, "refresh_after": 0.0, "watch": True}
    sections["telemetry"] = {"log_level": "debug", "log_format": log_format}
    sections["caller"] = {**sections.get("caller", {}), "attributes": []}
    with stack.single_upstream(
        tmp_path, gateway=gateway, catalogue_route=True, **sections, **PLAIN
    ) as running:
        pages: list[bytes] = []
        for version in (LEGACY[-1], MODERN):
            await everything(running, version, canaries)
            pages += await strangers(running, version)
        if store is not None:
            await saved(store)
        await asyncio.sleep(1.0)
        traces = {
            "metrics": running.processor.metrics().encode(),
            "other pages": await fetched(running, "/healthz", "/readyz", "/nothing"),
            "log": running.processor.process.log_text().encode(),
            "pages for strangers": b"\n".join(pages),
        }
        if store is not None:
            traces["store's memory"] = memory(store.process.pid)
            if not traces["store's memory"]:
                warnings.warn("the store's memory may not be read here: only its dump was", stacklevel=1)
            else:
                assert b"toolsearch:" in traces["store's memory"]
            traces["store"] = store.dump.read_bytes()
            assert len(traces["store"]) > 2_000
            assert b"toolsearch:" in traces["store"]
            """The dump does hold the lists, sealed."""
    for where, data in traces.items():
        assert canaries.found_in(data) == [], where
    catalogue_words = [b"toolname", b"fixture_echo", b"inputSchema"]
    if store is not None:
        for where in ("store", "store's memory"):
            assert not any(word in traces[where] for word in catalogue_words), where


async def everything(running: Stack, version: str, canaries: Canaries) -> None:
    bearer = canaries("bearer")
    extra = {"cookie": f"session={canaries('cookie')}", "x-api-key": canaries("apikey")}
    text, query = canaries("argument"), canaries("query")
    running.office.reset()
    running.office.replace_catalogue([tool(canaries("toolname"), f"Do {canaries('description')}")])
    async with Wire(running.url, version, bearer, extra=extra) as wire:
        await wire.list_tools()
        await wire.search(f"echo {query}", server=query)
        await wire.search(f"echo {query}")
        await wire.search(*[query] * 6)
        await wire.describe(query, "fixture_echo")
        await wire.read("fixture_echo", {"text": text})
        await wire.read(text, {"text": text})
        await wire.read("fixture_region", {"level": text})
        await wire.call("call_read_tool", {"name": "fixture_echo", "arguments": text})
        await wire.call(text, {"text": text})
        await wire.call(
            "call_read_tools", {"calls": [{"name": "fixture_echo", "arguments": {"text": text}}] * 2}
        )
        await wire.call("call_read_tools", {"calls": text})
        for how in ("500", "503", "403", "is_error", "invalid_params", "unknown_tool", "reset", text):
            with contextlib.suppress(httpx.HTTPError):
                await wire.write("fixture_fail_write", {"how": how})
        await wire.call(
            "call_read_tools",
            {"calls": [{"name": "fixture_fail", "arguments": {"how": how}} for how in ("403", "500")]},
        )
        headers = wire.headers("tools/call", "call_read_tool")
        for body in (
            b"{" + text.encode(),
            b'{"jsonrpc":"2.0","id":1,"id":"' + text.encode() + b'"}',
            b"[" * 2_000,
        ):
            with contextlib.suppress(httpx.HTTPError):
                await wire.post(body, headers)
        await wire.post(gzip.compress(text.encode()), {**headers, "content-encoding": "gzip"})
        await wire.request("tools/list", {"cursor": text})
        await wire.request("tools/list", number=json.dumps(text))
        for fault in ("500", "text", "empty", "error", "half", "reset"):
            running.office.set(faults={"tools/list": fault} if fault != "text" else {"tools/list": "501"})
            with contextlib.suppress(httpx.HTTPError):
                await wire.list_tools()
        running.office.set(faults={}, tokens={token(): ["*"]})
        await asyncio.sleep(1.2)
        for _ in range(3):
            await wire.search(query)
        running.office.set(tokens={})
        await wire.search(query)
    assert len(bodies(running.office, "tools/call")) > 5


async def strangers(running: Stack, version: str) -> list[bytes]:
    """Error pages and lists of somebody else."""
    running.office.replace_catalogue([])
    async with Wire(running.url, version, token()) as wire:
        answers = [
            await wire.list_tools(),
            await wire.search("echo"),
            await wire.read("fixture_ech", {}),
            await wire.describe("fixture_ech"),
            await wire.read("fixture_region", {"level": "x"}),
            await wire.call("no_such_tool", {}),
        ]
        running.office.set(faults={"tools/list": "500"})
        answers.append(await wire.list_tools())
        running.office.reset()
    return [answer.body + repr(answer.headers.multi_items()).encode() for answer in answers]


async def fetched(running: Stack, *paths: str) -> bytes:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{running.processor.admin_port}") as http:
        return b"".join([(await http.get(path)).content for path in paths])


async def saved(store: SharedStore) -> None:
    """The whole store in one file."""
    from redis.asyncio import Redis

    async with Redis.from_url(store.url) as client:

        async def filled() -> bool:
            return int(await client.dbsize()) >= 2

        await until(filled, "something in the store")
        await client.save()


def memory(pid: int) -> bytes:
    """What a core dump of this process would hold: every mapping that can be written; empty if not permitted.

    Linux lets the same user read it unless ``kernel.yama.ptrace_scope`` or a container forbids it.
    """
    found = []
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as cells:
            for line in maps:
                where, rights = line.split()[:2]
                if not rights.startswith("rw") or "[vvar" in line:
                    continue
                begin, end = (int(each, 16) for each in where.split("-"))
                with contextlib.suppress(OSError):
                    cells.seek(begin)
                    while begin < end and (part := cells.read(min(end - begin, 1 << 20))):
                        found.append(part)
                        begin += len(part)
    except OSError:
        return b""
    return b"".join(found)


@pytest.mark.skipif(BINARY is None, reason="no valkey-server or redis-server on this machine")
async def test_a_secret_in_the_memory_of_the_store_would_be_found(store: SharedStore) -> None:
    """As a name, as a value, and in base64."""
    from redis.asyncio import Redis

    canaries = Canaries()
    if not memory(store.process.pid):
        pytest.skip("the memory of another process may not be read here")
    assert canaries.found_in(memory(store.process.pid)) == []
    async with Redis.from_url(store.url) as client:
        await client.set(f"toolsearch:{canaries('name')}", "x")
        await client.set("toolsearch:value", canaries("value"))
        coded = base64.b64encode(f"x{canaries('coded')}".encode())
        await client.set("toolsearch:coded", coded)
        assert set(canaries.found_in(memory(store.process.pid))) == {"name", "value", "coded"}


def test_a_canary_is_found_in_every_form() -> None:
    canaries = Canaries()
    word = canaries("bearer")
    assert canaries.found_in(f"x{word}y".encode()) == ["bearer"]
    for before in (b"", b"a", b"ab", b"abc"):
        assert canaries.found_in(base64.b64encode(before + word.encode() + b"tail")) == ["bearer"]
    assert canaries.found_in(b"nothing") == []
