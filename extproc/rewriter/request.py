"""Requests: from a route and what is known about the caller to a decision."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Catalogue, Tool, ToolClass
from extproc.catalog.parse import is_hidden, is_pinned, matches
from extproc.exchange.messages import Forward, Headers, PassThrough, Reply
from extproc.mcp import headers, revisions, slices
from extproc.rewriter import answers, arguments, plans, rpc
from extproc.rewriter.arguments import CallArguments, DescribeArguments, Problem, Reading, SearchArguments
from extproc.rewriter.decisions import (
    CallMany,
    Doubted,
    Heavy,
    NeedCatalogue,
    OnRequest,
    ReadCall,
)
from extproc.rewriter.meta_tools import CLASS_OF, NAMES, Meta, listed
from extproc.rewriter.routes import CallsDirect, CallsMeta, CallsTool, Lists, Opens
from extproc.schema import check
from extproc.schema.check import Checker
from extproc.settings import Settings
from extproc.store.views import Cold, View, Warm

LIST_TTL_MS = 300_000


class Known(msgspec.Struct, frozen=True):
    """Everything beside the request itself that a decision may depend on.

    ``fetched`` is true when a side fetch was already tried for this request; ``route`` whether one can be.
    ``agreed`` is what every list shown to nameless callers of this route says of a tool; it may vouch for the
    class of a call and for nothing else.
    """

    caller: CallerContext
    view: View
    settings: Settings
    route: bool = False
    fetched: bool = False
    agreed: Callable[[CallerContext, str], Tool | None] = lambda caller, name: None
    checker: Checker | None = None
    aside: bool = False
    """Whether this runs in a thread of its own and may take long."""
    tally: Callable[[str], None] = lambda _: None
    """Told the reason, a short code, whenever arguments could not be checked in full."""
    note: Callable[[CallerContext, Catalogue], str] = lambda caller, catalogue: ""
    """What a search answer has to add about a list; empty for most."""


def decide(route: Opens | Lists | CallsMeta | CallsTool | CallsDirect, known: Known) -> OnRequest:
    match route:
        case CallsTool():
            return _call(route.rpc, route.tool, route.call, known)
        case Opens(call):
            if not known.settings.instructions.enabled and not known.route:
                return PassThrough() if call.unchanged is None else Forward(call.unchanged)
            return Forward(call.unchanged, plan=plans.Guide(call, known.caller))
        case Lists(call):
            return _list(call, known)
        case CallsDirect(call, name):
            decision = _direct(call, name, known)
            passes = isinstance(decision, PassThrough) and call.unchanged is not None
            return Forward(call.unchanged) if passes else decision
        case CallsMeta(call, Meta.SEARCH, raw):
            return _search(call, arguments.search(raw), known)
        case CallsMeta(call, Meta.DESCRIBE, raw):
            return _describe(call, arguments.describe(raw), known)
        case CallsMeta(call, _, raw):
            return _call_many(call, raw, known)


def notified(name: str, settings: Settings) -> PassThrough | Reply:
    """A call without an id passes where direct calls do, and is judged by its name only."""
    if settings.calls.direct == "allow" and not is_hidden(name, settings.tools):
        return PassThrough()
    return rpc.http_error(400, b"null", rpc.INVALID_REQUEST, "Invalid request: tools/call must have an id")


def listen(caller: CallerContext) -> Forward:
    """A stream that is watched for changes of the tool list."""
    return Forward(plan=plans.Listen(caller))


def resume(caller: CallerContext) -> Forward:
    """A resumed stream passes, but a list replayed on it does not."""
    return Forward(plan=plans.Replay(caller.revision, caller))


def _list(call: rpc.Rpc, known: Known) -> OnRequest:
    if call.params.get("cursor", b"null") != b"null":
        return rpc.error_reply(call, rpc.INVALID_PARAMS, "Unknown cursor: this list has one page")
    match known.view:
        case Warm(catalogue, _, age, True) if _is_recent(age, known) and _may_answer(call):
            return Reply(list_answer(call, listed_tools(known.settings, catalogue)))
    return _ask_list(call, plans.List(call, known.caller))


def _is_recent(age: float, known: Known) -> bool:
    """Clients that list before every call do not make the server list every time."""
    return age < known.settings.catalog.refresh_after


def _search(call: rpc.Rpc, parsed: SearchArguments | Problem, known: Known) -> OnRequest:
    if isinstance(parsed, Problem):
        return Reply(rpc.tool_error(call, parsed.text))
    match known.view:
        case Warm(_, index, _, fresh) if (fresh or known.route) and _may_answer(call):
            settings, note = known.settings, known.note(known.caller, index.catalogue)
            answer = answers.search(parsed, index, settings.search, settings.limits.answer, note)
            return Reply(found(call, answer))
        case Cold() if _can_fetch(call, known):
            return NeedCatalogue()
    return _ask_list(call, plans.Search(call, known.caller, parsed))


def _describe(call: rpc.Rpc, parsed: DescribeArguments | Problem, known: Known) -> OnRequest:
    if isinstance(parsed, Problem):
        return Reply(rpc.tool_error(call, parsed.text))
    match known.view:
        case Warm(catalogue, _, _, fresh) if (fresh or known.route) and _may_answer(call):
            text, any_found = answers.describe(parsed, catalogue, known.settings.limits.answer)
            answer = Reply(found(call, text, error=not any_found))
            complete = all(name in catalogue.by_name for name in parsed.names)
            return answer if complete else _doubted(answer, known)
        case Cold() if _can_fetch(call, known):
            return NeedCatalogue()
    return _ask_list(call, plans.Describe(call, known.caller, parsed))


def _direct(call: rpc.Rpc, name: str, known: Known) -> OnRequest:
    settings = known.settings
    hidden = is_hidden(name, settings.tools)
    if settings.calls.direct == "allow":
        unknown = f"Unknown tool: {name[:200]}"
        return rpc.error_reply(call, rpc.INVALID_PARAMS, unknown) if hidden else PassThrough()
    refused = rpc.error_reply(
        call,
        rpc.INVALID_PARAMS,
        f"Unknown tool: {name[:200]}. Call tools found with search_tools through call_read_tool, "
        "call_write_tool or call_destructive_tool",
    )
    if hidden:
        return refused
    match known.view:
        case Warm(catalogue):
            tool = catalogue.get(name)
            return PassThrough() if tool is not None and is_pinned(tool, settings.tools) else refused
        case Cold():
            if settings.tools.pin and matches(name, settings.tools.pin):
                return PassThrough()
            if settings.tools.pin_apps and known.route and not known.fetched:
                return NeedCatalogue()
            return refused


def _call_many(call: rpc.Rpc, raw: bytes, known: Known) -> OnRequest:
    most = known.settings.calls.max_batch
    if not known.route or not most:
        text = "call_read_tools is not offered here: call the tools one by one with call_read_tool"
        return Reply(rpc.tool_error(call, text))
    parsed = arguments.many(raw, most)
    if isinstance(parsed, Problem):
        return Reply(rpc.tool_error(call, parsed.text))
    if len(parsed) == 1:
        return _call(call, Meta.CALL_READ, parsed[0], known)
    match known.view:
        case Cold() if known.fetched:
            return Reply(
                rpc.tool_error(call, "The tool list could not be read from the server. Try again later.")
            )
        case Cold():
            return NeedCatalogue()
        case Warm(catalogue):
            return _read_calls(call, parsed, catalogue, known)


def _read_calls(
    call: rpc.Rpc, entries: tuple[CallArguments, ...], catalogue: Catalogue, known: Known
) -> OnRequest:
    """All entries, or a refusal that names every one that is no read-only tool."""
    calls = []
    problems = []
    for number, entry in enumerate(entries, 1):
        tool = catalogue.get(entry.name)
        if tool is None:
            problems.append(f"Call {number}: {answers.unknown_tool(entry.name, catalogue)}")
        elif tool.tool_class is not ToolClass.READ:
            problems.append(f"Call {number}: {answers.wrong_class(tool, Meta.CALL_READ_MANY)}")
        else:
            match _checked(entry, tool, known):
                case Heavy():
                    return Heavy()
                case Problem(text):
                    problems.append(f"Call {number}: {text}")
                case Reading(raw):
                    calls.append(ReadCall(tool, raw, _made_headers(call, tool, raw)))
    if problems:
        return Reply(rpc.tool_error(call, "No call was made. " + " ".join(problems)))
    return CallMany(call, tuple(calls))


def _call(call: rpc.Rpc, meta: Meta, parsed: CallArguments | Problem, known: Known) -> OnRequest:
    if isinstance(parsed, Problem):
        return Reply(rpc.tool_error(call, parsed.text))
    match known.view:
        case Warm() as warm:
            catalogue = warm.catalogue
            tool = catalogue.get(parsed.name)
            if tool is None and not catalogue.complete and known.route and not known.fetched:
                return NeedCatalogue()
            if tool is None:
                missing = Reply(rpc.tool_error(call, answers.unknown_tool(parsed.name, catalogue)))
                return missing if parsed.name in NAMES else _doubted(missing, known)
            return _call_known(call, meta, parsed, tool, known)
        case Cold():
            if known.route and not known.fetched:
                return NeedCatalogue()
            agreed = known.agreed(known.caller, parsed.name) if known.caller.key is None else None
            if agreed is not None and agreed.tool_class is CLASS_OF[meta]:
                # Others were shown this definition: it routes the call, and not a word of it is answered.
                raw = parsed.arguments
                return _rewritten(call, parsed.name, raw, _made_headers(call, agreed, raw), None)
            if _is_retry(call):
                # The first round was checked; the server holds its state under exactly this name.
                return _rewritten(call, parsed.name, parsed.arguments, (), None)
            return _ask_list(call, plans.AskAgain(call, known.caller, meta, parsed))


def _doubted(reply: Reply, known: Known) -> Reply | Doubted:
    """A name that is not in a list of some age; a list just read is believed."""
    match known.view:
        case Warm(age=age) if not _is_recent(age, known):
            return Doubted(reply)
        case _:
            return reply


def _call_known(call: rpc.Rpc, meta: Meta, parsed: CallArguments, tool: Tool, known: Known) -> OnRequest:
    if problem := answers.call_problem(meta, tool, task="task" in call.params):
        return Reply(rpc.tool_error(call, problem))
    match _checked(parsed, tool, known):
        case Reading() as reading:
            raw = reading.arguments
            plan = plans.Watch(call, known.caller, tool) if known.settings.calls.watch_results else None
            return _rewritten(call, tool.name, raw, _made_headers(call, tool, raw), plan)
        case Problem(text):
            return Reply(rpc.tool_error(call, text))
        case Heavy():
            return Heavy()


def _checked(parsed: CallArguments, tool: Tool, known: Known) -> Reading | Problem | Heavy:
    """The first reading that the tool's schema accepts, or what is wrong with the likeliest."""
    if known.checker is None or not known.settings.calls.validate_arguments:
        return parsed.readings[0]
    refused: Problem | None = None
    for reading in parsed.readings:
        match known.checker.check(tool.input_schema, tool.digest, reading.arguments, aside=known.aside):
            case check.Valid() as valid:
                if valid.skipped:
                    known.tally("pattern")
                return reading
            case check.Heavy():
                return Heavy()
            case check.Invalid(problems):
                refused = refused or Problem(answers.invalid_arguments(tool, problems, reading.note))
            case check.Unchecked(reason):
                known.tally(reason)
                return reading
    return refused or parsed.readings[0]


def _made_headers(call: rpc.Rpc, tool: Tool, raw: bytes) -> Headers:
    if not call.modern or b"x-mcp-header" not in tool.input_schema:
        return ()
    try:
        return headers.param_headers(headers.param_annotations(slices.value(tool.input_schema)), raw)
    except ValueError:
        return ()


def _rewritten(call: rpc.Rpc, name: str, raw: bytes, made: Headers, plan: plans.Watch | None) -> Forward:
    """The direct call: only ``name`` and ``arguments`` change, everything else keeps its bytes."""
    body = call.with_params({**call.params, "name": slices.quote(name), "arguments": raw})
    set_, remove = _routing_headers(call, "tools/call", name)
    if made:
        kept = {header for header, _ in made}
        remove = tuple([header for header in remove if header not in kept])
    return Forward(body, (*set_, *made), remove, plan)


def _ask_list(call: rpc.Rpc, plan: plans.Plan) -> Forward:
    """The request turned into ``tools/list``: integer id, no cursor, ``_meta`` kept."""
    params = {"_meta": call.params["_meta"]} if "_meta" in call.params else {}
    if call.method == "tools/list":
        params = {key: value for key, value in call.params.items() if key != "cursor"}
    set_, remove = _routing_headers(call, "tools/list", None)
    body = call.with_params(params, method="tools/list", id=call.upstream_id)
    if call.method == "tools/list" and call.upstream_id == call.id and params == call.params:
        return Forward(call.unchanged, set_, remove, plan)
    return Forward(body, set_, remove, plan)


def _routing_headers(call: rpc.Rpc, method: str, name: str | None) -> tuple[Headers, tuple[str, ...]]:
    """``Mcp-Method`` and ``Mcp-Name`` for the rewritten body.

    Legacy servers know neither, but agentgateway checks them whenever they are there, so what a client sent
    is taken away.
    """
    if not call.modern:
        return (), call.routing_headers
    set_: Headers = (("mcp-method", method),)
    if name is not None:
        set_ = (*set_, ("mcp-name", headers.encode_value(name)))
    kept = [header for header, _ in set_]
    return set_, tuple([header for header in call.routing_headers if header not in kept])


def _is_retry(call: rpc.Rpc) -> bool:
    return "requestState" in call.params or "inputResponses" in call.params


def _may_answer(call: rpc.Rpc) -> bool:
    """A revision nobody knows is for the server to refuse, not for us to answer."""
    return revisions.is_known(call.revision)


def _can_fetch(call: rpc.Rpc, known: Known) -> bool:
    """Through the route one fetch serves all that wait, and reads every page.

    What is fetched for a caller that is never remembered would be used once: its own request does as well.
    """
    return known.route and not known.fetched and known.caller.key is not None and _may_answer(call)


def listed_tools(settings: Settings, catalogue: Catalogue | None) -> bytes:
    """The ``tools`` array of this profile; ``call_read_tools`` needs the catalogue route."""
    batch = settings.calls.max_batch if settings.catalog.url else 0
    return listed(catalogue, settings.tools, batch, cover=settings.search.overview)


def list_answer(call: rpc.Rpc, tools: bytes, meta: bytes | None = None) -> bytes:
    result = {"tools": tools}
    if meta is not None:
        result["_meta"] = meta
    if call.modern:
        result |= {
            "resultType": b'"complete"',
            "ttlMs": str(LIST_TTL_MS).encode(),
            "cacheScope": b'"private"',
        }
    return rpc.result_body(call.id, result)


def found(call: rpc.Rpc, answer: bytes, *, error: bool = False) -> bytes:
    return rpc.tool_result(call, answer, error=error, structured=None if error else answer)
