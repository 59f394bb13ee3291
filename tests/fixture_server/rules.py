"""What a strict 2026-07-28 server refuses before it looks at a request, headers against body."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fixture_server.options import MODERN
from tests.fixture_server.tools import Tool, header_arguments
from tests.fixture_server.wire import Request

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
ENCODED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass
class Refusal(Exception):
    """An error answer: HTTP status and JSON-RPC error."""

    status: int
    code: int
    text: str
    data: Any = None
    headers: tuple[tuple[str, str], ...] = ()


def decoded(value: str) -> str:
    """The text of a header value, base64 form included.  Raises Refusal when malformed."""
    match = ENCODED.fullmatch(value.strip(" \t"))
    if match is None:
        return value.strip(" \t")
    try:
        return base64.b64decode(match[1], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise Refusal(400, -32020, "Header mismatch: bad base64") from None


def check_modern(request: Request, message: Mapping[str, Any], tools: Mapping[str, Tool]) -> None:
    """Raises Refusal unless headers and body agree as the specification demands."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    if not isinstance(meta, dict) or not {VERSION, CAPABILITIES} <= meta.keys():
        raise Refusal(400, -32602, "Missing required _meta fields")
    _agree(request, "mcp-protocol-version", meta[VERSION])
    if meta[VERSION] not in MODERN:
        data = {"supported": list(MODERN), "requested": meta[VERSION]}
        raise Refusal(400, -32022, "Unsupported protocol version", data)
    _agree(request, "mcp-method", message["method"])
    if message["method"] in NAMED:
        _agree(request, "mcp-name", params.get(NAMED[message["method"]]))
    elif request.values("mcp-name"):
        raise Refusal(400, -32020, "Header mismatch: mcp-name on a method without one")
    if message["method"] == "tools/call" and params.get("name") in tools:
        _check_params(request, tools[params["name"]], params.get("arguments") or {})
    accept = request.header("accept") or ""
    if "application/json" not in accept or "text/event-stream" not in accept:
        raise Refusal(406, -32600, "Accept must list application/json and text/event-stream")


def _agree(request: Request, header: str, expected: Any) -> None:
    values = request.values(header)
    if len(values) != 1:
        raise Refusal(400, -32020, f"Header mismatch: {len(values)} {header} headers")
    if decoded(values[0]) != expected:
        raise Refusal(400, -32020, f"Header mismatch: {header}")


def _check_params(request: Request, tool: Tool, arguments: Mapping[str, Any]) -> None:
    for header, value in header_arguments(tool, arguments):
        given = request.values(header)
        if value is None:
            if given:
                raise Refusal(400, -32020, f"Header mismatch: {header} without an argument")
        elif len(given) != 1:
            raise Refusal(400, -32020, f"Header mismatch: {len(given)} {header} headers")
        elif decoded(given[0]) != _text(value):
            raise Refusal(400, -32020, f"Header mismatch: {header}")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
