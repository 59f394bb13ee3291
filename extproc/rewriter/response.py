"""Answers: from the upstream's bytes to the client's."""

from __future__ import annotations

import re

from extproc.catalog.model import Catalogue, Tool
from extproc.catalog.parse import NotAToolList, parse_page
from extproc.exchange.messages import Keep, Replace, Response
from extproc.mcp import slices
from extproc.mcp.slices import Members
from extproc.rewriter import answers, plans, rpc
from extproc.rewriter.decisions import Changed, Learned, OnResponse, Outdated
from extproc.rewriter.guidance import combine
from extproc.rewriter.request import found, list_answer, listed_tools
from extproc.settings import Settings
from extproc.store.views import Warm

LOADED = "The tool list has just been loaded. Make the same call again."


def decide(response: Response, plan: plans.Plan, settings: Settings) -> OnResponse:
    """What becomes of an answer that was read; never raises on what a server sends."""
    if response.event and plans.says_changed(response.body):
        return Changed()
    data = _single(response.body)
    try:
        envelope = slices.members(data)
    except ValueError:
        return Keep() if response.status != 200 else Replace(plan.failure())
    match plan:
        case plans.Guide():
            return _guide(plan, envelope, settings)
        case plans.Watch():
            return _watch(plan, envelope)
        case plans.Listen():
            return Keep()
        case plans.Replay():
            return _replay(plan, envelope, settings)
        case _:
            return _listing(plan, envelope, settings)


def finish(learned: Learned, known: Warm, settings: Settings, note: str = "") -> Replace:
    """The client's answer once a list was committed; ``note`` is what a search has to add."""
    plan = learned.plan
    call = plan.rpc
    match plan:
        case plans.List():
            return finish_list(plan, learned.result, known.catalogue, settings)
        case plans.Search(arguments=arguments):
            answer = answers.search(arguments, known.index, settings.search, settings.limits.answer, note)
            return Replace(found(call, answer))
        case plans.Describe(arguments=names):
            answer, any_found = answers.describe(names, known.catalogue, settings.limits.answer)
            return Replace(found(call, answer, error=not any_found))
        case plans.AskAgain(meta=meta, arguments=parsed):
            tool = known.catalogue.get(parsed.name)
            if tool is None and known.catalogue.complete:
                return Replace(rpc.tool_error(call, answers.unknown_tool(parsed.name, known.catalogue)))
            problem = tool and answers.call_problem(meta, tool, task="task" in call.params)
            return Replace(rpc.tool_error(call, problem or LOADED))


def finish_list(plan: plans.List, result: bytes, catalogue: Catalogue, settings: Settings) -> Replace:
    """The six and what is pinned; ``_meta`` of the server's own result stays."""
    tools = listed_tools(settings, catalogue)
    return Replace(list_answer(plan.rpc, tools, slices.member(result, "_meta")))


def _listing(
    plan: plans.List | plans.Search | plans.Describe | plans.AskAgain, envelope: Members, settings: Settings
) -> OnResponse:
    """A list is learned only from the answer to the very request that was sent."""
    answers_us = envelope.get("id") == plan.rpc.upstream_id
    if "error" in envelope:
        if not answers_us or plan.rpc.id == plan.rpc.upstream_id:
            return Keep()
        return Replace(slices.join({**envelope, "id": plan.rpc.id}))
    result = envelope.get("result", b"")
    if not answers_us or not slices.is_object(result):
        return Replace(plan.failure())
    try:
        page = parse_page(result, settings.tools, modern=plan.rpc.modern, limit=settings.limits.tools)
    except NotAToolList:
        return Replace(plan.failure())
    return Learned(page, plan, result)


def _guide(plan: plans.Guide, envelope: Members, settings: Settings) -> OnResponse:
    result = envelope.get("result", b"")
    if not settings.instructions.enabled or not slices.is_object(result):
        return Keep()
    try:
        parts = slices.members(result)
        has_tools = slices.is_object(parts.get("capabilities")) and "tools" in slices.members(
            parts["capabilities"]
        )
    except ValueError:
        return Keep()
    if not has_tools:
        return Keep()
    original = slices.text(parts.get("instructions")) or ""
    text = combine(original, settings.instructions)
    if text == original:
        return Keep()
    parts["instructions"] = slices.quote(text)
    return Replace(slices.join({**envelope, "result": slices.join(parts)}))


def _watch(plan: plans.Watch, envelope: Members) -> OnResponse:
    """The server's own words stay; what a model needs to mend the call is added."""
    if envelope.get("id") != plan.rpc.id:
        return Keep()
    if "error" in envelope:
        return _watch_error(plan, envelope)
    changed = mended(envelope.get("result", b""), plan.tool)
    if changed is None:
        return Keep()
    result, outdated = changed
    body = slices.join({**envelope, "result": result})
    return Outdated(body) if outdated else Replace(body)


def mended(raw: bytes, tool: Tool) -> tuple[bytes, bool] | None:
    """A ``CallToolResult`` that is an error a model can mend, with what it needs added; None for any other.

    The second value says whether the error shows that the catalogue is out of date.
    """
    result = slices.members_or_none(raw)
    if result is None or result.get("isError") != b"true":
        return None
    try:
        blocks = slices.items(result.get("content", b"[]"))
    except ValueError:
        return None
    added = _hint(tool, _texts(blocks))
    if added is None:
        return None
    text, outdated = added
    block = slices.join({"type": b'"text"', "text": slices.quote(text)})
    result["content"] = slices.join_array([*blocks, block])
    return slices.join(result), outdated


def explained(code: int, message: str, tool: Tool) -> tuple[str, bool]:
    """A protocol error's message, with what a model needs added where the parameters are at fault."""
    if code != rpc.INVALID_PARAMS:
        return message, False
    text, outdated = _hint(tool, message) or (answers.refused_arguments(tool), False)
    return f"{message}\n{text}", outdated


def _watch_error(plan: plans.Watch, envelope: Members) -> OnResponse:
    error = slices.members_or_none(envelope["error"])
    if error is None or error.get("code") != b"-32602":
        return Keep()
    text, outdated = explained(rpc.INVALID_PARAMS, slices.string(error.get("message")) or "", plan.tool)
    error["message"] = slices.quote(text)
    body = slices.join({**envelope, "error": slices.join(error)})
    return Outdated(body) if outdated else Replace(body)


_UNKNOWN = re.compile(
    r"\b(?:unknown|no such|unrecognized|invalid) tool\b"
    r"|\btool\b[^.\n]{0,80}\b(?:not found|does not exist|unknown)\b",
    re.I,
)
_INVALID = re.compile(
    r"-32602|\b(?:invalid|missing|unexpected|unknown|required|bad|malformed)\b[^.\n]{0,40}"
    r"\b(?:param(?:eter)?s?|arguments?|inputs?|propert(?:y|ies)|fields?|keys?)\b"
    r"|\b(?:validation|schema)\b[^.\n]{0,30}\b(?:errors?|fail(?:ed|ure)?)\b"
    r"|\b(?:arguments?|param(?:eter)?s?|propert(?:y|ies)|fields?)\b[^.\n]{0,60}"
    r"\b(?:is|are) (?:required|missing|invalid)\b",
    re.I,
)
_LOOKED_AT = 4_000


def _hint(tool: Tool, text: str) -> tuple[str, bool] | None:
    """What to add to an error, and whether it shows that the catalogue is out of date."""
    text = text[:_LOOKED_AT]
    if _UNKNOWN.search(text):
        return answers.gone(tool), True
    if _INVALID.search(text):
        return answers.refused_arguments(tool), False
    return None


def _texts(blocks: list[bytes]) -> str:
    parts = (slices.string((slices.members_or_none(block) or {}).get("text")) for block in blocks[:8])
    return "\n".join(part for part in parts if part)


def _replay(plan: plans.Replay, envelope: Members, settings: Settings) -> OnResponse:
    """A list nobody waits for any more becomes the six; the client's id is the one it has."""
    call = rpc.Rpc(envelope.get("id", b"null"), "tools/list", {}, {}, plan.revision)
    return Replace(list_answer(call, listed_tools(settings, None)))


def _single(body: bytes) -> bytes:
    """The one message of a body; servers of 2025-03-26 may wrap it in an array."""
    if body.lstrip()[:1] != b"[":
        return body
    try:
        elements = slices.items(body)
    except ValueError:
        return body
    return elements[0] if len(elements) == 1 else body
