"""The texts a model reads: hits, descriptions and errors it can act on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from extproc.catalog.model import ByDigest, Catalogue, Tool
from extproc.mcp import slices
from extproc.mcp.slices import Members
from extproc.rewriter.arguments import DescribeArguments, SearchArguments
from extproc.rewriter.meta_tools import CALL_FOR, CLASS_OF, NAMES, Meta
from extproc.rewriter.suggest import suggest
from extproc.search import Hit, ToolIndex
from extproc.search.present import one_line, slim_schema
from extproc.search.servers import UnknownServer
from extproc.settings import Search

INCOMPLETE = "The tool list is still being read: more tools may show up in a moment."
NOTHING = (
    "Nothing matched. Say what the tool should do in other words (a verb and a thing), in English if the "
    "query was not, or leave out server."
)
_MAX_SCHEMA = 6_000
"""Bytes of a slimmed schema shown with a hit; larger ones are left to describe_tool."""
_DESCRIBED = ("title", "description", "inputSchema", "outputSchema", "execution")


def search(
    arguments: SearchArguments, index: ToolIndex, policy: Search, limit_bytes: int, note: str = ""
) -> bytes:
    """The ``search_tools`` answer as a JSON object: hits per query, best first, each tool described once.

    ``note`` is what else the model should know about the list.
    """
    k = min(arguments.limit or policy.limit, policy.max_limit)
    if not len(index.catalogue):
        return slices.encode({"results": [], "note": "The server lists no tools for this caller."})
    try:
        rankings = index.search_many(arguments.queries, k, arguments.server).rankings
    except UnknownServer as unknown:
        return slices.encode(
            {"results": [], "note": "No such server.", "servers": list(unknown.servers)[:200]}
        )
    with_schema = _schema_hits(rankings, policy.schemas)
    shown: set[str] = set()
    results = []
    for query, ranking in zip(arguments.queries, rankings, strict=True):
        tools = [_hit(hit, with_schema, shown, policy) for hit in ranking]
        result: Members = {} if len(rankings) == 1 else {"query": slices.quote(query[:120])}
        result["tools"] = slices.join_array(tools)
        if not ranking:
            result["note"] = slices.quote(NOTHING)
        results.append(slices.join(result))
    answer: Members = {"results": slices.join_array(results)}
    if notes := " ".join(filter(None, ("" if index.catalogue.complete else INCOMPLETE, note))):
        answer["note"] = slices.quote(notes)
    encoded = slices.join(answer)
    if len(encoded) > limit_bytes and k > 1:
        smaller = SearchArguments(arguments.queries, k // 2, arguments.server)
        return search(smaller, index, policy, limit_bytes, note)
    return encoded


def _schema_hits(rankings: Sequence[Sequence[Hit]], most: int) -> frozenset[str]:
    """The best hits of all queries: every first place, then every second place, until ``most``."""
    chosen: dict[str, None] = {}
    for place in range(max(map(len, rankings), default=0)):
        for ranking in rankings:
            if place < len(ranking) and len(chosen) < most:
                chosen.setdefault(ranking[place].tool.name)
    return frozenset(chosen)


def _hit(hit: Hit, with_schema: frozenset[str], shown: set[str], policy: Search) -> bytes:
    tool = hit.tool
    if tool.name in shown:
        return slices.join({"name": slices.quote(tool.name)})
    shown.add(tool.name)
    return _rendered(ByDigest(tool), policy.description_chars, tool.name in with_schema)


@lru_cache(maxsize=20_000)
def _rendered(key: ByDigest[Tool], chars: int, with_schema: bool) -> bytes:
    tool = key.value
    parts: Members = {"name": slices.quote(tool.name)}
    description = one_line(tool.description or tool.title, chars)
    if description:
        parts["description"] = slices.quote(description)
    parts["call"] = slices.quote(CALL_FOR[tool.tool_class])
    parts["flags"] = slices.encode(flags(tool))
    if with_schema:
        schema = slim_schema(tool.input_schema)
        if len(schema) <= _MAX_SCHEMA:
            parts["inputSchema"] = schema
    return slices.join(parts)


def flags(tool: Tool) -> list[str]:
    """The annotations that hold; ``destructive`` and ``idempotent`` mean nothing on a read-only tool."""
    hints = tool.annotations
    held = [
        ("read_only", hints.read_only),
        ("destructive", hints.destructive and not hints.read_only),
        ("idempotent", hints.idempotent and not hints.read_only),
        ("open_world", hints.open_world),
    ]
    return [name for name, holds in held if holds]


def describe(arguments: DescribeArguments, catalogue: Catalogue, limit_bytes: int) -> tuple[bytes, bool]:
    """The ``describe_tool`` answer as a JSON object, and whether any tool was found."""
    found: list[bytes] = []
    missing: list[bytes] = []
    used = 0
    for name in arguments.names:
        tool = catalogue.get(name)
        if tool is None:
            missing.append(_missing(name, catalogue))
            continue
        part = _description(tool)
        used += len(part)
        if used > limit_bytes and found:
            part = slices.encode(
                {"name": name, "note": "left out, the answer would be too large: ask for it alone"}
            )
        found.append(part)
    answer: Members = {"tools": slices.join_array(found)}
    if missing:
        answer["unknown"] = slices.join_array(missing)
    if not catalogue.complete:
        answer["note"] = slices.quote(INCOMPLETE)
    return slices.join(answer), bool(found)


def _description(tool: Tool) -> bytes:
    raw = slices.members(tool.raw) if not _repeats(tool.raw) else {}
    parts: Members = {"name": slices.quote(tool.name)}
    parts |= {key: raw[key] for key in _DESCRIBED if key in raw}
    parts["inputSchema"] = tool.input_schema
    parts["call"] = slices.quote(CALL_FOR[tool.tool_class])
    parts["flags"] = slices.encode(flags(tool))
    if tool.task_support == "required":
        parts["note"] = slices.quote("Runs only as a task: call it with task execution, or it is refused.")
    elif tool.app:
        parts["note"] = slices.quote("Has a user interface that calls through call_* do not show.")
    return slices.join(parts)


def _repeats(raw: bytes) -> bool:
    try:
        slices.members(raw)
    except ValueError:
        return True
    return False


def _missing(name: str, catalogue: Catalogue) -> bytes:
    near = suggest(name, catalogue).names
    return slices.encode({"name": name[:200], "nearest": list(near)} if near else {"name": name[:200]})


def unknown_tool(name: str, catalogue: Catalogue) -> str:
    """Why a ``call_*`` of this name cannot be made, and what may have been meant."""
    if name in NAMES:
        return f"{name} cannot be called through another call tool: call it directly."
    near = suggest(name, catalogue)
    text = f"There is no tool named {name[:200]!r}."
    if near.meant is not None and (tool := catalogue.get(near.meant)) is not None:
        schema = slim_schema(tool.input_schema).decode()
        return (
            f"{text} Did you mean {tool.name!r}? Use {CALL_FOR[tool.tool_class]}. Its inputSchema: {schema}"
        )
    if near.names:
        return f"{text} Nearest names: {', '.join(near.names)}. Use search_tools to find the right one."
    return f"{text} Use search_tools to find it."


def wrong_class(tool: Tool, used: str) -> str:
    right = CALL_FOR[tool.tool_class]
    kind = {"read": "read-only", "write": "writing, not destructive"}.get(
        tool.tool_class, "destructive or not classified by its server"
    )
    return f"{tool.name!r} is {kind}: use {right}, not {used}."


def call_problem(meta: Meta, tool: Tool, *, task: bool) -> str:
    """Why this call must not be made; empty when it may."""
    if tool.tool_class is not CLASS_OF[meta]:
        return wrong_class(tool, meta)
    if task and tool.task_support == "forbidden":
        return f"{tool.name!r} cannot run as a task: call it without task execution."
    return ""


def invalid_arguments(tool: Tool, problems: Sequence[str], note: str) -> str:
    """What is wrong with the arguments, then the schema."""
    lines = [
        f"The arguments do not fit {tool.name!r}, so it was not called:",
        *(f"- {text}" for text in problems),
    ]
    if note:
        lines.append(f"({note}.)")
    return "\n".join([*lines, _schema_line(tool)])


def refused_arguments(tool: Tool) -> str:
    """Added to what a server says about arguments it does not take."""
    return _schema_line(tool)


def gone(tool: Tool) -> str:
    """Added when a server no longer knows a tool that was just listed."""
    return f"{tool.name!r} is gone from its server; the tool list is being read again. Use search_tools."


def no_result(tool: Tool, status: int) -> str:
    """Stands in for the answer to a call that changes things and got none."""
    repeat = (
        "The server marks the tool idempotent, so making the same call again is safe."
        if tool.annotations.idempotent
        else "The server does not mark the tool idempotent: find out with a read tool before calling again."
    )
    return f"{tool.name!r} got no result (HTTP {status}). It may or may not have run. {repeat}"


def _schema_line(tool: Tool) -> str:
    schema = slim_schema(tool.input_schema)
    if len(schema) > _MAX_SCHEMA:
        return "Its inputSchema is long: see describe_tool."
    return f"Its inputSchema: {schema.decode()}"
