"""Two kinds of client: one that writes every byte by hand, and the official Python one."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
TIMEOUT = httpx.Timeout(60.0)


@dataclass(frozen=True)
class Answer:
    """A finished HTTP answer."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Every JSON-RPC message in it, in order."""
        if "text/event-stream" in self.headers.get("content-type", ""):
            return [json.loads(data) for data in events(self.body) if data]
        parsed = json.loads(self.body) if self.body else []
        return parsed if isinstance(parsed, list) else [parsed]

    @property
    def response(self) -> dict[str, Any]:
        """The one message that answers the request."""
        (found,) = [message for message in self.messages if "method" not in message]
        return found

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.response, self.response
        result: dict[str, Any] = self.response["result"]
        return result

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.response, self.response
        error: dict[str, Any] = self.response["error"]
        return error

    @property
    def text(self) -> str:
        """The text blocks of a tool result."""
        return "\n".join(part["text"] for part in self.result["content"] if part["type"] == "text")

    @property
    def is_error(self) -> bool:
        return bool(self.result.get("isError", False))


def events(body: bytes) -> Iterator[str]:
    """The data of every event of a finished stream."""
    for block in body.decode("utf-8").replace("\r\n", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if lines:
            yield "\n".join(lines)


@dataclass
class Wire:
    """Speaks one MCP revision by hand.  Use ``async with Wire(...)``: it opens and ends a legacy session."""

    url: str
    version: str = LEGACY[-1]
    token: str | None = None
    session: str | None = None
    extra: dict[str, str] = field(default_factory=dict)
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=TIMEOUT))
    opened: Answer | None = None

    @property
    def modern(self) -> bool:
        return self.version == MODERN

    async def __aenter__(self) -> Wire:
        if not self.modern:
            self.opened = await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.session is not None:
            with contextlib.suppress(httpx.HTTPError):
                await self.http.delete(self.url, headers=self.headers())
        await self.http.aclose()

    def headers(self, method: str = "", name: str | None = None) -> dict[str, str]:
        made = {"accept": BOTH, "content-type": "application/json", **self.extra}
        if self.token is not None:
            made["authorization"] = f"Bearer {self.token}"
        if self.session is not None:
            made["mcp-session-id"] = self.session
        if method != "initialize":
            made["mcp-protocol-version"] = self.version
        if self.modern:
            made["mcp-method"] = method
            if name is not None:
                made["mcp-name"] = name
        return made

    async def initialize(self) -> Answer:
        info = {"name": "wire", "version": "1"}
        params = {"protocolVersion": self.version, "capabilities": {"elicitation": {}}, "clientInfo": info}
        answer = await self.request("initialize", params)
        if answer.status == 200 and "result" in answer.response:
            self.session = answer.headers.get("mcp-session-id")
            await self.notify("notifications/initialized")
        return answer

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        body = {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}
        return await self.post(json.dumps(body).encode(), self.headers(method))

    def encode(self, method: str, params: Mapping[str, Any] | None, number: str) -> bytes:
        """The body; ``number`` is the raw id."""
        given = dict(params or {})
        if self.modern:
            stamped = {
                f"{META}protocolVersion": self.version,
                f"{META}clientCapabilities": {"elicitation": {}},
            }
            given["_meta"] = {**stamped, **given.get("_meta", {})}
        text = json.dumps(given, ensure_ascii=False) if given or self.modern else None
        tail = "" if text is None else f',"params":{text}'
        return f'{{"jsonrpc":"2.0","id":{number},"method":{json.dumps(method)}{tail}}}'.encode()

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, number: str = "1", **headers: str
    ) -> Answer:
        name = params.get(NAMED[method]) if params and method in NAMED else None
        made = {**self.headers(method, None if name is None else encoded(str(name))), **headers}
        return await self.post(self.encode(method, params, number), made)

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        answer = await self.http.post(self.url, content=body, headers=dict(headers))
        return Answer(answer.status_code, answer.headers, answer.content)

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, number: str = "1"
    ) -> Answer:
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return await self.request("tools/call", params, number=number)

    async def search(self, *queries: str, number: str = "1", **more: Any) -> Answer:
        return await self.call("search_tools", {"queries": list(queries), **more}, number=number)

    async def describe(self, *names: str) -> Answer:
        return await self.call("describe_tool", {"names": list(names)})

    async def read(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, number: str = "1"
    ) -> Answer:
        return await self._through("call_read_tool", name, arguments, number)

    async def write(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, number: str = "1"
    ) -> Answer:
        return await self._through("call_write_tool", name, arguments, number)

    async def destroy(self, name: str, arguments: Mapping[str, Any] | None = None) -> Answer:
        return await self._through("call_destructive_tool", name, arguments, "1")

    async def _through(self, by: str, name: str, arguments: Mapping[str, Any] | None, number: str) -> Answer:
        given: dict[str, Any] = {"name": name}
        if arguments is not None:
            given["arguments"] = arguments
        return await self.call(by, given, number=number)

    async def list_tools(self, cursor: str | None = None, *, number: str = "1") -> Answer:
        params = {} if cursor is None else {"cursor": cursor}
        return await self.request("tools/list", params, number=number)


def encoded(value: str) -> str:
    """A header value in the form that 2026-07-28 asks for."""
    plain = (
        value.isascii()
        and value.isprintable()
        and value == value.strip()
        and not value.startswith("=?base64?")
    )
    return value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="


@contextlib.asynccontextmanager
async def official(
    url: str, mode: str = "auto", *, token: str | None = None, **options: Any
) -> AsyncIterator[Client]:
    """The official client: ``mode`` is ``legacy``, ``auto`` or a modern version."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(60.0)) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=60, **options) as client:
            yield client


def text_of(result: Any) -> str:
    """The text blocks of an official client's tool result."""
    return "\n".join(part.text for part in result.content if part.type == "text")
