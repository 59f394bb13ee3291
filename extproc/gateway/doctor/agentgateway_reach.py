"""Checks of agentgateway: who is asking, who reaches the unfiltered route, and where catalog.url leads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extproc.gateway.doctor.context import LOOPBACK, Context, Url
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At

AUTHENTICATION = ("jwtAuth", "mcpAuthentication", "jwtAuthentication")


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


def entries(policy: At) -> list[At]:
    """The policy itself, or each of its conditional entries."""
    conditional = list(policy["conditional"].items())
    return [each["policy"] if each["policy"].exists else each for each in conditional] or [policy]


def identity(policy: At, place: Place, context: Context) -> Iterator[Finding]:
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


def raw(places: list[Place]) -> Iterator[Finding]:
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


def raw_anonymous(places: list[Place]) -> Iterator[Finding]:
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


def side_route(places: list[Place], name: str, url: Url) -> Iterator[Finding]:
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
