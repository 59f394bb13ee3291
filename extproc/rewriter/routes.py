"""Where a request goes: a closed union, found by a ladder of checks.

The order matters: nothing is rewritten before headers and body were found to agree, because a policy in front
of the processor may have judged the headers (SEP-2243, "any server that processes the message body").
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from extproc.exchange.messages import Reply, Request
from extproc.exchange.modes import WITH_MESSAGES
from extproc.mcp import headers, revisions, slices
from extproc.mcp.slices import Members
from extproc.rewriter import agreement, arguments, compact, rpc
from extproc.rewriter.arguments import CallArguments, Problem
from extproc.rewriter.meta_tools import CLASS_OF, Meta

TOUCHED = frozenset({"initialize", "server/discover", "tools/list", "tools/call"})
HEADER_MISMATCH = -32020
_ENVELOPE = frozenset({"jsonrpc", "id", "method", "params"})
_CALL = frozenset({"name", "arguments"})
_ROUTED = ("name", "uri")
_ROUTING = frozenset({"mcp-method", "mcp-name"})
_SIGNS = (b"tools", b"initialize", b"discover", b"\\")
_METAS = {str(meta): meta for meta in Meta}
_INTEGER = re.compile(rb"-?[0-9]+\Z")


class Untouched(msgspec.Struct, frozen=True):
    """Passes byte for byte."""


class Respelled(msgspec.Struct, frozen=True):
    """Passes, with names that a router reads spelled plainly."""

    body: bytes


class Refused(msgspec.Struct, frozen=True):
    reply: Reply


class Opens(msgspec.Struct, frozen=True):
    """``initialize`` or ``server/discover``."""

    rpc: rpc.Rpc


class Lists(msgspec.Struct, frozen=True):
    rpc: rpc.Rpc


class CallsMeta(msgspec.Struct, frozen=True):
    """A ``tools/call`` of ``search_tools``, ``describe_tool`` or ``call_read_tools``."""

    rpc: rpc.Rpc
    tool: Meta
    arguments: bytes


class CallsTool(msgspec.Struct, frozen=True):
    """A ``tools/call`` of one of the three that call a single tool."""

    rpc: rpc.Rpc
    tool: Meta
    call: CallArguments | Problem


class CallsDirect(msgspec.Struct, frozen=True):
    """A ``tools/call`` of a real name."""

    rpc: rpc.Rpc
    name: str


class NotifiesCall(msgspec.Struct, frozen=True):
    """A ``tools/call`` without an id: no request, but some servers run the tool all the same."""

    name: str


class Cancels(msgspec.Struct, frozen=True):
    """``notifications/cancelled``; passes, and ends work of our own for that request."""

    request_id: bytes
    session: str | None


class Resumes(msgspec.Struct, frozen=True):
    """A GET with ``Last-Event-ID``: answers of an earlier POST may be replayed on it."""

    session: str | None
    revision: str


class Listens(msgspec.Struct, frozen=True):
    """A stream on which the server may say that its tools changed."""

    session: str | None
    revision: str


class EndsSession(msgspec.Struct, frozen=True):
    session: str = ""

    def __repr__(self) -> str:
        return "EndsSession()"


Route: TypeAlias = (
    Untouched
    | Respelled
    | Refused
    | Opens
    | Lists
    | CallsMeta
    | CallsTool
    | CallsDirect
    | NotifiesCall
    | Cancels
    | Resumes
    | Listens
    | EndsSession
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
    if method not in WITH_MESSAGES or not request.body:
        return Untouched()
    coding = table.get("content-encoding")
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        text = "Request bodies must not be compressed here: send the message without content-encoding"
        return Refused(rpc.http_error(415, b"null", rpc.INVALID_REQUEST, text))
    if (call := compact.read(request.body)) is not None:
        return _compact(request, table, call, session)
    try:
        envelope = slices.members(request.body)
    except slices.NotAnObject:
        return _no_object(request)
    except (slices.TooDeep, slices.Ambiguous) as error:
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, f"Invalid request: {error}"))
    return _message(request, table, envelope, session)


def _message(request: Request, table: dict[str, str], envelope: Members, session: str | None) -> Route:
    if not envelope.keys() <= _ENVELOPE and _misspells(envelope, _ENVELOPE):
        return _invalid(envelope, "member names are case-sensitive")
    method = slices.string(envelope.get("method"))
    if method is None:
        return Untouched()
    try:
        raw = envelope.get("params", b"")
        params = slices.members(raw) if raw[:1] == b"{" else {}
        raw = params.get("_meta", b"")
        meta = slices.members(raw) if raw[:1] == b"{" else {}
    except ValueError as error:
        return _invalid(envelope, str(error))
    respelled = False
    if b"\\" in request.body:
        envelope, params, respelled = _plainly_spelled(envelope, params)
    if "id" not in envelope:
        if method == "tools/call":
            return NotifiesCall(slices.string(params.get("name")) or "")
        if method == "notifications/cancelled" and "requestId" in params:
            return Cancels(params["requestId"], session)
        return Untouched()
    if method == "subscriptions/listen":
        return Listens(session, _revision(table, method, params, meta))
    if method not in TOUCHED:
        if method.strip().casefold() in TOUCHED:
            return _invalid(envelope, "method names are case-sensitive")
        return Respelled(slices.join(envelope)) if respelled else Untouched()
    if method == "tools/call" and not params.keys() <= _CALL and _misspells(params, _CALL):
        return _invalid(envelope, "member names are case-sensitive")
    call = _agreed(request, table, method, envelope, params, meta, session, respelled=respelled)
    return call if isinstance(call, Refused) else _method(call)


def _compact(request: Request, table: dict[str, str], found: compact.Call, session: str | None) -> Route:
    try:
        meta = slices.members(found.meta) if found.meta[:1] == b"{" else {}
    except ValueError as error:
        return _invalid(found.envelope, str(error))
    call = _agreed(
        request, table, "tools/call", found.envelope, found.params, meta, session, frame=found.frame
    )
    return call if isinstance(call, Refused) else CallsTool(call, found.tool, found.parsed)


def _agreed(
    request: Request,
    table: dict[str, str],
    method: str,
    envelope: Members,
    params: Members,
    meta: Members,
    session: str | None,
    *,
    respelled: bool = False,
    frame: tuple[bytes, bytes] | None = None,
) -> rpc.Rpc | Refused:
    """The request, once its id and its headers were found to be in order."""
    revision = _revision(table, method, params, meta)
    routing = tuple([name for name in table if name[:4] == "mcp-" and _routes(name)])
    call = rpc.Rpc(envelope["id"], method, envelope, params, revision, session, routing, respelled, frame)
    if not _is_id(call.id):
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, "id must be a string or an integer"))
    if reason := agreement.disagreement(request.headers, table, call, meta):
        return Refused(rpc.http_error(400, call.id, HEADER_MISMATCH, f"Header mismatch: {reason}"))
    return call


def _misspells(members: Members, known: frozenset[str]) -> bool:
    """Whether a member is a known one but for its case: lenient parsers take it for that."""
    return any(name.casefold() in known for name in members.keys() - known)


def _invalid(envelope: Members, why: str) -> Refused:
    return Refused(rpc.http_error(400, _id_or_null(envelope), rpc.INVALID_REQUEST, f"Invalid request: {why}"))


def _plainly_spelled(envelope: Members, params: Members) -> tuple[Members, Members, bool]:
    """Method and names without needless escapes, and whether any had one.

    Envoy's ``mcp_router`` takes the server's prefix off a name by its decoded length: an escape in it makes
    the rewritten body shorter than its content-length, and the next request there is swallowed.
    """
    if b"\\" not in envelope["method"] and not any(b"\\" in params.get(name, b"") for name in _ROUTED):
        return envelope, params, False
    plain = dict(params)
    for name in _ROUTED:
        if (said := slices.string(params.get(name))) is not None:
            plain[name] = slices.quote(said)
    spelled = {**envelope, "method": slices.quote(slices.string(envelope["method"]) or "")}
    if plain:
        spelled["params"] = slices.join(plain)
    return spelled, plain, spelled != envelope


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
    meta = _METAS.get(name)
    if meta is None:
        return CallsDirect(call, name)
    given = call.params.get("arguments", b"{}")
    return (
        CallsTool(call, meta, arguments.call(given, meta))
        if meta in CLASS_OF
        else CallsMeta(call, meta, given)
    )


def _no_object(request: Request) -> Route:
    """What is no JSON object passes unless a more lenient parser could read a list or a call in it.

    Servers and gateways are known to take truncated text, byte order marks, UTF-16, NaN and invalid UTF-8; a
    list or call in such a body would go round the six tools and ``calls.direct``.
    """
    body = request.body
    if body.lstrip()[:1] == b"[":
        try:
            return _array(slices.items(body))
        except slices.TooDeep as error:
            return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, f"Invalid request: {error}"))
        except ValueError:
            pass
    # Zero bytes are what UTF-16 and UTF-32 put between letters; an escape may spell any letter.
    letters = body.replace(b"\x00", b"").lower()
    return _unreadable() if any(sign in letters for sign in _SIGNS) else Untouched()


def _unreadable() -> Refused:
    text = "Parse error: the body is not valid JSON in UTF-8"
    return Refused(rpc.http_error(400, b"null", rpc.PARSE_ERROR, text))


def _array(elements: list[bytes]) -> Route:
    """A batch is split by nobody: what would have to be rewritten inside one is refused."""
    try:
        messages = [slices.members(element) for element in elements if slices.is_object(element)]
    except ValueError as error:
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, f"Invalid request: {error}"))
    methods = [slices.string(message.get("method")) or "" for message in messages]
    nested = any(element[:1] == b"[" for element in elements)
    if nested or any(method.strip().casefold() in TOUCHED for method in methods):
        text = (
            "Batches with initialize, tools/list or tools/call are not supported here: send each on its own"
        )
        return Refused(rpc.http_error(400, b"null", rpc.INVALID_REQUEST, text))
    return Untouched()


def _declared(table: dict[str, str]) -> str:
    return table.get("mcp-protocol-version", "").strip()


def _routes(name: str) -> bool:
    return name in _ROUTING or name.startswith(headers.PARAM_PREFIX)


def _revision(table: dict[str, str], method: str, params: Members, meta: Members) -> str:
    if method == "initialize":
        return slices.string(params.get("protocolVersion")) or revisions.ASSUMED
    return _declared(table) or slices.string(meta.get(revisions.META_VERSION)) or revisions.ASSUMED


def _is_id(raw: bytes) -> bool:
    return raw.isdigit() or raw[:1] == b'"' or _INTEGER.match(raw) is not None


def _id_or_null(envelope: Members) -> bytes:
    raw = envelope.get("id", b"null")
    return raw if _is_id(raw) else b"null"
