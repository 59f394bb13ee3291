"""The Envoy filter, cluster and routes that carry the processor, as commented trees."""

from __future__ import annotations

from ipaddress import ip_address

from extproc.exchange.messages import METADATA_NAMESPACE
from extproc.gateway.envoy_auth import TYPE, claim_attribute, upstream_tls
from extproc.gateway.options import (
    CLUSTER_NAME,
    FILTER_NAME,
    PROFILE_METADATA,
    Address,
    HostPort,
    Internal,
    Options,
    UnixSocket,
)
from extproc.gateway.yamltext import Noted, Tree, note
from extproc.settings import Server

EXT_PROC = f"{TYPE}envoy.extensions.filters.http.ext_proc.v3"


HTTP2: Tree = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": f"{TYPE}envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
}
REQUEST_TIMEOUT = "60s"
STREAM_KINDS = ("max_connections", "max_pending_requests", "max_requests")


def seconds(value: float) -> str:
    return f"{value:g}s"


def request_timeout() -> Noted:
    """For every HTTP connection manager; Envoy stops the clock when the request is whole."""
    return note(
        """The whole request has to arrive in this time, or it is answered with 408. Without it requests that
        are sent by half stay for ever and use up the processor's limits.exchanges. Long answers and GET
        streams are not affected: their requests are whole at once.""",
        REQUEST_TIMEOUT,
    )


def processing_mode(options: Options) -> Tree:
    if options.mode == "full-duplex":
        return note(
            """Both bodies are streamed through the processor and nothing is buffered by Envoy. Trailers must
            be sent in this mode. Every stream stays with the processor to its end, so prefer the buffered
            mode unless bodies are larger than Envoy may hold.""",
            {
                "request_header_mode": "SEND",
                "request_body_mode": "FULL_DUPLEX_STREAMED",
                "request_trailer_mode": "SEND",
                "response_header_mode": "SEND",
                "response_body_mode": "FULL_DUPLEX_STREAMED",
                "response_trailer_mode": "SEND",
            },
        )
    return buffered_modes()


def buffered_modes() -> Tree:
    return {
        "request_header_mode": note(
            "Sent: credentials are in the headers, and without them a body answer may not change headers.",
            "SEND",
        ),
        "request_body_mode": note("One whole JSON-RPC message; calls are rewritten in it.", "BUFFERED"),
        "request_trailer_mode": "SKIP",
        "response_header_mode": note(
            "Sent: here the processor asks for the few bodies it has to read.", "SEND"
        ),
        "response_body_mode": note(
            "Not sent unless asked for, so that server-sent events of calls flow untouched.", "NONE"
        ),
        "response_trailer_mode": "SKIP",
    }


def ext_proc_filter(options: Options) -> Tree:
    """The filter; it belongs after authentication and authorization and before the MCP filters."""
    config: dict[str, Tree] = {
        "@type": f"{EXT_PROC}.ExternalProcessor",
        "grpc_service": {
            "envoy_grpc": {"cluster_name": CLUSTER_NAME},
            "retry_policy": note(
                "Another replica is asked when one does not answer; half an exchange is never repeated.",
                retry_policy(),
            ),
        },
        "failure_mode_allow": note(
            "Closed: with true a processor that is down would leave the whole tool list and every tool open.",
            False,
        ),
        "processing_mode": processing_mode(options),
    }
    config["allow_mode_override"] = note(
        "Lets the processor ask for the response bodies it needs. Leave allowed_override_modes out.", True
    )
    config["message_timeout"] = note(
        f"""For each message. Envoy's own default is 200 ms, too short for a first large tool list; the
        processor gives up by itself after {seconds(Server().deadline)} (server.deadline), so it answers
        before Envoy does.""",
        seconds(options.message_timeout),
    )
    if options.repeat:
        config["metadata_options"] = note(
            "The processor says of a request for the tool list that it may be sent twice.",
            {"receiving_namespaces": {"untyped": [METADATA_NAMESPACE]}},
        )
    if options.jwt:
        config["request_attributes"] = note(
            """The verified claims that tell callers apart: a refreshed token keeps its catalogue. Give the
            processor these very strings as caller.attributes.""",
            [claim_attribute(name) for name in options.jwt.attributes],
        )
    return {"name": FILTER_NAME, "typed_config": config}


def endpoint(address: Address | Internal) -> Tree:
    if isinstance(address, UnixSocket):
        return {"pipe": {"path": address.path}}
    if isinstance(address, Internal):
        return {"envoy_internal_address": {"server_listener_name": address.listener}}
    return {"socket_address": {"address": address.host, "port_value": address.port}}


def _discovery(address: Address | Internal) -> str:
    if not isinstance(address, HostPort):
        return "STATIC"
    try:
        ip_address(address.host)
    except ValueError:
        return "STRICT_DNS"
    return "STATIC"


def server_cluster(options: Options, name: str, address: Address) -> Tree:
    """The cluster of one MCP server, with the limits of a gateway that holds whole tool lists."""
    return cluster(
        name,
        address,
        circuit_breakers=breakers(options),
        per_connection_buffer_limit_bytes=options.buffer_limit,
    )


def breakers(options: Options) -> Tree:
    each: dict[str, Tree] = {kind: options.max_streams for kind in STREAM_KINDS}  # noqa: C420
    return {"thresholds": [each]}


def cluster(name: str, address: Address | Internal, **more: Tree) -> dict[str, Tree]:
    return {
        "name": name,
        "type": _discovery(address),
        "connect_timeout": "2s",
        **more,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": endpoint(address)}}]}],
        },
    }


def retry_policy() -> Tree:
    """All of it applies only until a replica has said its first word in an exchange."""
    return {
        "num_retries": 2,
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled,reset",
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.1s"},
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": f"{TYPE}envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                },
            }
        ],
        "host_selection_retry_max_attempts": 3,
    }


def processor_breakers(options: Options) -> Tree:
    """As many retries as streams: when a replica dies, all of its requests go to another at once."""
    each: dict[str, Tree] = dict.fromkeys((*STREAM_KINDS, "max_retries"), options.max_streams)
    return {"thresholds": [each]}


def processor_cluster(options: Options) -> Tree:
    more: dict[str, Tree] = {
        "typed_extension_protocol_options": note(
            "gRPC needs HTTP/2; without these lines Envoy speaks HTTP/1.1 and every request fails.",
            HTTP2,
        ),
        "circuit_breakers": note(
            f"""One gRPC stream for each request in flight. Envoy's default of 1,024 turns the next one into a
            500; {options.max_streams:,} is the processor's own limits.exchanges. Its default of 3 retries at
            a time is too few for the requests of a replica that died.""",
            processor_breakers(options),
        ),
        "health_checks": note(
            "The processor serves grpc.health.v1; a replica that drains is left out within seconds.",
            [
                {
                    "timeout": "2s",
                    "interval": "5s",
                    "no_traffic_interval": "5s",
                    "unhealthy_threshold": 2,
                    "healthy_threshold": 1,
                    "grpc_health_check": {},
                }
            ],
        ),
        "outlier_detection": note(
            "A replica that refuses connections is left out at once, before health checks notice.",
            {
                "split_external_local_origin_errors": True,
                "consecutive_local_origin_failure": 1,
                "enforcing_consecutive_local_origin_failure": 100,
                "base_ejection_time": "5s",
                "max_ejection_percent": 50,
            },
        ),
    }
    if options.tls:
        more["transport_socket"] = upstream_tls(options.tls)
    return cluster(CLUSTER_NAME, options.processor, **more)


def mcp_filter() -> Noted:
    return note(
        "Envoy's own MCP parser; mcp_router needs what it finds.",
        {
            "name": "envoy.filters.http.mcp",
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.filters.http.mcp.v3.Mcp",
                "max_request_body_size": note(
                    "The default of 8 KiB leaves a call with longer arguments unparsed; 10 MiB is the most.",
                    10 * 1024 * 1024,
                ),
            },
        },
    )


def mcp_router_filter(options: Options) -> Noted:
    return note(
        """Merges the servers; their tools are named <server>__<tool>, or keep their names when there is only
        one server. Ends the chain in place of the router.""",
        {
            "name": "envoy.filters.http.mcp_router",
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.filters.http.mcp_router.v3.McpRouter",
                "servers": [
                    {
                        "name": backend.name,
                        "mcp_cluster": {
                            "cluster": backend.name,
                            "path": backend.path,
                            "timeout": "3600s",
                            "host_rewrite_literal": backend.address.host,
                        },
                    }
                    for backend in options.backends
                ],
            },
        },
    )


def router_filter() -> Tree:
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{TYPE}envoy.extensions.filters.http.router.v3.Router"},
    }


def per_route(**fields: Tree) -> Tree:
    return {FILTER_NAME: {"@type": f"{EXT_PROC}.ExtProcPerRoute", **fields}}


def profile_override(profile: str) -> Tree:
    return note(
        f"Tells the processor to use its profile {profile} on this route.",
        per_route(
            overrides={"grpc_initial_metadata": [{"key": PROFILE_METADATA, "value": profile}]},
        ),
    )


def loopback(address: Address) -> bool:
    """Whether only this host can reach the address."""
    if not isinstance(address, HostPort):
        return True
    if address.host == "localhost":
        return True
    try:
        return ip_address(address.host).is_loopback
    except ValueError:
        return False
