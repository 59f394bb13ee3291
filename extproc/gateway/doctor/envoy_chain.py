"""Checks of filter order, routes, listeners and the catalogue route."""

from __future__ import annotations

from collections.abc import Iterator

from extproc.gateway.doctor.context import MIN_BUFFER, MIN_ROUTE_TIMEOUT, Context, seconds, size
from extproc.gateway.doctor.envoy_filter import check_config, check_service, processor_address
from extproc.gateway.doctor.envoy_reach import check_names, check_reach, is_off, mcp_backends, working_routes
from extproc.gateway.doctor.envoy_view import Chain, Filter, Route, View
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At
from extproc.gateway.doctor.modes import ENVOY, check_modes, read_modes
from extproc.settings import Server

PORT = Server().listen.rpartition(":")[2]
OUR_NAMES = ("toolsearch", "tool-search", "tool_search")
DEFAULT_BUFFER = 1024 * 1024


def check(view: View, context: Context) -> Iterator[Finding]:
    """Every finding about what Envoy was told."""
    filtered = [chain for chain in view.chains if any(each.kind == "ext_proc" for each in chain.filters)]
    if not filtered:
        at = view.chains[0].at if view.chains else None
        if at:
            yield Finding(
                "no-filter", at, "no http filter is ext_proc", "http_filters: see envoy/filter.yaml"
            )
        return
    for chain in filtered:
        ours = _ours(chain, view)
        yield from check_names(chain)
        for each in ours:
            yield from _filter(each, view, context)
        targets = [processor_address(each.config, view) for each in ours]
        if len(set(targets)) < len(targets):
            yield Finding(
                "two-filters",
                ours[1].at,
                f"{ours[0].name} at line {ours[0].at.line} and {ours[1].name} lead to one processor",
                "one of the two",
            )
        active = next((each for each in ours if not each.off), None)
        if active:
            yield from _order(chain, active)
            yield from _identity(chain, active, context)
            yield from _listener(chain, active)
            yield from _half_sent(chain)
            yield from _routes(chain, active, context)
            for front in chain.fronts:
                yield from _half_sent(front)
                for route in front.routes:
                    yield from _timeout(route, front)
    yield from check_reach(view, filtered, context)


def _ours(chain: Chain, view: View) -> list[Filter]:
    """The filters that lead to our processor: those that name it or its port, else all of them."""
    every = [each for each in chain.filters if each.kind == "ext_proc"]
    named = [
        each
        for each in every
        if any(word in _target(each, view).lower() or word in each.name.lower() for word in OUR_NAMES)
    ]
    return named or [each for each in every if _target(each, view).endswith(f":{PORT}")] or every


def _target(each: Filter, view: View) -> str:
    cluster = each.config.at("grpc_service", "envoy_grpc", "cluster_name").text
    return f"{cluster} {processor_address(each.config, view)}"


def _filter(each: Filter, view: View, context: Context) -> Iterator[Finding]:
    if each.off:
        yield Finding("filter-off", each.at["disabled"], "disabled is true", "take disabled out")
        return
    yield from check_config(each.config, context)
    yield from check_service(each.config, view, context)


def _order(chain: Chain, ours: Filter) -> Iterator[Finding]:
    place = chain.index(ours)
    for index, each in enumerate(chain.filters):
        if each.off:
            continue
        if each.kind == "auth" and index > place:
            yield Finding(
                "processor-before-auth",
                each.at,
                f"{each.name} stands behind {ours.name} (line {ours.at.line})",
                f"move {each.name} above {ours.name}",
            )
        elif each.kind == "mcp" and index < place:
            yield Finding(
                "mcp-parser-order",
                ours.at,
                f"{ours.name} stands behind {each.name} (line {each.at.line})",
                f"move {ours.name} above {each.name}",
            )
        elif each.kind in ("mcp_router", "router") and index < place:
            yield Finding(
                "processor-after-mcp",
                ours.at,
                f"{ours.name} stands behind {each.name} (line {each.at.line})",
                f"move {ours.name} above {each.name}",
            )
        elif each.kind == "compressor" and index > place:
            yield Finding(
                "compressed-responses",
                each.at,
                f"{each.name} stands behind {ours.name}: responses pass it first",
                f"move {each.name} above {ours.name}",
            )
    router = chain.first("mcp_router")
    parser = chain.first("mcp")
    if router and not parser:
        yield Finding(
            "mcp-parser-missing",
            router.at,
            f"no mcp filter before {router.name}",
            "add envoy.filters.http.mcp",
        )
    if router and parser:
        limit = parser.config["max_request_body_size"]
        value = limit.scalar if limit.exists else 8192
        if isinstance(value, int) and 0 < value < 1024 * 1024:
            shown = f"is {value}" if limit.exists else "is not set, which means 8192"
            yield Finding(
                "mcp-body-limit", limit, f"max_request_body_size {shown}", "max_request_body_size: 10485760"
            )


def _identity(chain: Chain, ours: Filter, context: Context) -> Iterator[Finding]:
    jwt = next(
        (
            each
            for each in chain.filters[: chain.index(ours)]
            if each.config["@type"].text.endswith("JwtAuthentication") and not each.off
        ),
        None,
    )
    attributes = [at.text for at in ours.config["request_attributes"].items()]
    spaces = ours.config.at("metadata_options", "forwarding_namespaces", "untyped")
    passed = any("jwt_authn" in text or "authorization" in text.lower() for text in attributes) or any(
        "jwt_authn" in at.text for at in spaces.items()
    )
    if jwt and not passed:
        claim = "metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['sub']"
        mend = f'request_attributes: ["{claim}"]'
        providers = [provider for _, provider in jwt.config["providers"].members()]
        lost = [each for each in providers if not each["forward"].truth]
        if lost:
            yield Finding(
                "identity-lost",
                lost[0],
                f"forward is {lost[0]['forward'].text or 'not set'}, so the token goes",
                mend,
            )
        else:
            yield Finding("attributes-missing", ours.config, "request_attributes names no claim", mend)
    if context.settings and attributes and not passed_on(attributes, context.settings.caller.attributes):
        yield Finding(
            "attributes-not-used",
            ours.config["request_attributes"],
            f"caller.attributes is {list(context.settings.caller.attributes)}",
            f"caller.attributes: [{attributes[0]!r}] in the processor's settings",
        )


def passed_on(sent: list[str], wanted: tuple[str, ...]) -> bool:
    """Whether the processor looks at any attribute that it is sent."""
    return any(name in sent or name.startswith("metadata:") for name in wanted)


def _listener(chain: Chain, ours: Filter) -> Iterator[Finding]:
    if read_modes(ours.config["processing_mode"], ENVOY).duplex or chain.listener is None:
        return
    at = chain.listener["per_connection_buffer_limit_bytes"]
    value = size(at.scalar) if at.exists else DEFAULT_BUFFER
    if value is not None and value < MIN_BUFFER:
        shown = f"is {value:,}" if at.exists else f"is not set, which means {DEFAULT_BUFFER:,}"
        yield Finding(
            "buffer-limit",
            at,
            f"per_connection_buffer_limit_bytes {shown}",
            "per_connection_buffer_limit_bytes: 33554432",
        )
    for route in chain.routes:
        for name in ("request_body_buffer_limit", "per_request_buffer_limit_bytes"):
            limit = size(route.at[name].scalar)
            if limit is not None and limit < MIN_BUFFER and not is_off(route, ours):
                yield Finding("buffer-limit", route.at[name], f"{name} is {limit:,}", f"{name}: 33554432")


def _half_sent(chain: Chain) -> Iterator[Finding]:
    if chain.listener is None:
        return
    at = chain.at["request_timeout"]
    if not at.exists or seconds(at.scalar) == 0:
        shown = f"is {at.text}, which means none" if at.exists else "is not set, which means none"
        yield Finding("request-timeout", at, f"request_timeout {shown}", "request_timeout: 60s")


def _routes(chain: Chain, ours: Filter, context: Context) -> Iterator[Finding]:
    working = working_routes(chain, ours)
    if chain.routes and not working:
        yield Finding(
            "filter-off",
            chain.routes[0].at,
            "every route switches the filter off",
            "disabled: false on the MCP route",
        )
    served = {route.cluster for route in working}
    # A gateway may carry other things beside MCP: where a path says which is which, only those are judged.
    speaking = [route for route in working if "mcp" in route.shown.lower()] or working
    for route in chain.routes:
        override = route.override(ours.name)
        if override["disabled"].truth:
            raw = chain.first("mcp_router") or route.cluster in served or "mcp" in route.shown
            if raw and chain.public and not _guarded(route):
                yield Finding(
                    "raw-route-open",
                    override["disabled"],
                    f"{route.shown} has no filter and its listener is open to others",
                    "move the route to a listener on 127.0.0.1, see envoy/loopback-catalogue.yaml",
                )
            continue
        yield from _overrides(override["overrides"], ours)
        if route in speaking:
            yield from _timeout(route, chain)
            yield from _duplex_get(route, override, ours)
    for backend in mcp_backends(chain):
        value = seconds(backend.at("mcp_cluster", "timeout").scalar)
        if value is not None and 0 < value < MIN_ROUTE_TIMEOUT:
            at = backend.at("mcp_cluster", "timeout")
            yield Finding("route-timeout", at, f"timeout is {at.text}", "timeout: 3600s")


def _guarded(route: Route) -> bool:
    """Whether the route has access rules of its own; what they say is the operator's."""
    return any("rbac" in name for name, _ in route.at["typed_per_filter_config"].members())


def _overrides(overrides: At, ours: Filter) -> Iterator[Finding]:
    if overrides["failure_mode_allow"].truth:
        at = overrides["failure_mode_allow"]
        yield Finding("failure-mode-open", at, "failure_mode_allow is true", "failure_mode_allow: false")
    if overrides["processing_mode"].exists:
        yield from check_modes(overrides["processing_mode"], ENVOY, ours.config["allow_mode_override"])


def _timeout(route: Route, chain: Chain) -> Iterator[Finding]:
    action = route.at["route"]
    if not action.exists or chain.first("mcp_router"):
        return
    at = action["timeout"]
    value = seconds(at.scalar) if at.exists else 15.0
    if value is not None and 0 < value < MIN_ROUTE_TIMEOUT:
        shown = f"is {at.text}" if at.exists else "is not set, which means 15 s"
        yield Finding("route-timeout", at, f"the timeout of {route.shown} {shown}", "timeout: 0s")


def _duplex_get(route: Route, override: At, ours: Filter) -> Iterator[Finding]:
    own = override.at("overrides", "processing_mode")
    mode = own if own.exists else ours.config["processing_mode"]
    if not read_modes(mode, ENVOY).duplex:
        return
    methods = [
        header.at("string_match", "exact").text or header["exact_match"].text
        for header in route.at.at("match", "headers").items()
        if header["name"].text == ":method"
    ]
    if not methods or "GET" in methods:
        yield Finding(
            "duplex-get",
            mode["response_body_mode"],
            f"{route.shown} takes GET too",
            "headers: [{name: ':method', string_match: {exact: POST}}] in its match, and a route without the "
            "filter for GET; or request_body_mode: BUFFERED",
        )
