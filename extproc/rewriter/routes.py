"""Where a request goes: a closed union, found by a ladder of checks.

The order matters: nothing is rewritten before headers and body were found to agree, because a policy in front
of the processor may have judged the headers (SEP-2243, "any server that processes the message body").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from extproc.exchange.messages import Headers, Reply, Request
from extproc.mcp import headers, revisions, slices
from extproc.mcp.slices import Members
from extproc.rewriter import rpc
from extproc.rewriter.meta_tools import NAMES, Meta

TOUCHED = frozenset({"initialize", "server/discover", "tools/list", "tools/call"})
HEADER_MISMATCH = -32020
_DESCRIPTIONS_OF = {
    "mcp-method": "Mcp-Method",
    "mcp-name": "Mcp-Name",
    "mcp-protocol-version": "MCP-Protocol-Version",
}


@dataclass(frozen=True, slots=True)
class Untouched:
    """Passes byte for byte."""


@dataclass(frozen=True, slots=True)
class Refused:
    reply: Reply


@dataclass(frozen=True, slots=True)
class Opens:
    """``initialize`` or ``server/discover``."""

    rpc: rpc.Rpc


@dataclass(frozen=True, slots=True)
class Lists:
    rpc: rpc.Rpc


@dataclass(frozen=True, slots=True)
class CallsMeta:
    """A ``tools/call`` of one of the six."""

    rpc: rpc.Rpc
    tool: Meta
    arguments: bytes


@dataclass(frozen=True, slots=True)
class CallsDirect:
    """A ``tools/call`` of a real name."""

    rpc: rpc.Rpc
    name: str


@dataclass(frozen=True, slots=True)
class Cancels:
    """``notifications/cancelled``; passes, and ends work of our own for that request."""

    request_id: bytes
    session: str | None


@dataclass(frozen=True, slots=True)
class Resumes:
    """A GET with ``Last-Event-ID``: answers of an earlier POST may be replayed on it."""

    session: str | None
    revision: str


@dataclass(frozen=True, slots=True)
class Listens:
    """A stream on which the server may say that its tools changed."""

    session: str | None
    revision: str


@dataclass(frozen=True, slots=True)
class EndsSession:
    session: str = field(repr=False, default="")


Route: TypeAlias = (
    Untouched | Refused | Opens | Lists | CallsMeta | CallsDirect | Cancels | Resumes | Listens | EndsSession
)


def route(request: Request) -> Route:
    """Classify a request.  Never raises on what a client sends."""
    table = headers.table(request.headers)
    method = table.get(":method")
    session = table.get("mcp-session-id")
    if method == "GET":
        if "last-event-id" in table:
            return Resumes(session, _declared(table) or revisions.ASSUMED)
        return Listens(session, _declared(table) or revisions.ASSUMED)
    if method == "DELETE" and session:
        return EndsSession(session)
    if method != "POST" or not request.body:
        return Untouched()
    try:
        envelope = slices.members(request.body)
    except slices.NotAnObject:
        return _array(request)
    except (slices.TooDeep, slices.Ambiguous) as error:
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, f"Invalid request: {error}"))
    return _message(request, table, envelope, session)


def _message(request: Request, table: dict[str, str], envelope: Members, session: str | None) -> Route:
    method = slices.string(envelope.get("method"))
    if method is None:
        return Untouched()
    try:
        params = slices.members(envelope["params"]) if slices.is_object(envelope.get("params")) else {}
        meta = slices.members(params["_meta"]) if slices.is_object(params.get("_meta")) else {}
    except slices.NotAnObject:
        return Untouched()
    except (slices.TooDeep, slices.Ambiguous) as error:
        return Refused(
            rpc.http_error(400, _id_or_null(envelope), rpc.INVALID_REQUEST, f"Invalid request: {error}")
        )
    if "id" not in envelope:
        if method == "notifications/cancelled" and "requestId" in params:
            return Cancels(params["requestId"], session)
        return Untouched()
    if method == "subscriptions/listen":
        return Listens(session, _revision(table, method, params, meta))
    if method not in TOUCHED:
        return Untouched()
    revision = _revision(table, method, params, meta)
    made = tuple(name for name in table if name.startswith(headers.PARAM_PREFIX))
    call = rpc.Rpc(envelope["id"], method, envelope, params, revision, session, made)
    if not _is_id(call.id):
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, "id must be a string or an integer"))
    if reason := _disagreement(request.headers, table, call, meta):
        return Refused(rpc.http_error(400, call.id, HEADER_MISMATCH, f"Header mismatch: {reason}"))
    return _method(call)


def _method(call: rpc.Rpc) -> Route:
    match call.method:
        case "initialize" | "server/discover":
            return Opens(call)
        case "tools/list":
            return Lists(call)
    if "params" in call.envelope and not slices.is_object(call.envelope["params"]):
        return Refused(rpc.error_reply(call, rpc.INVALID_PARAMS, "params must be an object"))
    name = slices.string(call.params.get("name"))
    if name is None:
        return Refused(rpc.error_reply(call, rpc.INVALID_PARAMS, "params.name must be a string"))
    if name in NAMES:
        return CallsMeta(call, Meta(name), call.params.get("arguments", b"{}"))
    return CallsDirect(call, name)


def _array(request: Request) -> Route:
    """A batch is split by nobody: what would have to be rewritten inside one is refused."""
    if request.body.lstrip()[:1] != b"[":
        return Untouched()
    try:
        elements = [slices.members(item) for item in slices.items(request.body)]
    except slices.NotAnObject:
        return Untouched()
    except ValueError as error:
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, f"Invalid request: {error}"))
    if any(slices.string(element.get("method")) in TOUCHED for element in elements):
        text = (
            "Batches with initialize, tools/list or tools/call are not supported here: send each on its own"
        )
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, text))
    return Untouched()


def _declared(table: dict[str, str]) -> str | None:
    value = table.get("mcp-protocol-version")
    return value.strip() if value else None


def _revision(table: dict[str, str], method: str, params: Members, meta: Members) -> str:
    if method == "initialize":
        return slices.string(params.get("protocolVersion")) or revisions.ASSUMED
    return _declared(table) or slices.string(meta.get(revisions.META_VERSION)) or revisions.ASSUMED


def _is_id(raw: bytes) -> bool:
    return raw[:1] == b'"' or raw[:1].isdigit() or raw[:1] == b"-"


def _id_or_null(envelope: Members) -> bytes:
    raw = envelope.get("id", b"null")
    return raw if _is_id(raw) else b"null"


def _disagreement(request_headers: Headers, table: dict[str, str], call: rpc.Rpc, meta: Members) -> str:
    """Why headers and body cannot both be meant; empty when they agree."""
    body = {"mcp-method": call.method}
    if call.method == "tools/call" and (name := slices.string(call.params.get("name"))) is not None:
        body["mcp-name"] = name
    if (version := slices.string(meta.get(revisions.META_VERSION))) is not None:
        body["mcp-protocol-version"] = version
    for header, expected in body.items():
        shown = _DESCRIPTIONS_OF[header]
        value = table.get(header)
        if value is None:
            if call.modern:
                return f"{shown} is missing"
            continue
        if len(table) != len(request_headers) and len(headers.get_all(request_headers, header)) > 1:
            return f"{shown} stands more than once"
        try:
            if headers.decode_value(value) != expected:
                return f"{shown} does not match the body"
        except headers.BadHeader as error:
            return f"{shown} is {error}"
    return ""
