"""What the stand-in reads in agentgateway's configuration file; what it does not know it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extproc.exchange.messages import BodyMode, Dialect
from tests.gateway.config import Config

BODY_MODES = {
    "none": BodyMode.NONE,
    "buffered": BodyMode.BUFFERED,
    "bufferedPartial": BodyMode.BUFFERED_PARTIAL,
    "fullDuplexStreamed": BodyMode.FULL_DUPLEX,
}
EXPRESSIONS = frozenset({"jwt.sub", "jwt.rawToken.unredacted()"})
POST_ONLY = 'request.method == "POST"'
DEFAULT_BUFFER = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Policy:
    """One extProc policy.  ``methods`` empty: every request."""

    host: str
    methods: frozenset[str]
    config: Config
    attributes: Mapping[str, str]
    """Attribute name to a CEL expression of EXPRESSIONS."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """mcpAuthentication, strict, with the keys in a file."""

    issuer: str
    audiences: tuple[str, ...]
    keys: Path
    resource: str


@dataclass(frozen=True, slots=True)
class Route:
    paths: frozenset[str]
    policy: Policy | None
    authentication: Authentication | None
    targets: Mapping[str, str]
    """Target name to MCP URL."""


@dataclass(frozen=True, slots=True)
class Bind:
    port: int
    routes: tuple[Route, ...]


def read(document: Mapping[str, Any]) -> tuple[Bind, ...]:
    """Raises ValueError for what the stand-in cannot do, KeyError for what has to be there."""
    http = document.get("frontendPolicies", {}).get("http", {})
    limit = int(http.get("maxBufferSize", DEFAULT_BUFFER))
    return tuple(_bind(bind, limit) for bind in document["binds"])


def _bind(bind: Mapping[str, Any], limit: int) -> Bind:
    (listener,) = bind["listeners"]
    return Bind(bind["port"], tuple(_route(route, limit) for route in listener["routes"]))


def _route(route: Mapping[str, Any], limit: int) -> Route:
    policies = dict(route.get("policies", {}))
    policies.pop("authorization", None)
    chosen = policies.pop("extProc", None)
    asked = policies.pop("mcpAuthentication", None)
    if policies:
        raise ValueError(f"the stand-in has no {', '.join(policies)}")
    ((backend),) = route["backends"]
    targets = {each["name"]: each["mcp"]["host"] for each in backend["mcp"]["targets"]}
    paths = frozenset(match["path"]["exact"] for match in route["matches"])
    policy = None if chosen is None else _policy(chosen, limit)
    return Route(paths, policy, None if asked is None else _authentication(asked), targets)


def _authentication(policy: Mapping[str, Any]) -> Authentication:
    if policy["mode"] != "strict":
        raise ValueError("the stand-in has mode strict only")
    keys, resource = Path(policy["jwks"]["file"]), policy["resourceMetadata"]["resource"]
    return Authentication(policy["issuer"], tuple(policy["audiences"]), keys, resource)


def _policy(policy: Mapping[str, Any], limit: int) -> Policy:
    methods: frozenset[str] = frozenset()
    if "conditional" in policy:
        (policy,) = policy["conditional"]
        if policy["condition"] != POST_ONLY:
            raise ValueError(f"the stand-in cannot evaluate {policy['condition']}")
        methods = frozenset({"POST"})
    attributes = policy.get("requestAttributes", {})
    if unknown := set(attributes.values()) - EXPRESSIONS:
        raise ValueError(f"the stand-in cannot evaluate {', '.join(unknown)}")
    if policy.get("failureMode", "failClosed") != "failClosed":
        raise ValueError("the stand-in always fails closed")
    options = policy.get("processingOptions", {})

    def sent(name: str) -> bool:
        return bool(options.get(name, "send") == "send")

    config = Config(
        dialect=Dialect.AGENTGATEWAY,
        request_headers=sent("requestHeaderMode"),
        request_body=BODY_MODES[options.get("requestBodyMode", "fullDuplexStreamed")],
        response_headers=sent("responseHeaderMode"),
        response_body=BODY_MODES[options.get("responseBodyMode", "fullDuplexStreamed")],
        request_trailers=sent("requestTrailerMode"),
        response_trailers=sent("responseTrailerMode"),
        allow_mode_override=bool(options.get("allowModeOverride", False)),
        buffer_limit=limit,
    )
    return Policy(policy["host"], methods, config, attributes)
