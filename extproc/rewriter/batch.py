"""One result out of several (``call_read_tools``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from extproc.mcp import revisions, slices
from extproc.mcp.slices import Members
from extproc.rewriter import rpc

BYTES_PER_TOKEN = 4
"""What a token is worth in bytes, on average, when results are cut."""


@dataclass(frozen=True, slots=True)
class Answered:
    """``result`` is the raw ``CallToolResult``; ``outdated`` says that it shows a changed tool list."""

    name: str
    result: bytes = field(repr=False)
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """The call has no result; ``reason`` is for the model."""

    name: str
    reason: str
    outdated: bool = False


Entry: TypeAlias = Answered | Broken


def merge(call: rpc.Rpc, entries: Sequence[Entry], tokens: int) -> bytes:
    """A ``CallToolResult`` with every entry's blocks in order, each under a line that says which call it is.

    Each entry may use an even share of ``tokens`` and what others left; blocks past that are cut with a note.
    """
    left = tokens * BYTES_PER_TOKEN
    blocks: list[bytes] = []
    structured: list[bytes] = []
    failed = 0
    for number, entry in enumerate(entries, 1):
        share = left // (len(entries) - number + 1)
        made, used, error, content = _entry(entry, share)
        left -= used
        failed += error
        state = "error" if error else "ok"
        blocks.append(_text(f"Call {number} of {len(entries)}, {entry.name}: {state}"))
        blocks += made
        part: Members = {"name": slices.quote(entry.name), "isError": b"true" if error else b"false"}
        if content is not None:
            part["structuredContent"] = content
        structured.append(slices.join(part))
    result: Members = {"content": slices.join_array(blocks)}
    if revisions.has_structured_content(call.revision):
        result["structuredContent"] = slices.join({"results": slices.join_array(structured)})
    if failed == len(entries):
        result["isError"] = b"true"
    if call.modern:
        result["resultType"] = b'"complete"'
    return rpc.result_body(call.id, result)


def _entry(entry: Entry, share: int) -> tuple[list[bytes], int, bool, bytes | None]:
    """Blocks, bytes used, whether it failed, structured content."""
    if isinstance(entry, Broken):
        return [_text(entry.reason)], len(entry.reason), True, None
    try:
        result = slices.members(entry.result)
        blocks = slices.items(result.get("content", b"[]"))
    except ValueError:
        return [_text("The server's answer could not be read.")], 0, True, None
    if result.get("resultType", b'"complete"') != b'"complete"':
        return [_text("The tool asks for input: call it alone with call_read_tool.")], 0, True, None
    made: list[bytes] = []
    used = 0
    for block in blocks:
        room = share - used
        if len(block) <= room:
            made.append(block)
            used += len(block)
            continue
        cut = _cut(block, room)
        made.append(cut)
        used += len(cut)
        break
    content = result.get("structuredContent")
    if content is not None and used + len(content) > share:
        content = None
    used += len(content or b"")
    return made, used, result.get("isError") == b"true", content


def _cut(block: bytes, room: int) -> bytes:
    text = slices.string((slices.members_or_none(block) or {}).get("text")) or ""
    note = "[cut: the result is too large here; call the tool alone with call_read_tool]"
    kept = text.encode("utf-8", "replace")[: max(0, room)].decode("utf-8", "ignore")
    return _text(f"{kept}\n{note}" if kept else note)


def _text(text: str) -> bytes:
    return slices.join({"type": b'"text"', "text": slices.quote(text)})
