"""What the arguments of the six tools say, or why they cannot be understood.

Weak models send ``arguments`` as a string, beside ``name``, under another word or wrapped twice.  Where
only one reading is possible it is taken; forwarded bytes are always a pure function of the received ones,
because a multi round-trip retry repeats the wrapper and the server compares (MCP 2026-07-28, MRTR).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from extproc.mcp import slices
from extproc.mcp.slices import Members

_MISNAMED = ("parameters", "params", "args", "input", "tool_arguments", "tool_input")
_NAME_WORDS = ("name", "tool", "tool_name")
_EMPTY = b"{}"
WRAPPED = b'"arguments"'


class Problem(msgspec.Struct, frozen=True):
    """Why the arguments are refused; ``text`` is for the model."""

    text: str


class SearchArguments(msgspec.Struct, frozen=True):
    queries: tuple[str, ...]
    limit: int | None
    server: str | None


class DescribeArguments(msgspec.Struct, frozen=True):
    names: tuple[str, ...]


class Reading(msgspec.Struct, frozen=True):
    """``arguments`` is the raw object to forward; ``note`` says where it was if not where it belongs."""

    arguments: bytes
    note: str = ""


class CallArguments(msgspec.Struct, frozen=True):
    """``readings`` is what may be meant by the arguments, likeliest first; the tool's schema decides."""

    name: str
    readings: tuple[Reading, ...]

    @property
    def arguments(self) -> bytes:
        return self.readings[0].arguments


Parsed: TypeAlias = SearchArguments | DescribeArguments | CallArguments | Problem

MAX_QUERIES = 5
MAX_NAMES = 10
MAX_QUERY_CHARS = 2_000


def search(raw: bytes) -> SearchArguments | Problem:
    found = _object(raw)
    if isinstance(found, Problem):
        return found
    queries = _texts(found, ("queries", "query", "q"))
    if isinstance(queries, Problem):
        return Problem(f'search_tools: {queries.text}. Example: {{"queries": ["create an issue"]}}')
    if len(queries) > MAX_QUERIES:
        return Problem(
            f"search_tools: {len(queries)} queries given, at most {MAX_QUERIES} are allowed; ask again"
        )
    limit = found.get("limit")
    number: int | None = None
    if limit is not None and limit != b"null":
        number = _positive(limit)
        if number is None:
            return Problem("search_tools: limit must be a positive integer")
    server = found.get("server")
    if server is None or server in (b"null", b'""'):
        return SearchArguments(queries, number, None)
    name = slices.string(server)
    if name is None:
        return Problem("search_tools: server must be a string")
    return SearchArguments(queries, number, name)


def describe(raw: bytes) -> DescribeArguments | Problem:
    found = _object(raw)
    if isinstance(found, Problem):
        return found
    names = _texts(found, ("names", "name"))
    if isinstance(names, Problem):
        return Problem(f'describe_tool: {names.text}. Example: {{"names": ["server__tool"]}}')
    if len(names) > MAX_NAMES:
        return Problem(f"describe_tool: {len(names)} names given, at most {MAX_NAMES} are allowed")
    return DescribeArguments(tuple(dict.fromkeys(names)))


def call(raw: bytes, meta: str) -> CallArguments | Problem:
    """Name and arguments of one ``call_*``, wherever a model has put them when that is unambiguous."""
    found = _object(raw)
    if isinstance(found, Problem):
        return found
    name = slices.string(found.get("name"))
    given = found.get("arguments", b"")
    if name and len(found) == 2 and given[:1] == b"{" and WRAPPED not in given:
        # As it should be: the rest is for what weak models do.
        return CallArguments(name, (Reading(given),))
    if name is None:
        named = [word for word in _NAME_WORDS if slices.string(found.get(word)) is not None]
        if len(named) != 1:
            return Problem(
                f"{meta}: name must be a string, the exact tool name from search_tools. "
                f'Example: {{"name": "server__tool", "arguments": {{}}}}'
            )
        name = slices.string(found[named[0]]) or ""
        found = {"name" if key == named[0] else key: value for key, value in found.items()}
    if not name:
        return Problem(f"{meta}: name must not be empty")
    rest = {key: value for key, value in found.items() if key != "name"}
    return _inner(name, rest, meta)


def many(raw: bytes, most: int) -> tuple[CallArguments, ...] | Problem:
    """The entries of ``call_read_tools`` in order."""
    meta = "call_read_tools"
    found = _object(raw)
    if isinstance(found, Problem):
        return found
    entries = found.get("calls", b"")
    text = slices.string(entries)
    if text is not None:
        entries = text.encode("utf-8", "replace")
    try:
        parts = slices.items(entries)
    except ValueError:
        return Problem(
            f'{meta}: calls must be an array. Example: {{"calls": [{{"name": "a__b", "arguments": {{}}}}]}}'
        )
    if not 1 <= len(parts) <= most:
        return Problem(f"{meta}: {len(parts)} calls given, 1 to {most} are allowed")
    calls = []
    for number, part in enumerate(parts, 1):
        parsed = call(part, f"{meta}, call {number}")
        if isinstance(parsed, Problem):
            return parsed
        calls.append(parsed)
    return tuple(calls)


def _inner(name: str, rest: Members, meta: str) -> CallArguments | Problem:
    if "arguments" in rest:
        return _from_arguments(name, rest, meta)
    if not rest:
        return CallArguments(name, (Reading(_EMPTY),))
    # Members beside the name: the wrapper has no others, so they can only be meant for the tool.
    beside = Reading(slices.join(rest), "arguments were taken from beside name")
    if len(rest) == 1:
        word, value = next(iter(rest.items()))
        inner = _as_object(value) if word in _MISNAMED else None
        if inner is not None:
            return CallArguments(name, (Reading(inner, f"arguments were taken from {word}"), beside))
    return CallArguments(name, (beside,))


def _from_arguments(name: str, rest: Members, meta: str) -> CallArguments | Problem:
    raw = rest["arguments"]
    inner = _EMPTY if raw == b"null" else _as_object(raw)
    if inner is None:
        return Problem(f"{meta}: arguments must be an object, {_kind(raw)} given")
    others = {key: value for key, value in rest.items() if key != "arguments"}
    if others and slices.members_or_none(inner) == {}:
        return CallArguments(name, (Reading(slices.join(others), "arguments were taken from beside name"),))
    if others:
        extra = ", ".join(sorted(others))[:200]
        return Problem(f"{meta}: put every argument inside arguments; these stand beside it: {extra}")
    nested = _unwrap(name, inner)
    if nested is not None:
        return CallArguments(
            name, (Reading(nested, "arguments were taken from a repeated wrapper"), Reading(inner))
        )
    return CallArguments(name, (Reading(inner),))


def _unwrap(name: str, inner: bytes) -> bytes | None:
    """The innermost arguments of ``{"name": same, "arguments": {...}}`` put where arguments belong."""
    if WRAPPED not in inner:
        return None
    nested = slices.members_or_none(inner) or {}
    if set(nested) == {"name", "arguments"} and slices.string(nested["name"]) == name:
        return _as_object(nested["arguments"])
    return None


def _as_object(raw: bytes) -> bytes | None:
    """The raw object that ``raw`` is, or holds as a string; None when it is neither."""
    if slices.is_object(raw):
        return raw
    text = slices.string(raw)
    if text is None:
        return None
    inner = text.strip()
    if not inner:
        return _EMPTY
    try:
        data = inner.encode()
        slices.members(data)
    except ValueError:
        return None
    return data


def _object(raw: bytes) -> Members | Problem:
    inner = raw if raw[:1] == b"{" else _as_object(raw)
    if inner is None:
        return (
            _EMPTY_MEMBERS if raw == b"null" else Problem(f"arguments must be an object, {_kind(raw)} given")
        )
    try:
        return slices.members(inner)
    except slices.Ambiguous:
        return Problem("arguments: a member stands twice; send each once")
    except ValueError as error:
        return Problem(f"arguments cannot be read: {error}")


_EMPTY_MEMBERS: Members = {}


def _texts(found: Members, keys: tuple[str, ...]) -> tuple[str, ...] | Problem:
    """The non-empty strings under the first of ``keys`` that is present: an array, or one string."""
    raw = next((found[key] for key in keys if key in found), None)
    if raw is None:
        return Problem(f"{keys[0]} is missing")
    one = slices.string(raw)
    if one is not None and not one.lstrip().startswith("["):
        texts: list[str | None] = [one]
    else:
        try:
            texts = [slices.string(item) for item in slices.items(raw if one is None else one.encode())]
        except ValueError:
            return Problem(f"{keys[0]} must be an array of strings, {_kind(raw)} given")
    kept = [text.strip()[:MAX_QUERY_CHARS] for text in texts if text is not None and text.strip()]
    if None in texts or not kept:
        return Problem(f"{keys[0]} must be an array of non-empty strings")
    return tuple(kept)


def _positive(raw: bytes) -> int | None:
    text = slices.string(raw)
    digits = raw.decode() if text is None else text.strip()
    digits = digits.removesuffix(".0")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        return None
    return int(digits) or None


def _kind(raw: bytes) -> str:
    return {
        b'"': "a string",
        b"[": "an array",
        b"{": "an object",
        b"t": "a boolean",
        b"f": "a boolean",
        b"n": "null",
    }.get(raw[:1], "a number")
