"""Checks of who reaches what: the unfiltered route, and where catalog.url leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extproc.gateway.doctor.context import LOOPBACK, Context, Url
from extproc.gateway.doctor.envoy_view import Chain, Filter, Route, View
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At

IDENTIFIES = ("JwtAuthentication", "ExtAuthz", "OAuth2", "BasicAuth", "ApiKeyAuth")
"""Filters that ask who somebody is; rbac only judges what others found out."""


def is_off(route: Route, ours: Filter) -> bool:
    return route.override(ours.name)["disabled"].truth


def working_routes(chain: Chain, ours: Filter) -> list[Route]:
    """Routes on which the filter works."""
    return [route for route in chain.routes if not is_off(route, ours)]


def mcp_backends(chain: Chain) -> Iterator[At]:
    """Servers of Envoy's MCP router, if the chain has one."""
    router = chain.first("mcp_router")
    if router:
        yield from router.config["servers"].items()


def check_names(chain: Chain) -> Iterator[Finding]:
    """Routes' words for an ext_proc filter of a chain that has ext_proc, but none of that name."""
    names = [each.name for each in chain.filters if each.kind == "ext_proc"]
    for route in chain.routes:
        for at in route.settings():
            for name, config in at.members():
                if name not in names and _for_ext_proc(name, config):
                    shown = f"the key is {name}, the filter is named {' or '.join(names)}"
                    yield Finding("route-misses-filter", config, shown, f"{names[0]}: as the key here")


def _for_ext_proc(name: str, config: At) -> bool:
    type_url = config["@type"].text
    if type_url.endswith("config.route.v3.FilterConfig"):
        return _for_ext_proc(name, config["config"])
    return type_url.endswith("ext_proc.v3.ExtProcPerRoute") or (not type_url and name.endswith("ext_proc"))


def check_reach(view: View, filtered: list[Chain], context: Context) -> Iterator[Finding]:
    """``filtered`` are the chains that have the filter."""
    yield from _raw_listeners(view, filtered)
    yield from _anonymous(view, filtered)
    for name, url in context.side_routes:
        yield from _side_route(view, name, url)
        yield from _token(view, filtered, name, url)


def _clusters(chain: Chain, routes: Iterable[Route]) -> set[str]:
    """Where these routes of the chain lead."""
    found = {route.cluster for route in routes if route.cluster}
    return found | {each.at("mcp_cluster", "cluster").text for each in mcp_backends(chain)}


def _served(chains: Iterable[Chain]) -> set[str]:
    """Where requests go that pass the filter."""
    found: set[str] = set()
    for chain in chains:
        if ours := chain.first("ext_proc"):
            found |= _clusters(chain, working_routes(chain, ours))
    return found


def _raw_listeners(view: View, filtered: list[Chain]) -> Iterator[Finding]:
    served = _served(filtered)
    for chain in view.chains:
        if chain in filtered or not chain.public or chain.listener is None:
            continue
        both = sorted(served & _clusters(chain, chain.routes))
        if both:
            yield Finding(
                "raw-route-open",
                chain.listener["address"],
                f"listener {chain.listener['name'].text} leads to {', '.join(both)} without the filter",
                "address: 127.0.0.1 for this listener",
            )


def _identifying(chain: Chain) -> Iterator[Filter]:
    for each in chain.filters:
        if not each.off and each.config["@type"].text.endswith(IDENTIFIES):
            yield each


def _anonymous(view: View, filtered: list[Chain]) -> Iterator[Finding]:
    """An address that only this host reaches is no answer to who is asking."""
    served = _served(chain for chain in filtered if any(_identifying(chain)))
    for chain in view.chains:
        if chain.listener is None or chain.public:
            continue
        ours = chain.first("ext_proc") if chain in filtered else None
        asking = list(_identifying(chain))
        for route in chain.routes:
            if ours and not is_off(route, ours):
                continue
            asked = any(not route.override(each.name)["disabled"].truth for each in asking)
            both = sorted(served & _clusters(chain, [route]))
            if both and not asked:
                what = f"{route.shown} of {chain.listener['name'].text} leads to {', '.join(both)}"
                mend = "the authentication of the filtered listener in its http_filters too"
                yield Finding("raw-route-anonymous", route.at, f"{what} and nobody asks who is there", mend)


def _side_route(view: View, name: str, url: Url) -> Iterator[Finding]:
    chains = [chain for chain in view.chains if url.port in chain.ports]
    if not chains:
        if url.host in LOOPBACK and view.complete and view.chains:
            at = view.chains[0].at
            shown = f"no listener has port {url.port}"
            yield Finding("catalogue-nowhere", at, f"{name}: {shown}", f"{name} with {_ports(view)}")
        return
    path = url.path
    for chain in chains:
        route = next((each for each in chain.routes if each.matches(path)), None)
        ours = chain.first("ext_proc")
        if route is None:
            what = f"{name}: no route takes {path}"
            yield Finding("catalogue-nowhere", chain.at, what, f"match: {{path: {path}}}")
        elif ours and not is_off(route, ours):
            yield Finding(
                "catalogue-loop",
                route.at,
                f"{name}: {path} takes {route.shown}, where the filter works",
                f"a route with match: {{path: {path}}} before it that switches the filter off",
            )


def _token(view: View, filtered: list[Chain], name: str, url: Url) -> Iterator[Finding]:
    """A token that jwt_authn takes off in front of the filter cannot be shown to jwt_authn elsewhere."""
    lost = [
        provider["forward"]
        for chain in filtered
        for each in _identifying(chain)
        for _, provider in each.config["providers"].members()
        if not provider["forward"].truth
    ]
    if not lost:
        return
    for chain in view.chains:
        route = next((each for each in chain.routes if each.matches(url.path)), None)
        if url.port not in chain.ports or route is None:
            continue
        asking = [each for each in _identifying(chain) if not route.override(each.name)["disabled"].truth]
        if asking:
            shown = f"forward is {lost[0].text or 'not set'}, and {name} leads past {asking[0].name}"
            yield Finding("catalogue-token-lost", lost[0], shown, "forward: true")


def _ports(view: View) -> str:
    ports = sorted({port for chain in view.chains for port in chain.ports})
    return "port " + " or ".join(map(str, ports)) if ports else "a port of this gateway"
