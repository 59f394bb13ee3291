"""What a check says, and every check there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from extproc.gateway.doctor.located import At


class Severity(IntEnum):
    """Worst first."""

    LEAK = 0
    """Somebody sees or does what the gateway should prevent."""
    BROKEN = 1
    """Requests fail, or the filter does nothing."""
    RISK = 2
    """Works until a list is long, a call is slow or traffic is high."""
    NOTE = 3
    """Worth knowing; does not change the exit code."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One check.  ``consequence`` is what happens when it is left as it is."""

    severity: Severity
    title: str
    consequence: str


@dataclass(frozen=True, slots=True)
class Finding:
    """``mend`` is the line to write, in the file's own words."""

    id: str
    at: At
    what: str
    mend: str

    @property
    def rule(self) -> Rule:
        return RULES[self.id]

    @property
    def where(self) -> str:
        return f"{self.at.source}:{self.at.line}"


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Sorted by severity, then place; the same finding at the same place once."""
    unique = {(finding.id, finding.at.source, finding.at.path, finding.what): finding for finding in findings}
    return sorted(
        unique.values(), key=lambda each: (each.rule.severity, each.at.source, each.at.line, each.id)
    )


_L, _B, _R, _N = Severity.LEAK, Severity.BROKEN, Severity.RISK, Severity.NOTE

RULES: Final[Mapping[str, Rule]] = {
    "failure-mode-open": Rule(
        _L,
        "the gateway goes on without the processor",
        "when the processor is down, clients see the whole tool list and call any tool directly",
    ),
    "raw-route-open": Rule(
        _L,
        "the unfiltered route is reachable from outside",
        "whoever reaches the gateway can go round the six tools and the rules for calling",
    ),
    "raw-route-anonymous": Rule(
        _L,
        "the unfiltered route authenticates nobody, the filtered one does",
        "lists and call_read_tools run there for nobody in particular: each caller reads what any may read",
    ),
    "processor-before-auth": Rule(
        _L,
        "the processor runs before authentication or authorization",
        "a search that the processor answers by itself is answered for callers nobody has checked",
    ),
    "redacted-attribute": Rule(
        _L,
        "an attribute is redacted",
        "it is one fixed text for everybody, so every caller looks the same and shares one catalogue",
    ),
    "no-filter": Rule(
        _B,
        "no tool-search filter in this file",
        "MCP traffic passes unchanged; clients see the whole tool list",
    ),
    "filter-off": Rule(
        _B, "the filter is switched off", "MCP traffic passes unchanged; clients see the whole tool list"
    ),
    "request-body-mode": Rule(
        _B,
        "request bodies do not reach the processor whole",
        "searches and calls cannot be rewritten; the processor refuses such a stream or never sees it",
    ),
    "response-body-mode": Rule(
        _B,
        "responses arrive in a mode that cannot work",
        "tool lists are not replaced, or server-sent events are held back until the stream ends",
    ),
    "response-body-buffered": Rule(
        _R,
        "every response is buffered",
        "progress and questions of a running call are held back until it ends; some calls never end",
    ),
    "mixed-duplex": Rule(
        _B,
        "full duplex on one side only",
        "mode_override cannot leave or enter full duplex, so the other side is never read",
    ),
    "duplex-trailers": Rule(
        _B,
        "full duplex without trailers",
        "a body that ends with trailers never ends; Envoy refuses the configuration",
    ),
    "request-headers-skipped": Rule(
        _B,
        "request headers are not sent",
        "no credential tells callers apart, and a rewritten body may not change headers: calls fail",
    ),
    "response-headers-skipped": Rule(
        _B,
        "response headers are not sent",
        "the processor is never asked which response to read: tool lists pass unchanged",
    ),
    "mode-override-off": Rule(
        _B,
        "mode_override is not allowed",
        "the processor's request for a response body is ignored: tool lists pass unchanged",
    ),
    "override-modes-lack-ours": Rule(
        _B,
        "allowed_override_modes lacks the processor's",
        "its request for a response body is ignored: tool lists pass unchanged",
    ),
    "immediate-response-off": Rule(
        _B, "local answers are switched off", "search and describe answers are dropped and the stream is cut"
    ),
    "observability-mode": Rule(_B, "the filter only watches", "whatever the processor answers is ignored"),
    "not-grpc": Rule(
        _B, "the filter does not speak gRPC", "the processor serves gRPC only: every request fails"
    ),
    "cluster-missing": Rule(_B, "the processor's cluster does not exist", "Envoy refuses the configuration"),
    "cluster-http1": Rule(
        _B, "the processor's cluster speaks HTTP/1.1", "gRPC needs HTTP/2: every request fails with 500"
    ),
    "processor-after-mcp": Rule(
        _B,
        "the processor runs after the MCP router",
        "it never sees a request: an MCP router or router ends the chain",
    ),
    "mcp-parser-order": Rule(
        _B,
        "the MCP parser reads the request before it is rewritten",
        "mcp_router routes by what the client sent, search_tools or call_read_tool, and knows no such tool",
    ),
    "mcp-parser-missing": Rule(
        _B, "mcp_router has no mcp filter in front", "the router has nothing to route by: every request fails"
    ),
    "two-filters": Rule(
        _B,
        "the filter stands there twice",
        "the second one searches the first one's six tools; calls are rewritten twice and refused",
    ),
    "catalogue-loop": Rule(
        _B,
        "catalog.url leads into the filtered route",
        "the processor refuses to learn its own six tools, so it knows only the lists that pass by",
    ),
    "catalogue-nowhere": Rule(
        _B,
        "catalog.url leads nowhere in this file",
        "side fetches fail; cold calls and call_read_tools do not work",
    ),
    "route-misses-filter": Rule(
        _B,
        "a route speaks to a filter of another name",
        "Envoy drops it without a word: the filter works on the raw route, profiles are not chosen",
    ),
    "identity-lost": Rule(
        _B,
        "authentication removes the token and passes no identity on",
        "every caller looks anonymous: nothing is cached, and every search fetches the whole list again",
    ),
    "catalogue-token-lost": Rule(
        _B,
        "the processor has no token for the catalogue route",
        "authentication takes it off before the processor sees it: each side fetch is answered with 401",
    ),
    "mutation-rules": Rule(
        _B,
        "mutation_rules forbid the processor's header changes",
        "a rewritten body keeps its old content-length: Envoy answers 500",
    ),
    "headers-withheld": Rule(
        _B,
        "forward_rules withhold headers the processor needs",
        "callers cannot be told apart, or MCP headers cannot be checked and rewritten",
    ),
    "backend-policy": Rule(
        _B, "extProc is attached to a backend", "agentgateway does not run it there: the whole list is served"
    ),
    "wrong-spelling": Rule(
        _B, "a name or value this gateway does not know", "the gateway refuses the file, or ignores the line"
    ),
    "bad-address": Rule(
        _B, "the processor's address cannot be used", "the gateway cannot connect to the processor"
    ),
    "tls-mismatch": Rule(
        _B,
        "TLS on one side only",
        "the handshake between gateway and processor fails: every request is a 500",
    ),
    "probe-misses-socket": Rule(
        _B,
        "a probe looks at a port the processor does not serve",
        "the pod never becomes ready, or is killed while it works",
    ),
    "unknown-flag": Rule(
        _B, "a flag or setting the processor does not know", "the container stops at once, exit code 2"
    ),
    "message-timeout": Rule(
        _R,
        "the gateway waits too briefly for the processor",
        "the first search over a large tool list is answered with 504 while the processor still works",
    ),
    "stream-timeout": Rule(
        _R, "the gRPC stream has a deadline", "a longer request or stream is cut off in the middle"
    ),
    "route-timeout": Rule(
        _R,
        "a route on the MCP path has a short timeout",
        "longer tool calls and streams are cut off with 504",
    ),
    "request-timeout": Rule(
        _R,
        "a request may take for ever to arrive",
        "requests that are sent by half use up limits.exchanges, and then everybody is refused",
    ),
    "buffer-limit": Rule(
        _R,
        "the body limit is too small",
        "a larger upload is answered with 413, a longer tool list with 500",
    ),
    "mcp-body-limit": Rule(
        _R,
        "the mcp filter parses only the beginning of a request",
        "a call with long arguments is routed by half a message or rejected",
    ),
    "compressed-responses": Rule(
        _R,
        "responses are compressed before the processor sees them",
        "each tool list has to be unpacked again; a coding the processor does not know passes unread",
    ),
    "few-streams": Rule(
        _N,
        "the circuit breaker allows few streams",
        "one more request at once than that is answered with 500",
    ),
    "duplex-get": Rule(
        _R,
        "full duplex on a route with GET streams",
        "each client's idle GET stream holds a gRPC stream of the processor for hours",
    ),
    "attributes-not-used": Rule(
        _R,
        "attributes are sent but caller.attributes does not name them",
        "they are ignored; callers are told apart by their tokens or not at all",
    ),
    "attributes-missing": Rule(
        _N,
        "no verified claim is passed on",
        "the token itself tells callers apart: right, but each refreshed token learns its catalogue anew",
    ),
    "no-probe": Rule(
        _R, "the processor has no readiness probe", "requests go to a replica that is still loading its model"
    ),
    "short-grace": Rule(
        _R,
        "the pod is killed before it has drained",
        "requests in flight at a rollout end in errors",
    ),
    "duplicate-key": Rule(_R, "a key stands there twice", "only the last one counts"),
}
