"""JSON-RPC requests as raw members, and the answers made for them."""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from extproc.exchange.messages import Headers, Reply
from extproc.mcp import revisions, slices
from extproc.mcp.slices import Members

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_SAFE_INTEGER = re.compile(rb"[1-9][0-9]{0,14}\Z")


class Rpc(msgspec.Struct, frozen=True):
    """One request.  ``id`` is the raw token and is echoed as it is (JSON-RPC 2.0, section 4)."""

    id: bytes
    method: str
    envelope: Members
    params: Members
    revision: str
    session: str | None = None
    routing_headers: tuple[str, ...] = ()
    """Names of the ``Mcp-Method``, ``Mcp-Name`` and ``Mcp-Param-*`` headers that came with the request."""
    respelled: bool = False
    """Whether method or names had needless escapes, which ``envelope`` and ``params`` no longer have."""
    frame: tuple[bytes, bytes] | None = None
    """What stands before and after the params, where that is known."""

    def __repr__(self) -> str:
        return f"Rpc({self.method!r}, {self.revision!r})"

    @property
    def modern(self) -> bool:
        return revisions.is_modern(self.revision)

    @property
    def unchanged(self) -> bytes | None:
        """The body of a request that goes on as it is; None where that is every byte it came with."""
        return slices.join(self.envelope) if self.respelled else None

    @property
    def upstream_id(self) -> bytes:
        """A plain positive integer that stands for ``id`` in requests a gateway may fan out.

        Envoy's ``mcp_router`` answers an aggregated request with a string id by ``"id":0`` and an empty list,
        and numbers past 53 bits do not survive every parser.
        """
        if _SAFE_INTEGER.match(self.id):
            return self.id
        digest = blake2b(self.id, digest_size=6).digest()
        return str(1 << 48 | int.from_bytes(digest, "big")).encode()

    def with_params(self, params: Members, *, method: str | None = None, id: bytes | None = None) -> bytes:
        """The request with other params (and method, and id); every other member as it came."""
        if method is None and id is None and self.frame is not None:
            before, after = self.frame
            return before + slices.join(params) + after
        envelope = dict(self.envelope)
        if method is not None:
            envelope["method"] = slices.quote(method)
        if id is not None:
            envelope["id"] = id
        envelope["params"] = slices.join(params)
        return slices.join(envelope)


def error_body(id: bytes, code: int, message: str) -> bytes:
    error = slices.join({"code": str(code).encode(), "message": slices.quote(message)})
    return slices.join({"jsonrpc": b'"2.0"', "id": id, "error": error})


def result_body(id: bytes, result: Members) -> bytes:
    return slices.join({"jsonrpc": b'"2.0"', "id": id, "result": slices.join(result)})


def http_error(status: int, id: bytes, code: int, message: str) -> Reply:
    return Reply(error_body(id, code, message), status)


_OF_ANOTHER_MESSAGE = frozenset(
    (
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "content-encoding", "date", "server", "x-envoy-upstream-service-time"),
    )
)


def relayed(call: Rpc, status: int, headers: Headers, body: bytes) -> Reply:
    """The upstream's HTTP answer to a request of our own, as the answer to ``call``.

    Headers that describe that connection and that body go; every other one stays, ``WWW-Authenticate`` above
    all.  A body that names our id names the client's.
    """
    kept = tuple(header for header in headers if header[0] not in _OF_ANOTHER_MESSAGE)
    envelope = slices.members_or_none(body)
    if envelope is not None and envelope.get("id", b"null") != b"null":
        body = slices.join({**envelope, "id": call.id})
    return Reply(body, status, kept)


def error_reply(call: Rpc, code: int, message: str) -> Reply:
    """A protocol error.  In modern revisions invalid params travel with HTTP 400, in legacy ones with 200."""
    status = 400 if call.modern and code != INTERNAL_ERROR else 200
    return Reply(error_body(call.id, code, message), status)


def tool_result(
    call: Rpc, text: str | bytes, *, error: bool = False, structured: bytes | None = None
) -> bytes:
    """A ``CallToolResult`` with one text block, in the shape of the request's revision."""
    encoded = slices.quote(text) if isinstance(text, str) else slices.quote(text.decode())
    result: Members = {"content": b'[{"type":"text","text":' + encoded + b"}]"}
    if structured is not None and revisions.has_structured_content(call.revision):
        result["structuredContent"] = structured
    if error:
        result["isError"] = b"true"
    if call.modern:
        result["resultType"] = b'"complete"'
    return result_body(call.id, result)


def tool_error(call: Rpc, text: str) -> bytes:
    return tool_result(call, text, error=True)
