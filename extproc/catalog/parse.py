"""From the ``result`` of a ``tools/list`` answer to tools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, TypeVar

import msgspec

from extproc.catalog.model import Annotations, Catalogue, Tool, ToolClass
from extproc.mcp import headers, slices
from extproc.settings import Tools

_EMPTY_SCHEMA = b'{"type":"object"}'


class NotAToolList(ValueError):
    """The text is no ``ListToolsResult``."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a tool list.

    ``next_cursor`` None means the last page (an empty string is a cursor).  ``ttl`` in seconds, None when the
    answer does not say.  ``dropped`` counts entries that are no usable tools.
    """

    tools: tuple[Tool, ...]
    next_cursor: str | None
    ttl: float | None
    dropped: int = 0

    def catalogue(self) -> Catalogue:
        return Catalogue.of(self.tools, complete=self.next_cursor is None)


class _Result(msgspec.Struct):
    tools: list[msgspec.Raw]
    nextCursor: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815
    ttlMs: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815


class _Entry(msgspec.Struct):
    name: msgspec.Raw
    title: msgspec.Raw = msgspec.Raw(b"")
    description: msgspec.Raw = msgspec.Raw(b"")
    inputSchema: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815
    annotations: msgspec.Raw = msgspec.Raw(b"")
    execution: msgspec.Raw = msgspec.Raw(b"")
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="_meta")


_T = TypeVar("_T", "_Result", "_Entry")
_result = msgspec.json.Decoder(_Result)
_entry = msgspec.json.Decoder(_Entry)


def parse_page(result: bytes, policy: Tools, *, modern: bool, limit: int = 50_000) -> Page:
    """The tools of one page, hidden ones left out and classes overridden as ``policy`` says.

    In modern revisions a tool with an invalid ``x-mcp-header`` is dropped, as an HTTP client must do
    (2026-07-28, transports).  Raises :class:`NotAToolList`.
    """
    try:
        result.decode()
        page = _decoded(_result, _Result, result)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NotAToolList(str(error)) from None
    if len(page.tools) > limit:
        raise NotAToolList(f"more than {limit} tools")
    tools = []
    dropped = 0
    for entry in page.tools:
        tool = parse_tool(bytes(entry), policy, modern=modern)
        if tool is None:
            dropped += 1
        elif not is_hidden(tool.name, policy):
            tools.append(tool)
    return Page(tuple(tools), slices.string(bytes(page.nextCursor)), _seconds(bytes(page.ttlMs)), dropped)


def parse_tool(raw: bytes, policy: Tools, *, modern: bool) -> Tool | None:
    """One tool definition, or None when it is none a client could use."""
    try:
        entry = _decoded(_entry, _Entry, raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    name = slices.string(bytes(entry.name))
    if not name:
        return None
    schema = bytes(entry.inputSchema)
    if not slices.is_object(schema):
        schema = _EMPTY_SCHEMA
    if modern and b"x-mcp-header" in schema:
        try:
            headers.param_annotations(slices.value(schema))
        except ValueError:
            return None
    annotations, annotated_title = _annotations(bytes(entry.annotations))
    tool_class = _class_of(name, annotations, policy)
    return Tool(
        name=name,
        title=slices.text(bytes(entry.title)) or annotated_title,
        description=slices.text(bytes(entry.description)) or "",
        raw=raw,
        input_schema=schema,
        annotations=annotations,
        tool_class=tool_class,
        digest=blake2b(raw, digest_size=16, person=tool_class.value.encode()).digest(),
        task_support=_task_support(bytes(entry.execution)),
        app=_is_app(bytes(entry.meta)),
    )


def _decoded(decoder: msgspec.json.Decoder[_T], kind: type[_T], raw: bytes) -> _T:
    """The struct; where msgspec refuses an escape that JSON allows, from members taken apart another way."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        raise
    except msgspec.MsgspecError:
        found: dict[str, object] = {name: msgspec.Raw(value) for name, value in slices.members(raw).items()}
        if kind is _Result and "tools" in found:
            found["tools"] = [msgspec.Raw(item) for item in slices.items(slices.members(raw)["tools"])]
        return msgspec.convert(found, kind)


def is_hidden(name: str, policy: Tools) -> bool:
    return bool(policy.hide) and matches(name, policy.hide)


def is_pinned(tool: Tool, policy: Tools) -> bool:
    return (policy.pin_apps and tool.app) or (bool(policy.pin) and matches(tool.name, policy.pin))


@lru_cache(maxsize=256)
def _patterns(globs: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(translate(glob)) for glob in globs)


def matches(name: str, globs: tuple[str, ...]) -> bool:
    """Whether a case-sensitive shell glob among ``globs`` matches the whole name."""
    return any(pattern.match(name) for pattern in _patterns(globs))


def _class_of(name: str, annotations: Annotations, policy: Tools) -> ToolClass:
    if policy.overrides:
        for glob, forced in policy.overrides.items():
            if matches(name, (glob,)):
                return ToolClass(forced)
    return annotations.tool_class


def _annotations(raw: bytes) -> tuple[Annotations, str]:
    """Wrong types count as absent: a hint that is no boolean says nothing."""
    try:
        found = slices.members(raw) if slices.is_object(raw) else {}
    except ValueError:
        found = {}

    def flag(name: str, default: bool) -> bool:
        return {b"true": True, b"false": False}.get(found.get(name, b""), default)

    return (
        Annotations(
            read_only=flag("readOnlyHint", False),
            destructive=flag("destructiveHint", True),
            idempotent=flag("idempotentHint", False),
            open_world=flag("openWorldHint", True),
        ),
        slices.text(found.get("title")) or "",
    )


def _task_support(raw: bytes) -> Literal["forbidden", "optional", "required"]:
    match slices.string(slices.member(raw, "taskSupport")):
        case "optional":
            return "optional"
        case "required":
            return "required"
        case _:
            return "forbidden"


def _is_app(raw: bytes) -> bool:
    return bool(slices.string(slices.member(slices.member(raw, "ui"), "resourceUri")))


def _seconds(raw: bytes) -> float | None:
    """``ttlMs`` in seconds; a negative one counts as 0 (2026-07-28, caching)."""
    try:
        milliseconds = msgspec.json.decode(raw, type=float)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return max(0.0, milliseconds / 1000)
