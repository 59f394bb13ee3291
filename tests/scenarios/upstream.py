"""An MCP server in memory, strict about what the specification makes it check."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from extproc.exchange.messages import Headers
from tests.gateway.wire import HttpRequest, HttpResponse

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(slots=True)
class Call:
    """One message as it arrived, values raw."""

    request: HttpRequest
    method: str
    id: bytes | None
    params: dict[str, bytes]

    @property
    def name(self) -> str:
        return str(json.loads(self.params.get("name", b'""')))


class Mistake(Exception):
    """What a strict server answers with an HTTP error."""

    def __init__(self, status: int, code: int, text: str, headers: Headers = ()) -> None:
        super().__init__(text)
        self.status, self.code, self.headers = status, code, headers


@dataclass
class McpServer:
    """``tools`` are raw definitions, by bearer token when ``tokens`` is given (others are 401).

    ``sse`` chooses the form of answers; ``page`` cuts the list; ``quirk`` is a known fault of real servers:
    ``string-id`` (Envoy's router), ``unknown-as-error``, ``list-fails``, ``list-is-garbage``, ``no-tools``.
    """

    revision: str
    tools: Sequence[bytes]
    sse: bool = False
    tokens: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    page: int = 0
    instructions: str | None = "Upstream says hello."
    quirk: str = ""
    trailers: Headers = ()
    sessions: bool = True
    calls: list[Call] = field(default_factory=list)
    open_sessions: set[str] = field(default_factory=set)

    @property
    def modern(self) -> bool:
        return self.revision == MODERN

    @property
    def methods(self) -> list[str]:
        return [call.method for call in self.calls]

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self._handle(request)
        except Mistake as mistake:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": mistake.code, "message": str(mistake)}}
            return self._response(json.dumps(error).encode(), mistake.status, mistake.headers)

    # Checks ------------------------------------------------------------------------------------------------

    def _handle(self, request: HttpRequest) -> HttpResponse:
        tools = self._authorised(request)
        if request.method == "GET" and not self.modern:
            return self._events([b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'])
        if request.method == "DELETE" and not self.modern:
            self.open_sessions.discard(request.header("mcp-session-id") or "")
            return HttpResponse(204)
        if request.method != "POST":
            return HttpResponse(405, (("allow", "POST"),))
        accept = request.header("accept") or ""
        if "application/json" not in accept or "text/event-stream" not in accept:
            raise Mistake(406, -32600, "Not Acceptable")
        try:
            message = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:
            raise Mistake(400, -32600, "Invalid Request") from None
        raw = {key: bytes(value) for key, value in message.items()}
        params = raw.get("params", b"{}")
        call = Call(request, str(json.loads(raw.get("method", b'""'))), raw.get("id"), members(params))
        self.calls.append(call)
        self._check_modern(call) if self.modern else self._check_legacy(call)
        if call.id is None or not call.method:
            return HttpResponse(202)
        return self._answer(call, tools)

    def _authorised(self, request: HttpRequest) -> Sequence[bytes]:
        if not self.tokens:
            return self.tools
        token = (request.header("authorization") or "").removeprefix("Bearer ")
        if token not in self.tokens:
            challenge = 'Bearer resource_metadata="https://a.test/.well-known/oauth-protected-resource"'
            raise Mistake(401, -32600, "Unauthorized", (("www-authenticate", challenge),))
        return self.tokens[token]

    def _check_legacy(self, call: Call) -> None:
        request = call.request
        if call.method == "initialize":
            return
        version = request.header("mcp-protocol-version")
        if version is not None and version not in LEGACY:
            raise Mistake(400, -32600, "Unsupported protocol version")
        if self.sessions:
            session = request.header("mcp-session-id")
            if session is None:
                raise Mistake(400, -32600, "Missing session ID")
            if session not in self.open_sessions:
                raise Mistake(404, -32600, "Session not found")

    def _check_modern(self, call: Call) -> None:
        request, meta = call.request, members(call.params.get("_meta", b"{}"))
        version = json.loads(meta.get(META + "protocolVersion", b"null"))
        if call.id is None:
            return
        self._agree(request, "mcp-protocol-version", version)
        self._agree(request, "mcp-method", call.method)
        if META + "clientCapabilities" not in meta:
            raise Mistake(400, -32602, "Missing client capabilities")
        name = _NAMED.get(call.method)
        if name is not None:
            self._agree(request, "mcp-name", json.loads(call.params[name]))
        elif request.values("mcp-name"):
            raise Mistake(400, -32020, "Header mismatch: mcp-name")
        sent = {key for key, _ in request.headers if key.startswith("mcp-param-")}
        if call.method == "tools/call":
            for header, value in self._expected(call).items():
                sent.discard(header)
                self._agree(request, header, value)
        if sent:
            raise Mistake(400, -32020, f"Header mismatch: unexpected {sorted(sent)}")

    def _expected(self, call: Call) -> dict[str, str]:
        """``Mcp-Param-*`` of the called tool that have a value, from its annotated properties."""
        listed = (json.loads(one) for one in self.tools)
        definition: dict[str, Any] = next((one for one in listed if one["name"] == call.name), {})
        arguments = json.loads(call.params.get("arguments", b"{}"))
        found: dict[str, str] = {}

        def walk(schema: Any, value: Any) -> None:
            for key, child in schema.get("properties", {}).items():
                inner = value.get(key) if isinstance(value, dict) else None
                if "x-mcp-header" in child and inner is not None:
                    text = str(inner).lower() if isinstance(inner, bool) else str(inner)
                    found["mcp-param-" + child["x-mcp-header"].lower()] = text
                walk(child, inner)

        walk(definition.get("inputSchema", {}), arguments)
        return found

    def _agree(self, request: HttpRequest, header: str, expected: object) -> None:
        values = request.values(header)
        if len(values) != 1 or decoded(values[0]) != expected:
            raise Mistake(400, -32020, f"Header mismatch: {header}")

    # Answers -----------------------------------------------------------------------------------------------

    def _answer(self, call: Call, tools: Sequence[bytes]) -> HttpResponse:
        extra: Headers = ()
        match call.method:
            case "initialize":
                session = f"s-{len(self.open_sessions)}"
                self.open_sessions.add(session)
                extra = (("mcp-session-id", session),) if self.sessions else ()
                result: Any = {"protocolVersion": self.revision, "serverInfo": {"name": "up", "version": "1"}}
                result |= self._capabilities()
            case "server/discover":
                result = {"resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 1000}
                result |= {"cacheScope": "public", **self._capabilities()}
            case "tools/list":
                return self._list(call, tools)
            case "tools/call":
                return self._call(call, tools)
            case _:
                result = {"method": call.method, **({"resultType": "complete"} if self.modern else {})}
        return self._result(call, json.dumps(result, ensure_ascii=False).encode(), extra)

    def _capabilities(self) -> dict[str, Any]:
        tools = {} if self.quirk == "no-tools" else {"tools": {"listChanged": True}}
        found: dict[str, Any] = {"capabilities": {**tools, "resources": {}, "x-new": {"a": 1}}}
        if self.instructions is not None:
            found["instructions"] = self.instructions
        return found

    def _list(self, call: Call, tools: Sequence[bytes]) -> HttpResponse:
        match self.quirk:
            case "list-fails":
                return self._error(call, -32603, "Internal error")
            case "list-is-garbage":
                return self._result(call, b'{"tools":"none"}')
            case "no-tools":
                return self._error(call, -32601, "Method not found", 404 if self.modern else 200)
            case "string-id" if call.id is not None and not call.id.isdigit():
                call.id, tools = b"0", ()
        start = int(json.loads(call.params.get("cursor", b'"0"')) or 0)
        stop = start + (self.page or len(tools))
        shown = [self._shown(one) for one in tools[start:stop]]
        result = b'{"tools":[' + b",".join(shown) + b"]"
        if stop < len(tools):
            result += b',"nextCursor":"%d"' % stop
        if self.modern:
            result += b',"resultType":"complete","ttlMs":60000,"cacheScope":"private"'
        return self._result(call, result + b"}")

    def _shown(self, raw: bytes) -> bytes:
        if self.revision != "2024-11-05":
            return raw
        kept = {k: v for k, v in json.loads(raw).items() if k in ("name", "description", "inputSchema")}
        return json.dumps(kept, ensure_ascii=False).encode()

    def _call(self, call: Call, tools: Sequence[bytes]) -> HttpResponse:
        if call.name == "desk__confirm" and self.modern and "requestState" not in call.params:
            ask = {"method": "elicitation/create", "params": {"message": "Sure?"}}
            interim = {"resultType": "input_required", "inputRequests": {"k": ask}, "requestState": "S=é 1.0"}
            return self._result(call, json.dumps(interim, ensure_ascii=False).encode())
        if call.name not in {json.loads(one)["name"] for one in tools}:
            if self.quirk == "unknown-as-error":
                text = (
                    b'{"content":[{"type":"text","text":"Unknown tool: '
                    + call.name.encode()
                    + b'"}],"isError":true'
                )
                return self._result(call, text + (b',"resultType":"complete"}' if self.modern else b"}"))
            return self._error(call, -32602, f"Unknown tool: {call.name}")
        if "task" in call.params:
            return self._result(call, b'{"task":{"taskId":"t1","status":"working","ttl":60000}}')
        echo = json.dumps([call.name, call.params.get("arguments", b"").decode()], ensure_ascii=False)
        result = {
            "content": [{"type": "text", "text": echo}],
            **({"resultType": "complete"} if self.modern else {}),
        }
        return self._result(call, json.dumps(result, ensure_ascii=False).encode())

    def _error(self, call: Call, code: int, text: str, status: int = 200) -> HttpResponse:
        error = json.dumps({"code": code, "message": text}).encode()
        return self._response(b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (call.id, error), status)

    def _result(self, call: Call, result: bytes, extra: Headers = ()) -> HttpResponse:
        body = b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (call.id, result)
        if not self.sse:
            return self._response(body, 200, extra)
        before = [
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
        ]
        if not self.modern:
            before.append(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % call.id)
        return self._events([*before, body], extra)

    def _events(self, messages: Sequence[bytes], extra: Headers = ()) -> HttpResponse:
        chunks = [b"id: 0\nretry: 500\ndata:\n\n", b": ping\n\n"]
        chunks += [b"event: message\nid: %d\ndata: %s\r\n\r\n" % (n, m) for n, m in enumerate(messages, 1)]
        headers = (("content-type", "text/event-stream"), ("x-accel-buffering", "no"), *extra)
        return HttpResponse(200, headers, tuple(chunks), self.trailers)

    def _response(self, body: bytes, status: int, extra: Headers = ()) -> HttpResponse:
        length = () if self.trailers else (("content-length", str(len(body))),)
        return HttpResponse(
            status, (("content-type", "application/json"), *length, *extra), (body,), self.trailers
        )


def members(text: bytes) -> dict[str, bytes]:
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return {}
    return {key: bytes(value) for key, value in found.items()}


def decoded(value: str) -> str:
    """A header value as text (SEP-2243): the base64 form, else as it stands."""
    found = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    return base64.b64decode(found[1]).decode() if found else value
