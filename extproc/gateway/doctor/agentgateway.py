"""Checks of agentgateway's own configuration file and of its Kubernetes policies' extProc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from extproc.gateway.doctor.context import LOOPBACK, MIN_BUFFER, Context, Url, size, split_url
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
AUTHENTICATION = ("jwtAuth", "mcpAuthentication", "jwtAuthentication")
BACKEND_STEPS = ("backends", "targets", "backend")
DEFAULT_BUFFER = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """A route (or all routes of a port) and the policies that hold for it, nearest first."""

    at: At
    policies: tuple[At, ...]
    port: int | None

    def find(self, name: str) -> At | None:
        return next((at[name] for at in self.policies if at[name].exists), None)

    @property
    def serves_mcp(self) -> bool:
        backends = self.at["backends"].items()
        return self.at["targets"].exists or any(
            each["mcp"].exists or "mcp" in each["backend"].text for each in backends
        )

    @property
    def targets(self) -> set[str]:
        found: set[str] = set()
        for backend in (self.at, *(each["mcp"] for each in self.at["backends"].items())):
            for target in backend["targets"].items():
                found.add(target.at("mcp", "host").text or target["name"].text)
        return found


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
            yield from _identity(copies[0], place, context)
            yield from get_streams(copies[0], STANDALONE, place.at)
    for at in every:
        if at.path not in read:
            yield from check_policy(at, STANDALONE)
    yield from _buffer(document.at("frontendPolicies", "http", "maxBufferSize"), every)
    yield from _raw(places)
    yield from _raw_anonymous(places)
    for name, url in context.side_routes:
        yield from _side_route(places, name, url)


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


def entries(policy: At) -> list[At]:
    """The policy itself, or each of its conditional entries."""
    conditional = list(policy["conditional"].items())
    return [each["policy"] if each["policy"].exists else each for each in conditional] or [policy]


def check_policy(policy: At, spelling: Spelling) -> Iterator[Finding]:
    """One extProc, in the standalone or the Kubernetes spelling."""
    kubernetes = spelling is POLICY
    opened = "FailOpen" if kubernetes else "failOpen"
    closed = "FailClosed" if kubernetes else "failClosed"
    for entry in entries(policy):
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


def _identity(policy: At, place: Place, context: Context) -> Iterator[Finding]:
    authentication = next((at for name in AUTHENTICATION if (at := place.find(name))), None)
    if authentication is None:
        return
    for entry in entries(policy):
        if not entry["requestAttributes"].exists:
            yield Finding(
                "identity-lost",
                entry,
                f"{authentication.path[-1]} (line {authentication.line}) takes the Authorization header off",
                "requestAttributes: {sub: jwt.sub}",
            )
        elif context.catalogue_url:
            yield from token(entry, context)


def token(entry: At, context: Context) -> Iterator[Finding]:
    """Whether the catalogue route can be shown the token that a JWT policy took off."""
    attributes = entry["requestAttributes"]
    carriers = [name for name, at in attributes.members() if "rawToken.unredacted()" in at.text]
    named = context.settings.catalog.token_attribute if context.settings else None
    if not carriers:
        name = named or "token"
        yield Finding(
            "catalogue-token-lost",
            attributes,
            "catalog.url is set and no attribute carries the token",
            f"{name}: jwt.rawToken.unredacted() here, catalog.token_attribute: {name} in the processor's "
            "settings",
        )
    elif named is not None and named not in carriers:
        yield Finding(
            "catalogue-token-lost",
            attributes[carriers[0]],
            f"the token travels as {carriers[0]}, catalog.token_attribute is {named or 'not set'}",
            f"catalog.token_attribute: {carriers[0]} in the processor's settings",
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
        for entry in entries(policy)
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


def _raw(places: list[Place]) -> Iterator[Finding]:
    filtered = [place for place in places if place.find("extProc")]
    served = set().union(*(place.targets for place in filtered)) if filtered else set()
    for place in places:
        if place in filtered or not place.serves_mcp or place.find("authorization"):
            continue
        if place.targets & served or not served:
            yield Finding(
                "raw-route-open",
                place.at,
                "this route leads to MCP servers without extProc and without a rule about who may use it",
                "authorization: {rules: ['source.address == \"127.0.0.1\"']} in its policies",
            )


def _raw_anonymous(places: list[Place]) -> Iterator[Finding]:
    """A rule about who may connect is no answer to who is asking."""
    authenticated = [place for place in places if place.find("extProc") and _authenticates(place)]
    served = set().union(*(place.targets for place in authenticated)) if authenticated else set()
    for place in places:
        if place.find("extProc") or not place.find("authorization") or _authenticates(place):
            continue
        if place.serves_mcp and place.targets & served:
            yield Finding(
                "raw-route-anonymous",
                place.at,
                "this route leads to the same MCP servers as an authenticated one, for whoever may connect",
                "the same mcpAuthentication in its policies",
            )


def _authenticates(place: Place) -> bool:
    return any(place.find(name) for name in AUTHENTICATION)


def _side_route(places: list[Place], name: str, url: Url) -> Iterator[Finding]:
    port, path = url.port, url.path
    here = [place for place in places if place.port == port]
    if not here:
        if url.host in LOOPBACK and places:
            ports = ", ".join(sorted({str(place.port) for place in places if place.port}))
            mend = f"{name} with port {ports}"
            yield Finding("catalogue-nowhere", places[0].at, f"{name}: no bind has port {port}", mend)
        return
    chosen = max((place for place in here), key=lambda place: _matched(place.at, path))
    if _matched(chosen.at, path) < 0:
        what = f"{name}: no route takes {path}"
        yield Finding("catalogue-nowhere", here[0].at, what, f"path: {{exact: {path}}}")
    elif chosen.find("extProc"):
        yield Finding(
            "catalogue-loop",
            chosen.at,
            f"{name}: {path} on port {port} takes this route, which has extProc",
            f"{name} of a route without extProc",
        )


def _matched(route: At, path: str) -> int:
    """How specific the best match is: the more, the higher; -1 when there is none."""
    matches = list(route["matches"].items())
    if not matches:
        return 0
    best = -1
    for match in matches:
        exact, prefix = match.at("path", "exact"), match.at("path", "pathPrefix")
        if exact.exists and exact.text == path:
            best = max(best, 10_000)
        elif prefix.exists and (path == prefix.text or path.startswith(prefix.text.rstrip("/") + "/")):
            best = max(best, len(prefix.text))
        elif not match["path"].exists:
            best = max(best, 0)
    return best
