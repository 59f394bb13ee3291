"""JSON objects as ordered members with raw values.

A rewrite must not re-encode what it does not change: a decoded and re-encoded ``1.0`` or 70-bit integer is
another value to the server (facts of the multi round-trip rules, MCP 2026-07-28).  So members keep the bytes
they came with, and an edited object is joined from those bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from extproc.mcp import slowly
from extproc.mcp.slowly import NotAnObject, TooDeep

__all__ = [
    "Ambiguous",
    "Members",
    "NotAnObject",
    "TooDeep",
    "encode",
    "is_object",
    "items",
    "join",
    "join_array",
    "member",
    "members",
    "members_or_none",
    "quote",
    "string",
    "text",
    "value",
]

Members: TypeAlias = dict[str, bytes]
"""Member name to the raw bytes of its value, in document order."""


class Ambiguous(ValueError):
    """A member name stands twice: two parsers may disagree about what the message says."""


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_values = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode
_strings = msgspec.json.Decoder(str)


def members(text: bytes) -> Members:
    """The members of the JSON object ``text``.

    Raises :class:`NotAnObject`, :class:`TooDeep` or :class:`Ambiguous`.
    """
    try:
        if not text.isascii():
            text.decode()
        decoded = _members.decode(text)
    except RecursionError:
        raise TooDeep("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise NotAnObject(str(error)) from None
    except msgspec.MsgspecError as error:
        return _with_surrogates(text, error)
    # Compact text without a repeated name is as long as its parts written anew; the rest is looked into.
    if len(text) != len(_encode(decoded)) and _has_duplicates(text):
        raise Ambiguous("a member name stands twice")
    return {name: bytes(value) for name, value in decoded.items()}


def members_or_none(text: bytes | None) -> Members | None:
    """The members of ``text``, or None when it is no object that can be read."""
    if text is None or not is_object(text):
        return None
    try:
        return members(text)
    except ValueError:
        return None


def member(text: bytes | None, name: str) -> bytes | None:
    """The raw value of one member, or None where there is no such object or member."""
    found = members_or_none(text)
    return None if found is None else found.get(name)


def items(text: bytes) -> list[bytes]:
    """The raw elements of the JSON array ``text``.  Raises :class:`NotAnObject` or :class:`TooDeep`."""
    try:
        text.decode()
        return [bytes(item) for item in _items.decode(text)]
    except RecursionError:
        raise TooDeep("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise NotAnObject(str(error)) from None
    except msgspec.MsgspecError as error:
        if b"\\u" not in text:
            raise NotAnObject(str(error)) from None
        return [raw for _, raw in slowly.elements(text.decode(), "[")]


def join(parts: Mapping[str, bytes]) -> bytes:
    """The JSON object with these members, values byte for byte."""
    labels = [(_LABELS.get(name) or quote(name) + b":") + value for name, value in parts.items()]
    return b"{" + b",".join(labels) + b"}"


def join_array(parts: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def quote(text: str) -> bytes:
    """``text`` as a JSON string.  Lone surrogates, which UTF-8 cannot carry, are escaped."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


_LABELS = {
    name: quote(name) + b":"
    for name in ("jsonrpc", "id", "method", "params", "name", "arguments", "_meta", "result", "error")
}


def encode(value: object) -> bytes:
    """Compact JSON of a plain value; ``msgspec.Raw`` parts go in unchanged."""
    return msgspec.json.encode(value)


def value(text: bytes) -> object:
    """The decoded JSON value.  Raises :class:`NotAnObject` or :class:`TooDeep`."""
    try:
        return _values.decode(text)
    except RecursionError:
        raise TooDeep("nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotAnObject(str(error)) from None


def string(text: bytes | None) -> str | None:
    """The string that ``text`` is, or None when it is absent or anything else."""
    if text is None or text[:1] != b'"':
        return None
    try:
        return _strings.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def text(raw: bytes | None) -> str | None:
    """Like :func:`string`, for texts that are only read: half a surrogate pair becomes U+FFFD."""
    found = string(raw)
    if found is not None or raw is None or raw[:1] != b'"':
        return found
    try:
        loose = json.loads(raw)
    except ValueError:
        return None
    return str(loose).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_object(text: bytes | None) -> bool:
    return text is not None and text[:1] == b"{"


def _with_surrogates(text: bytes, error: msgspec.MsgspecError) -> Members:
    """Escapes of half a surrogate pair are valid JSON (RFC 8259, section 8.2) that msgspec does not take."""
    if b"\\u" not in text:
        raise NotAnObject(str(error)) from None
    pairs = slowly.elements(text.decode(), "{")
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Ambiguous("a member name stands twice")
    return found


def _has_duplicates(text: bytes) -> bool:
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return True
    names = [name for name, _ in pairs]
    return len(set(names)) != len(names)
