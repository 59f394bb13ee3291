"""Listeners, filter chains, routes and clusters, from a bootstrap, an xDS file or a config_dump."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

import re2

from extproc.gateway.doctor.located import At

KINDS = {
    "ext_proc.v3.ExternalProcessor": "ext_proc",
    "jwt_authn.v3.JwtAuthentication": "auth",
    "ext_authz.v3.ExtAuthz": "auth",
    "rbac.v3.RBAC": "auth",
    "oauth2.v3.OAuth2": "auth",
    "basic_auth.v3.BasicAuth": "auth",
    "api_key_auth.v3.ApiKeyAuth": "auth",
    "http.mcp.v3.Mcp": "mcp",
    "mcp_router.v3.McpRouter": "mcp_router",
    "router.v3.Router": "router",
    "compressor.v3.Compressor": "compressor",
}


@dataclass(frozen=True, slots=True)
class Filter:
    at: At
    name: str
    kind: str
    """One of the values of KINDS, or empty."""
    config: At

    @property
    def off(self) -> bool:
        return self.at["disabled"].truth


@dataclass(frozen=True, slots=True)
class Route:
    at: At
    host: At

    def matches(self, path: str) -> bool | None:
        """Whether a request for ``path`` takes this route; None when other conditions decide too."""
        match = self.at["match"]
        if match["headers"].exists or match["query_parameters"].exists:
            return None
        if match["path"].exists:
            return path == match["path"].text
        if match["prefix"].present:
            return path.startswith(match["prefix"].text)
        if match["path_separated_prefix"].exists:
            prefix = match["path_separated_prefix"].text
            return path == prefix or path.startswith(prefix + "/")
        regex = match.at("safe_regex", "regex").text
        if regex:
            try:
                return re2.fullmatch(regex, path) is not None
            except re2.error:
                return None
        return None

    @property
    def cluster(self) -> str:
        return self.at.at("route", "cluster").text

    def override(self, filter_name: str) -> At:
        """What this route, or its host, says about a filter."""
        own = self.at["typed_per_filter_config"][filter_name]
        return own if own.exists else self.host["typed_per_filter_config"][filter_name]

    def settings(self) -> Iterator[At]:
        """Everywhere that this route can say something about filters."""
        weighted = self.at.at("route", "weighted_clusters", "clusters").items()
        for at in (self.at, self.host, *weighted):
            yield at["typed_per_filter_config"]

    @property
    def shown(self) -> str:
        match = self.at["match"]
        for name in ("path", "prefix", "path_separated_prefix"):
            if match[name].present:
                return f"{name} {match[name].text}"
        return self.at["name"].text or "a route"


@dataclass(frozen=True, slots=True)
class Chain:
    """One HTTP connection manager.  ``listener`` is None for a fragment."""

    at: At
    listener: At | None
    filters: tuple[Filter, ...]
    routes: tuple[Route, ...]
    fronts: tuple[Chain, ...] = ()
    """Of an internal listener, which has no address of its own: the chains that lead to it, with just the
    routes that do."""

    def first(self, kind: str) -> Filter | None:
        return next((each for each in self.filters if each.kind == kind and not each.off), None)

    def index(self, wanted: Filter) -> int:
        return self.filters.index(wanted)

    @property
    def public(self) -> bool:
        """Whether others than this host reach the listener."""
        own = self.listener is not None and any(map(_public, addresses(self.listener)))
        return own or any(front.public for front in self.fronts)

    @property
    def ports(self) -> set[int]:
        found = addresses(self.listener) if self.listener else []
        own = {port for at in found if isinstance(port := at.at("socket_address", "port_value").scalar, int)}
        return own.union(*(front.ports for front in self.fronts))


@dataclass(frozen=True, slots=True)
class View:
    chains: tuple[Chain, ...] = ()
    clusters: dict[str, At] = field(default_factory=dict)
    complete: bool = True
    """Whether every cluster is known; not so for fragments and files fed by xDS."""


def addresses(listener: At) -> list[At]:
    more = [each["address"] for each in listener["additional_addresses"].items()]
    return [each for each in (listener["address"], *more) if each.exists]


def _public(address: At) -> bool:
    host = address.at("socket_address", "address").text
    if not host:
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def kind(filter_: At) -> str:
    type_url = filter_.at("typed_config", "@type").text
    found = next((ours for suffix, ours in KINDS.items() if type_url.endswith(suffix)), "")
    if found or type_url:
        return found
    name = filter_["name"].text.rpartition("envoy.filters.http.")[2]
    return {"ext_proc": "ext_proc", "mcp": "mcp", "mcp_router": "mcp_router", "router": "router"}.get(
        name, ""
    )


def view(documents: Iterable[At]) -> View:
    """Everything these documents say together."""
    listeners: list[At] = []
    clusters: list[At] = []
    route_configs: dict[str, At] = {}
    fragments: list[At] = []
    complete = True
    for document in documents:
        complete = complete and not document["dynamic_resources"].exists
        for item in _resources(document):
            type_url = item["@type"].text
            if type_url.endswith("Listener") or item["filter_chains"].exists:
                listeners.append(item)
            elif type_url.endswith("RouteConfiguration"):
                route_configs[item["name"].text] = item
            elif item["http_filters"].exists or kind(item) == "ext_proc":
                fragments.append(item)
            else:
                clusters.append(item)
    chains = [_chain(None, item, route_configs) for item in fragments]
    for listener in listeners:
        for manager in _managers(listener):
            chains.append(_chain(listener, manager, route_configs))
    names = {cluster["name"].text: cluster for cluster in clusters if cluster["name"].exists}
    return View(tuple(_with_fronts(chains, names)), names, complete and not fragments)


def _with_fronts(chains: list[Chain], clusters: dict[str, At]) -> Iterator[Chain]:
    inside = {name: listener for name, at in clusters.items() if (listener := _internal(at))}
    for chain in chains:
        name = chain.listener["name"].text if chain.listener else ""
        leading = {cluster for cluster, listener in inside.items() if listener == name}
        fronts = []
        for front in chains:
            routes = tuple(route for route in front.routes if route.cluster in leading)
            if routes and front is not chain:
                fronts.append(replace(front, routes=routes))
        yield replace(chain, fronts=tuple(fronts))


def _internal(cluster: At) -> str:
    """The internal listener that a cluster leads to, by name; empty for other clusters."""
    for endpoints in cluster.at("load_assignment", "endpoints").items():
        for each in endpoints["lb_endpoints"].items():
            address = each.at("endpoint", "address", "envoy_internal_address", "server_listener_name")
            if address.exists:
                return address.text
    return ""


def _resources(document: At) -> Iterator[At]:
    """Listeners, clusters, route configurations and fragments of one document."""
    static = document["static_resources"]
    yield from static["listeners"].items()
    yield from static["clusters"].items()
    yield from document["resources"].items()
    for config in document["configs"].items():
        for each in ("static_listeners", "static_clusters", "static_route_configs"):
            for item in config[each].items():
                yield from _unwrap(item)
        for each in ("dynamic_active_clusters", "dynamic_route_configs"):
            for item in config[each].items():
                yield from _unwrap(item)
        for item in config["dynamic_listeners"].items():
            yield from _unwrap(item["active_state"])
    if document["http_filters"].exists:
        yield document
        yield from document["clusters"].items()
    elif document["filter_chains"].exists or kind(document) == "ext_proc":
        yield document


def _unwrap(item: At) -> Iterator[At]:
    for name in ("listener", "cluster", "route_config"):
        if item[name].exists:
            yield item[name]


def _managers(listener: At) -> Iterator[At]:
    chains = [*listener["filter_chains"].items(), listener["default_filter_chain"]]
    for chain in chains:
        for network in chain["filters"].items():
            config = network["typed_config"]
            if config["@type"].text.endswith("HttpConnectionManager"):
                yield config


def _chain(listener: At | None, manager: At, route_configs: dict[str, At]) -> Chain:
    items = manager["http_filters"].items() if manager["http_filters"].exists else iter([manager])
    filters = tuple(
        Filter(item, item["name"].text, kind(item), item["typed_config"]) for item in items if item.exists
    )
    config = manager["route_config"]
    if not config.exists:
        config = route_configs.get(manager.at("rds", "route_config_name").text, config)
    routes = tuple(
        Route(route, host) for host in config["virtual_hosts"].items() for route in host["routes"].items()
    )
    return Chain(manager, listener, filters, routes)
