"""How tools are shown to a model: one line of description, schemas without noise."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from extproc.search.stopwords import word_set

MAX_DEPTH = 64
"""Levels of a schema that are looked into; what lies deeper is kept as it came."""

_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。！？]")
_NOISE = frozenset(("$schema", "$comment", "title", "examples"))
_ONE = word_set(
    """
    additionalItems additionalProperties contains else if items not propertyNames then unevaluatedItems
    unevaluatedProperties contentSchema
    """
)
_MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
_PLAIN_OR_NULL = re.compile(
    rb'\[\{"type":("[a-z]+")\},\{"type":"null"\}\]|\[\{"type":"null"\},\{"type":("[a-z]+")\}\]'
)
_SAYS_NOTHING: Mapping[str, bytes] = {
    "required": b"[]",
    "description": b'""',
    "additionalProperties": b"true",
}

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_arrays = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def one_line(description: str, chars: int) -> str:
    """The first whole sentences within ``chars`` characters, on one line.

    A first sentence that is longer is cut at a word and ends with an ellipsis.
    """
    if chars <= 0:
        return ""
    text = " ".join(description[: 8 * chars + 200].split())
    if len(text) <= chars:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text[: chars + 1]) if found.end() <= chars]
    if ends and ends[-1] >= chars // 4:
        return text[: ends[-1]]
    cut = text[: chars - 1]
    at_word = cut.rpartition(" ")[0]
    return (at_word if len(at_word) > chars // 2 else cut).rstrip(" ,;:-") + "…"


def slim_schema(raw_schema: bytes) -> bytes:
    """The schema without titles, comments, examples and statements of defaults; what it accepts is unchanged.

    Values of ``enum``, ``const``, ``default`` and of unknown keywords stay byte for byte.  A property may be
    called ``title``.  What is no JSON object comes back as it is.
    """
    try:
        return _schema(raw_schema, 0)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return raw_schema


def _schema(raw: bytes, depth: int) -> bytes:
    raw = raw.strip()
    if depth >= MAX_DEPTH or not raw.startswith(b"{"):
        return raw
    out: dict[str, msgspec.Raw] = {}
    for keyword, value in _objects.decode(raw).items():
        text = bytes(value)
        if keyword in _NOISE and (keyword != "title" or text.startswith(b'"')):
            continue
        slim = _keyword(keyword, text, depth + 1)
        if _SAYS_NOTHING.get(keyword) != slim or b"unevaluated" in raw:
            out[keyword] = msgspec.Raw(slim)
    _join_null(out)
    return _encode(out)


def _keyword(keyword: str, raw: bytes, depth: int) -> bytes:
    if keyword in _NAMED and raw.startswith(b"{"):
        named = _objects.decode(raw)
        return _encode({name: msgspec.Raw(_schema(bytes(each), depth)) for name, each in named.items()})
    if keyword in _MANY and raw.startswith(b"["):
        return _encode([msgspec.Raw(_schema(bytes(each), depth)) for each in _arrays.decode(raw)])
    if keyword in _ONE:
        return _schema(raw, depth)
    return _compact(raw)


def _compact(raw: bytes) -> bytes:
    """A value without white space between its parts; numbers and strings keep their spelling."""
    return msgspec.json.format(raw, indent=-1) if raw.startswith((b"{", b"[")) else raw


def _join_null(schema: dict[str, msgspec.Raw]) -> None:
    """``anyOf`` of one plain type and null is ``type`` with two names, in a third of the length."""
    if "type" in schema or "anyOf" not in schema:
        return
    found = _PLAIN_OR_NULL.fullmatch(bytes(schema["anyOf"]))
    if found:
        kind = found[1] or found[2]
        schema["type"] = msgspec.Raw(b"[" + kind + b',"null"]')
        del schema["anyOf"]
