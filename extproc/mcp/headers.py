"""The headers of MCP requests and their value encoding (MCP 2026-07-28, transports; SEP-2243)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

import msgspec

from extproc.exchange.messages import Headers
from extproc.mcp import slices

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_PLAIN = re.compile(r"[!-~](?:[ -~\t]*[!-~])?\Z|\Z")
_SENTINEL = re.compile(r"=\?base64\?.*\?=\Z", re.DOTALL)

PARAM_PREFIX = "mcp-param-"
_MAX_DEPTH = 32


class BadHeader(ValueError):
    """A header value that cannot be decoded."""


def encode_value(text: str) -> str:
    """``text`` as a header value: as it is when plain, else in the base64 form."""
    if _PLAIN.match(text) and not _SENTINEL.match(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def decode_value(value: str) -> str:
    """The text a header value stands for.  Raises :class:`BadHeader`."""
    value = value.strip(" \t")
    if not _SENTINEL.match(value):
        try:
            return value.encode("latin-1").decode()
        except UnicodeError:
            raise BadHeader("not UTF-8") from None
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise BadHeader("not valid base64 of UTF-8") from None


def get(headers: Headers, name: str) -> str | None:
    """The first value of a header, or None."""
    return next((value for key, value in headers if key == name), None)


def table(headers: Headers) -> dict[str, str]:
    """Names to values; of a repeated name the first value, as :func:`get` has it."""
    found = dict(headers)
    if len(found) != len(headers):
        found = dict(reversed(headers))
    return found


def get_all(headers: Headers, name: str) -> list[str]:
    return [value for key, value in headers if key == name]


def media_type(headers: Headers) -> str:
    """The lower-case media type of ``content-type`` without its parameters, or ``""``."""
    return (get(headers, "content-type") or "").partition(";")[0].strip().lower()


class BadAnnotation(ValueError):
    """An ``x-mcp-header`` annotation that makes the whole tool invalid."""


def param_annotations(schema: object) -> dict[str, tuple[str, ...]]:
    """Header suffix to property path for every ``x-mcp-header`` in an input schema.

    Raises :class:`BadAnnotation` for an annotation the specification forbids: not a token, not unique, on a
    type that is no string, integer or boolean, or not reachable through ``properties`` alone.
    """
    found: dict[str, tuple[str, ...]] = {}
    if b"x-mcp-header" in msgspec.json.encode(schema):
        _walk(schema, (), True, found, 0)
    return found


def _walk(
    node: object, path: tuple[str, ...], reachable: bool, found: dict[str, tuple[str, ...]], depth: int
) -> None:
    if depth > _MAX_DEPTH:
        raise BadAnnotation("schema nested too deeply")
    if isinstance(node, list):
        for item in node:
            _walk(item, path, False, found, depth + 1)
    if not isinstance(node, dict):
        return
    if "x-mcp-header" in node:
        _add(node, path, reachable, found)
    for key, value in node.items():
        if key == "properties" and isinstance(value, dict):
            for name, child in value.items():
                _walk(child, (*path, name), reachable, found, depth + 1)
        elif key not in ("x-mcp-header", "default", "const", "enum", "examples", "example"):
            _walk(value, path, False, found, depth + 1)


def _add(
    node: Mapping[str, object], path: tuple[str, ...], reachable: bool, found: dict[str, tuple[str, ...]]
) -> None:
    name = node["x-mcp-header"]
    if not isinstance(name, str) or not _TOKEN.match(name):
        raise BadAnnotation("x-mcp-header is not a header token")
    if not reachable or not path:
        raise BadAnnotation("x-mcp-header on something that is not a plain property")
    if node.get("type") not in ("string", "integer", "boolean"):
        raise BadAnnotation("x-mcp-header on a type that is no string, integer or boolean")
    if name.lower() in found:
        raise BadAnnotation("x-mcp-header stands twice")
    found[name.lower()] = path


def param_headers(annotations: Mapping[str, tuple[str, ...]], arguments: bytes) -> Headers:
    """The ``Mcp-Param-*`` headers of a call; absent and null arguments get none.

    Numbers keep their own digits, so the header equals the body whatever their size.
    """
    made: list[tuple[str, str]] = []
    for suffix, path in annotations.items():
        raw: bytes | None = arguments
        for name in path:
            raw = slices.member(raw, name)
        if raw is None or raw == b"null":
            continue
        text = slices.string(raw) if raw[:1] == b'"' else raw.decode()
        if text is not None and raw[:1] not in b"[{":
            made.append((PARAM_PREFIX + suffix, encode_value(text)))
    return tuple(made)
