"""The commonest request in one look: one of the three single ``call_*``, compact and as it should be.

Whatever has a blank between its members, an escape, a letter beyond ASCII, a member more, a member twice or
another order is none, and is read by the ladder in ``routes``, which comes to the same for what is one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.mcp.slices import Members
from extproc.rewriter.arguments import WRAPPED, CallArguments, Reading
from extproc.rewriter.meta_tools import CLASS_OF, Meta


class Call(msgspec.Struct, frozen=True):
    """``envelope`` and ``params`` are the members as ``slices.members`` has them, ``meta`` is ``_meta``, and
    ``frame`` what stands before and after the params."""

    tool: Meta
    parsed: CallArguments
    envelope: Members
    params: Members
    meta: bytes
    frame: tuple[bytes, bytes]


class _Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw


class _Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: _Wrapper
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw(b""))


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: msgspec.Raw
    method: Literal["tools/call"]
    params: _Params


_decode = msgspec.json.Decoder(_Envelope).decode
_TOOLS = {str(tool): (tool, f'"{tool}"'.encode()) for tool in CLASS_OF}
_VERSION, _METHOD = b'"2.0"', b'"tools/call"'
_ID_FIRST, _THEN_METHOD = b'{"jsonrpc":"2.0","id":', b',"method":"tools/call","params":'
_METHOD_FIRST, _THEN_ID = b'{"method":"tools/call","params":', b',"jsonrpc":"2.0","id":'
_NAME_FIRST, _THEN_ARGUMENTS = b'{"name":', b',"arguments":'
_META_FIRST, _THEN_NAME = b'{"_meta":', b',"name":'
# What stands around values, braces included: members in another form, or more of them, make a longer text.
_ENVELOPE = len(_ID_FIRST + _THEN_METHOD) + 1
_PARAMS = len(_NAME_FIRST + _THEN_ARGUMENTS) + 1


def read(body: bytes) -> Call | None:
    """The call that ``body`` is, or None for everything that wants a closer look.  Never raises."""
    if b"\\" in body or not body.isascii():
        return None
    try:
        found = _decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    known = _TOOLS.get(found.params.name)
    inner = found.params.arguments
    given = bytes(inner.arguments)
    if known is None or not inner.name or given[:1] != b"{" or WRAPPED in given:
        return None
    tool, quoted = known
    number, meta = bytes(found.id), bytes(found.params.meta)
    wrapper = _PARAMS + len(inner.name) + 2 + len(given)
    size = _PARAMS + len(quoted) + wrapper
    if meta:
        size += len(_META_FIRST) + len(meta)
    if len(body) != _ENVELOPE + len(number) + size:
        return None
    params: Members
    if body.startswith(_ID_FIRST) and body.startswith(_THEN_METHOD, len(_ID_FIRST) + len(number)):
        start = len(_ID_FIRST) + len(number) + len(_THEN_METHOD)
        text = body[start:-1]
        envelope = {"jsonrpc": _VERSION, "id": number, "method": _METHOD, "params": text}
    elif body.startswith(_METHOD_FIRST) and body.startswith(_THEN_ID, len(_METHOD_FIRST) + size):
        start = len(_METHOD_FIRST)
        text = body[start : start + size]
        envelope = {"method": _METHOD, "params": text, "jsonrpc": _VERSION, "id": number}
    else:
        return None
    if text.startswith(_NAME_FIRST) and text.startswith(_THEN_ARGUMENTS, len(_NAME_FIRST) + len(quoted)):
        at = len(_NAME_FIRST) + len(quoted) + len(_THEN_ARGUMENTS)
        params = {"name": quoted, "arguments": text[at : at + wrapper]}
        if meta:
            params["_meta"] = meta
    elif meta and text.startswith(_META_FIRST) and text.startswith(_THEN_NAME, len(_META_FIRST) + len(meta)):
        params = {"_meta": meta, "name": quoted, "arguments": text[-1 - wrapper : -1]}
    else:
        return None
    called = CallArguments(inner.name, (Reading(given),))
    return Call(tool, called, envelope, params, meta, (body[:start], body[start + size :]))
