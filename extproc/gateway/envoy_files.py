"""Whole Envoy bootstraps and fragments, checked field by field against Envoy's own message types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from extproc.gateway import envoy_auth as auth
from extproc.gateway import envoy_pieces as pieces
from extproc.gateway import envoy_repeat as repeat
from extproc.gateway.options import HostPort, OptionError, Options
from extproc.gateway.yamltext import Plain, Tree, note, plain

HCM = f"{auth.TYPE}envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"


def fragment(options: Options) -> Tree:
    """The filter and the cluster, to paste into a configuration that is already there."""
    return {
        "http_filters": note(
            """Into the http_connection_manager's http_filters: after jwt_authn, ext_authz and rbac, before
            mcp, mcp_router and router. The listener wants per_connection_buffer_limit_bytes:
            """
            + str(options.buffer_limit),
            [pieces.ext_proc_filter(options)],
        ),
        "clusters": note("Into static_resources.clusters.", [pieces.processor_cluster(options)]),
    }


def bootstrap(options: Options) -> Tree:
    """A whole gateway over ``options.backends``.  Raises OptionError."""
    if not options.backends:
        raise OptionError("a whole gateway needs at least one --server NAME=HOST:PORT")
    if options.router == "router" and len(options.backends) != 1:
        raise OptionError("--router router carries one MCP server; use --router mcp_router for several")
    separate = options.catalogue.listener if options.catalogue else None
    if options.repeat:
        listeners = [
            _listener(options, "mcp", options.gateway, repeat.front_routes(), [pieces.router_filter()]),
            note(
                "Reached from the listener above only, inside this Envoy.",
                _listener(options, repeat.LISTENER, None, _routes(options), _filters(options, filtered=True)),
            ),
        ]
    else:
        filters = _filters(options, filtered=True)
        listeners = [_listener(options, "mcp", options.gateway, _routes(options), filters)]
    if separate and options.catalogue:
        listeners.append(
            note(
                "The unfiltered tool list, for the processor alone. "
                + (
                    "It listens on the loopback interface: nobody outside this host goes round the filter."
                    if pieces.loopback(separate)
                    else "Make sure that only the processor reaches it."
                ),
                _listener(
                    options,
                    "catalogue",
                    separate,
                    [_route(options, "catalogue", options.catalogue.path)],
                    _filters(options, filtered=False),
                ),
            )
        )
    if options.direct:
        listeners.append(_direct(options, options.direct))
    clusters: list[Tree] = [pieces.processor_cluster(options)]
    if options.repeat:
        clusters.append(repeat.cluster(options))
    clusters += [
        pieces.server_cluster(options, backend.name, backend.address) for backend in options.backends
    ]
    if options.jwt and options.jwt.jwks.startswith(("http://", "https://")):
        clusters.append(_identity_provider(options.jwt.jwks))
    return {
        "admin": note(
            "Loopback only: whoever reaches it can stop this gateway.",
            {"address": pieces.endpoint(options.admin)},
        ),
        **({"bootstrap_extensions": repeat.extensions()} if options.repeat else {}),
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }


def _direct(options: Options, at: HostPort) -> Tree:
    routes = [
        _route(
            replace(options, router="router", backends=(backend,)),
            backend.name,
            f"{options.path}/{backend.name}",
        )
        for backend in options.backends
    ]
    return note(
        """Each server by itself, its own tools under their own names, without the filter. For clients that
        should have just these; whoever reaches this listener goes round the six tools.""",
        _listener(options, "direct", at, routes, _filters(replace(options, router="router"), filtered=False)),
    )


def _listener(
    options: Options, name: str, at: HostPort | None, routes: Sequence[Tree], filters: Sequence[Tree]
) -> Tree:
    """``at`` None makes it internal: no address, and what fails undecided in it says so."""
    where: dict[str, Tree] = {"internal_listener": {}} if at is None else {"address": pieces.endpoint(at)}
    return {
        "name": name,
        **where,
        "per_connection_buffer_limit_bytes": note(
            """The largest body Envoy holds for the processor. The default of 1 MiB answers a larger upload
            with 413 and a larger tool list with 500.""",
            options.buffer_limit,
        ),
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": {
                            "@type": HCM,
                            "stat_prefix": name,
                            "normalize_path": True,
                            "merge_slashes": True,
                            "stream_idle_timeout": note(
                                """A call may wait for a person and GET streams are silent for hours; the
                                default cuts both after 5 minutes.""",
                                "0s",
                            ),
                            "request_timeout": pieces.request_timeout(),
                            "route_config": {
                                "name": name,
                                "virtual_hosts": [
                                    {
                                        "name": name,
                                        "domains": ["*"],
                                        "routes": list(routes),
                                        **(
                                            {"response_headers_to_remove": [repeat.HEADER]}
                                            if at is None
                                            else {}
                                        ),
                                    }
                                ],
                            },
                            **({"local_reply_config": repeat.local_replies()} if at is None else {}),
                            "http_filters": list(filters),
                        },
                    }
                ]
            }
        ],
    }


def _filters(options: Options, *, filtered: bool) -> list[Tree]:
    chain: list[Tree] = []
    if options.jwt:
        chain += [auth.jwt_filter(options.jwt), auth.rbac_filter()]
    if filtered:
        chain.append(
            note(
                ("3. " if options.jwt else "")
                + "The processor: six tools in place of the whole list. It stands before the MCP filters.",
                pieces.ext_proc_filter(options),
            )
        )
        if options.repeat:
            chain.append(repeat.decided_filter())
    if options.router == "mcp_router":
        chain += [pieces.mcp_filter(), pieces.mcp_router_filter(options)]
    else:
        chain.append(pieces.router_filter())
    return chain


def _routes(options: Options) -> list[Tree]:
    routes: list[Tree] = []
    catalogue = options.catalogue
    if catalogue and catalogue.listener is None:
        off = note(
            f"""The unfiltered route of the processor (catalog.url): the filter is off here, and the route is
            as reachable as this listener. Before you open {options.gateway} to others, move it to a loopback
            listener.""",
            pieces.per_route(disabled=True),
        )
        routes.append(_route(options, "catalogue", catalogue.path, typed_per_filter_config=off))
    for path, profile in options.profiles:
        override = pieces.profile_override(profile)
        routes.append(_route(options, f"mcp-{profile}", path, typed_per_filter_config=override))
    # One server under its own path: everything it has is carried. Under another path only that one is.
    whole = options.router == "router" and options.backends[0].path == options.path == Options().path
    everything = "/" if whole else options.path
    prefix = whole or options.router == "mcp_router"
    if options.mode == "full-duplex":
        routes.append(_route(options, "calls", everything, prefix=prefix, method="POST"))
        routes.append(
            _route(
                options,
                "mcp",
                everything,
                prefix=prefix,
                typed_per_filter_config=note(
                    """GET streams stay open for hours; streamed through the processor each would hold a gRPC
                    stream. In this mode the processor lets go of them at once.""",
                    pieces.per_route(overrides={"processing_mode": pieces.buffered_modes()}),
                ),
            )
        )
    else:
        routes.append(_route(options, "mcp", everything, prefix=prefix))
    return routes


def _route(
    options: Options, name: str, path: str, *, prefix: bool = False, method: str = "", **more: Tree
) -> Tree:
    backend = options.backends[0]
    action: dict[str, Tree] = {"cluster": backend.name}
    match: dict[str, Tree] = {"prefix" if prefix else "path": path}
    if method:
        match["headers"] = [{"name": ":method", "string_match": {"exact": method}}]
    route: dict[str, Tree] = {"name": name, "match": match, "route": action}
    if options.router == "router":
        if not prefix:
            action["prefix_rewrite"] = backend.path
        action["host_rewrite_literal"] = note(
            "Many MCP servers refuse a Host they do not know.", backend.address.host
        )
        if options.jwt:
            route["request_headers_to_remove"] = note(
                "MCP forbids handing the client's token on; this happens after all filters.",
                ["authorization"],
            )
    action["timeout"] = note("Tool calls take as long as they take; the default is 15 s.", "0s")
    return {**route, **more}


def _identity_provider(url: str) -> Tree:
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    at = HostPort(host, parts.port or (443 if secure else 80))
    more: dict[str, Tree] = {}
    if secure:
        more["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{auth.TYPE}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "sni": host,
                "common_tls_context": {
                    "validation_context": {
                        "trusted_ca": {"filename": "/etc/ssl/certs/ca-certificates.crt"},
                        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": host}}],
                    }
                },
            },
        }
    return pieces.cluster("identity-provider", at, **more)


def check_bootstrap(tree: Tree) -> None:
    """Raises ValueError when Envoy's Bootstrap message has no such field or value."""
    from extproc.gateway import messages

    messages.check("bootstrap", plain(tree))


def check_fragment(tree: Tree) -> None:
    """The same for what :func:`fragment` returns."""
    from extproc.gateway import messages

    value: Plain = plain(tree)
    assert isinstance(value, Mapping)
    for kind in ("http_filters", "clusters"):
        items = value[kind]
        assert isinstance(items, Sequence)
        for item in items:
            messages.check(kind, item)
