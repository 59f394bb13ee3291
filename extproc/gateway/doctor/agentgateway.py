"""Checks of agentgateway's own configuration file and of its Kubernetes policies' extProc."""

from __future__ import annotations

import re
from collections.abc import Iterator

from extproc.gateway.doctor import agentgateway_reach
from extproc.gateway.doctor.agentgateway_reach import Place
from extproc.gateway.doctor.context import MIN_BUFFER, Context, size, split_url
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At, Steps
from extproc.gateway.doctor.modes import POLICY, STANDALONE, Spelling, check_modes, read_modes, unknown_names

POLICY_FIELDS = (
    "host",
    "service",
    "backend",
    "backendRef",
    "policies",
    "failureMode",
    "metadataContext",
    "requestAttributes",
    "responseAttributes",
    "processingOptions",
    "conditional",
    "conditionalPolicy",
    "condition",
    "policy",
)
BACKEND_STEPS = ("backends", "targets", "backend")
DEFAULT_BUFFER = 2 * 1024 * 1024


def looks_like(document: At) -> bool:
    return (
        any(document[name].exists for name in ("binds", "frontendPolicies"))
        or (document["gateways"].exists and document["routes"].exists)
        or document.at("mcp", "targets").exists
    )


def check(document: At, context: Context) -> Iterator[Finding]:
    """A standalone file."""
    places = list(_places(document))
    every = [at for at in document.walk() if at.path and at.path[-1] == "extProc" and at.exists]
    if not every:
        yield Finding(
            "no-filter", document, "no policies have extProc", "extProc: see agentgateway/buffered.yaml"
        )
        return
    for at in every:
        if any(step in BACKEND_STEPS for step in at.path[:-1]):
            yield Finding(
                "backend-policy", at, "extProc stands under a backend", "extProc under the route's policies"
            )
    read: set[Steps] = set()
    for place in places:
        copies = [at["extProc"] for at in place.policies if at["extProc"].exists]
        if len(copies) > 1:
            yield Finding(
                "two-filters",
                copies[0],
                f"extProc here and at line {copies[1].line}, which holds for this route too",
                "one of the two",
            )
        if copies:
            read.add(copies[0].path)
            yield from check_policy(copies[0], STANDALONE)
            yield from agentgateway_reach.identity(copies[0], place, context)
            yield from get_streams(copies[0], STANDALONE, place.at)
    for at in every:
        if at.path not in read:
            yield from check_policy(at, STANDALONE)
    yield from _buffer(document.at("frontendPolicies", "http", "maxBufferSize"), every)
    yield from agentgateway_reach.raw(places)
    yield from agentgateway_reach.raw_anonymous(places)
    for name, url in context.side_routes:
        yield from agentgateway_reach.side_route(places, name, url)


def _places(document: At) -> Iterator[Place]:
    gateway_policies: list[At] = []
    for each in document["policies"].items():
        gateway_policies.append(each["policy"])
    for bind in document["binds"].items():
        port = bind["port"].scalar
        for listener in bind["listeners"].items():
            for route in listener["routes"].items():
                policies = (route["policies"], listener["policies"], *gateway_policies)
                yield Place(route, policies, port if isinstance(port, int) else None)
    if document["mcp"].exists:
        port = document.at("mcp", "port").scalar
        policies = (document.at("mcp", "policies"), *gateway_policies)
        yield Place(document["mcp"], policies, port if isinstance(port, int) else None)
    ports = [at["port"].scalar for _, at in document["gateways"].members()]
    single = ports[0] if len(ports) == 1 and isinstance(ports[0], int) else None
    for route in document["routes"].items():
        yield Place(route, (route["policies"], *gateway_policies), single)


def check_policy(policy: At, spelling: Spelling) -> Iterator[Finding]:
    """One extProc, in the standalone or the Kubernetes spelling."""
    kubernetes = spelling is POLICY
    opened = "FailOpen" if kubernetes else "failOpen"
    closed = "FailClosed" if kubernetes else "failClosed"
    for entry in agentgateway_reach.entries(policy):
        yield from unknown_names(entry, list(POLICY_FIELDS), certain=False)
        mode = entry["failureMode"]
        if mode.text.lower() == "failopen":
            yield Finding("failure-mode-open", mode, f"failureMode is {mode.text}", f"failureMode: {closed}")
        elif mode.exists and mode.text not in (opened, closed):
            yield Finding("wrong-spelling", mode, f"failureMode is {mode.text}", f"failureMode: {closed}")
        options = entry["processingOptions"]
        yield from check_modes(options, spelling, options["allowModeOverride"])
        yield from _address(entry)
        yield from _attributes(entry["requestAttributes"])


def _address(entry: At) -> Iterator[Finding]:
    host = entry["host"]
    if not host.exists:
        return
    if "://" in host.text:
        url = split_url(host.text)
        bare = f"{url.host}:{url.port}" if url else "127.0.0.1:50051"
        yield Finding("bad-address", host, f"host is {host.text}", f"host: {bare}")
    elif host.text.startswith("unix:") or not re.fullmatch(r"(\[[^\]]+\]|[^:\s]+):[0-9]+", host.text):
        yield Finding("bad-address", host, f"host is {host.text}, not HOST:PORT", "host: 127.0.0.1:50051")


def _attributes(attributes: At) -> Iterator[Finding]:
    for name, at in attributes.members():
        if re.search(r"\b(jwt\.rawToken|apiKey\.key)\b(?!\.unredacted\(\))", at.text):
            yield Finding(
                "redacted-attribute", at, f"{name} is {at.text}", f"{name}: {at.text.strip()}.unredacted()"
            )


def get_streams(policy: At, spelling: Spelling, route: At) -> Iterator[Finding]:
    methods = [match["method"] for match in route["matches"].items()]
    if methods and all(method.exists and method.text != "GET" for method in methods):
        return
    for entry in list(policy["conditional"].items()) or [policy]:
        inner = entry["policy"] if entry["policy"].exists else entry
        options = inner["processingOptions"]
        if read_modes(options, spelling).duplex and "request.method" not in entry["condition"].text:
            at = options[spelling.request_body]
            yield Finding(
                "duplex-get",
                at if at.exists else entry,
                "bodies are streamed both ways"
                + ("" if at.exists else ", which is the default,")
                + " for every method",
                'conditional: [{condition: request.method == "POST", …}], or requestBodyMode: '
                f"{spelling.words['BUFFERED']} with allowModeOverride: true",
            )


def _buffer(at: At, policies: list[At]) -> Iterator[Finding]:
    spelling = STANDALONE
    if all(
        read_modes(entry["processingOptions"], spelling).duplex
        for policy in policies
        for entry in agentgateway_reach.entries(policy)
    ):
        return
    yield from buffer(at)


def buffer(at: At) -> Iterator[Finding]:
    """``at`` is maxBufferSize."""
    value = size(at.scalar) if at.exists else DEFAULT_BUFFER
    if value is not None and value < MIN_BUFFER:
        shown = f"is {at.text}" if at.exists else "is not set, which means 2 MiB"
        yield Finding(
            "buffer-limit", at, f"frontendPolicies.http.maxBufferSize {shown}", "maxBufferSize: 33554432"
        )
