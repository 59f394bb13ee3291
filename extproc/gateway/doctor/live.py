"""A real handshake through the gateway, both eras, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import httpx

from extproc.gateway.doctor.live_http import Failure, post, printable, result_of

LEGACY = "2025-06-18"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
NAMES = frozenset(
    {
        "search_tools",
        "describe_tool",
        "call_read_tool",
        "call_write_tool",
        "call_destructive_tool",
        "call_read_tools",
    }
)
REQUIRED = NAMES - {"call_read_tools"}


class Mark(Enum):
    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Step:
    """One request and what it showed; ``mend`` where something is wrong."""

    name: str
    mark: Mark
    what: str
    mend: str = ""

    @property
    def failed(self) -> bool:
        return self.mark is Mark.FAILED

    @property
    def shown(self) -> str:
        text = f"{self.mark.value:<8}{self.name}: {self.what}\n"
        return text + (f"        mend: {self.mend}\n" if self.mend else "")


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 15.0
    """Seconds for each step."""


def run_live(target: Target, transport: httpx.BaseTransport | None = None) -> list[Step]:
    """Every step of both eras, in order.

    A server may speak one era only: the other is skipped then, with what came back.  An era that is answered
    with anything but a refusal is judged like the only one.  Never raises for what the gateway answers;
    raises httpx.InvalidURL.
    """
    with httpx.Client(timeout=target.timeout, transport=transport, headers=list(target.headers)) as client:
        legacy = list(_legacy(client, target.url))
        if legacy[0].failed and legacy[0].what.startswith("no connection"):
            return legacy
        modern = list(_modern(client, target.url))
    return _judged(legacy, modern) + _judged(modern, legacy)


def _judged(era: list[Step], other: list[Step]) -> list[Step]:
    """An era that is not spoken is a fault where the other one does not work either."""
    first = era[0]
    if first.mark is not Mark.SKIPPED or other[0].mark is Mark.OK:
        return era
    return [replace(first, mark=Mark.FAILED), *era[1:]]


def _turned_away(name: str, version: str, failure: Failure) -> Step:
    if failure.unspoken:
        what = f"the server does not speak {version} ({failure.what})"
        return Step(name, Mark.SKIPPED, what, failure.mend)
    return Step(name, Mark.FAILED, failure.what, failure.mend)


def _legacy(client: httpx.Client, url: str) -> Iterator[Step]:
    name = f"initialize ({LEGACY})"
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}}
    version, headers = LEGACY, {"mcp-protocol-version": LEGACY}

    def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
        return result_of(post(client, url, body, headers))

    try:
        answer = post(client, url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {})
        result = result_of(answer)
    except Failure as failure:
        yield _turned_away(name, LEGACY, failure)
        if failure.unspoken:
            yield from _anyway(ask, f" ({LEGACY}, without a session)")
        return
    version = printable(str(result.get("protocolVersion", "?")))
    yield _greeting(name, result, version)
    headers = {"mcp-protocol-version": version if version.isascii() else LEGACY}
    if session := answer.headers.get("mcp-session-id"):
        headers["mcp-session-id"] = session
    try:
        post(client, url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        yield from _tools(ask, f" ({version})")
    except Failure as failure:
        yield Step("notifications/initialized", Mark.FAILED, failure.what, failure.mend)
    finally:
        if session:
            with suppress(httpx.HTTPError):
                client.delete(url, headers=headers)


def _modern(client: httpx.Client, url: str) -> Iterator[Step]:
    def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": "doctor", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 3, "method": method, "params": {**params, "_meta": meta}}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if isinstance(params.get("name"), str):
            headers["mcp-name"] = params["name"]
        return result_of(post(client, url, body, headers))

    name = f"server/discover ({MODERN})"
    try:
        result = ask("server/discover", {})
    except Failure as failure:
        yield _turned_away(name, MODERN, failure)
        if failure.unspoken:
            yield from _anyway(ask, f" ({MODERN})")
        return
    versions = result.get("supportedVersions")
    shown = ", ".join(map(str, versions)) if isinstance(versions, list) else str(versions)
    yield _greeting(name, result, printable(shown))
    yield from _tools(ask, f" ({MODERN})")


def _anyway(ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], era: str) -> Iterator[Step]:
    """A list that is given although the greeting was refused has to be the six as well."""
    try:
        result = ask("tools/list", {})
    except Failure:
        return
    yield _listed(result.get("tools"), era)


def _greeting(name: str, result: Mapping[str, Any], version: str) -> Step:
    if "search_tools" in str(result.get("instructions", "")):
        return Step(name, Mark.OK, f"version {version}; instructions carry the guidance")
    capabilities = result.get("capabilities")
    if not isinstance(capabilities, Mapping) or "tools" not in capabilities:
        return Step(name, Mark.OK, f"version {version}; the server has no tools")
    return Step(
        name,
        Mark.OK,
        f"version {version}; instructions carry no guidance: switched off (instructions.enabled), or the "
        "response does not pass the processor",
    )


def _tools(ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], era: str) -> Iterator[Step]:
    try:
        result = ask("tools/list", {})
    except Failure as failure:
        yield Step(f"tools/list{era}", Mark.FAILED, failure.what, failure.mend)
        return
    step = _listed(result.get("tools"), era)
    yield step
    if not step.failed:
        yield _search(ask, era)


def _listed(tools: object, era: str) -> Step:
    name = f"tools/list{era}"
    names = (
        [str(tool.get("name")) for tool in tools if isinstance(tool, Mapping)]
        if isinstance(tools, list)
        else []
    )
    if not set(names) >= REQUIRED:
        return Step(
            name,
            Mark.FAILED,
            f"{len(names)} tools, and not the six: the response does not pass the processor",
            "check the route's filter with doctor FILE: body modes, allow_mode_override, order",
        )
    pinned = len(set(names) - NAMES)
    missing = NAMES - set(names)
    return Step(
        name,
        Mark.OK,
        f"{len(names)} tools"
        + (f", {pinned} pinned" if pinned else "")
        + (", without call_read_tools (no catalog.url)" if missing else ""),
    )


def _search(ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], era: str) -> Step:
    name = f"search_tools{era}"
    try:
        result = ask("tools/call", {"name": "search_tools", "arguments": {"queries": ["list files"]}})
    except Failure as failure:
        return Step(name, Mark.FAILED, failure.what, failure.mend)
    content = result.get("content")
    texts = (
        [part.get("text", "") for part in content if isinstance(part, Mapping)]
        if isinstance(content, list)
        else []
    )
    size = sum(len(str(text)) for text in texts)
    if result.get("isError"):
        return Step(name, Mark.FAILED, f"an error result of {size} characters", "see the processor's log")
    return Step(name, Mark.OK, f"an answer of {size} characters")
