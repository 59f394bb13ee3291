"""Checks of one ext_proc filter and its cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extproc.gateway.doctor.context import DEFAULT_STREAMS, Context, seconds
from extproc.gateway.doctor.envoy_view import View
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At
from extproc.gateway.doctor.modes import (
    BUFFERED,
    DEFAULT,
    ENVOY,
    STREAMED,
    check_modes,
    read_modes,
    unknown_names,
)

FIELDS: Final = (
    "grpc_service",
    "http_service",
    "failure_mode_allow",
    "processing_mode",
    "request_attributes",
    "response_attributes",
    "message_timeout",
    "stat_prefix",
    "mutation_rules",
    "max_message_timeout",
    "forward_rules",
    "filter_metadata",
    "allow_mode_override",
    "disable_immediate_response",
    "metadata_options",
    "observability_mode",
    "disable_clear_route_cache",
    "route_cache_action",
    "deferred_close_timeout",
    "send_body_without_waiting_for_header_response",
    "allowed_override_modes",
    "processing_request_modifier",
    "on_processing_response",
    "status_on_error",
    "allow_content_length_header",
)
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "content-type")


def check_config(config: At, context: Context) -> Iterator[Finding]:
    """The filter's own fields."""
    yield from unknown_names(config, list(FIELDS), certain=True)
    allow = config["failure_mode_allow"]
    if allow.truth:
        yield Finding("failure-mode-open", allow, "failure_mode_allow is true", "failure_mode_allow: false")
    yield from check_modes(config["processing_mode"], ENVOY, config["allow_mode_override"])
    yield from _override_modes(config)
    if config["disable_immediate_response"].truth:
        yield Finding(
            "immediate-response-off",
            config["disable_immediate_response"],
            "disable_immediate_response is true",
            "disable_immediate_response: false",
        )
    if config["observability_mode"].truth:
        yield Finding(
            "observability-mode",
            config["observability_mode"],
            "observability_mode is true",
            "observability_mode: false",
        )
    yield from _timeouts(config, context)
    yield from _mutation_rules(config["mutation_rules"])
    yield from _forward_rules(config["forward_rules"], context)


def _override_modes(config: At) -> Iterator[Finding]:
    allowed = config["allowed_override_modes"]
    modes = read_modes(config["processing_mode"], ENVOY)
    if not config["allow_mode_override"].truth or not list(allowed.items()) or modes.duplex:
        return
    for each in allowed.items():
        body = (ENVOY.read(each["request_body_mode"], "NONE"), ENVOY.read(each["response_body_mode"], "NONE"))
        rest = [
            each[name] for name in ("response_header_mode", "request_trailer_mode", "response_trailer_mode")
        ]
        if body == (BUFFERED, STREAMED) and all(ENVOY.read(at, DEFAULT) == DEFAULT for at in rest):
            return
    yield Finding(
        "override-modes-lack-ours",
        allowed,
        "allowed_override_modes has no entry for request BUFFERED, response STREAMED",
        "take allowed_override_modes out, or add {request_body_mode: BUFFERED, response_body_mode: STREAMED}",
    )


def _timeouts(config: At, context: Context) -> Iterator[Finding]:
    at = config["message_timeout"]
    value = seconds(at.scalar) if at.exists else 0.2
    if value is not None and value < context.min_timeout:
        shown = (
            f"message_timeout is {at.text}" if at.exists else "message_timeout is not set, which means 200 ms"
        )
        yield Finding("message-timeout", at, shown, "message_timeout: 10s")
    stream = config.at("grpc_service", "timeout")
    if stream.exists and (seconds(stream.scalar) or 0) > 0:
        yield Finding("stream-timeout", stream, f"grpc_service.timeout is {stream.text}", "timeout: 0s")


def _mutation_rules(rules: At) -> Iterator[Finding]:
    for name in ("disallow_all", "disallow_is_error"):
        if name == "disallow_all" and rules[name].truth:
            yield Finding("mutation-rules", rules[name], "disallow_all is true", "disallow_all: false")
    if rules["disallow_expression"].exists:
        regex = rules.at("disallow_expression", "regex").text
        hit = next((name for name in ("content-length", "mcp-name", "mcp-method") if _finds(regex, name)), "")
        if hit:
            yield Finding(
                "mutation-rules",
                rules["disallow_expression"],
                f"disallow_expression forbids {hit}",
                f"an expression that does not match {hit}",
            )


def _finds(regex: str, name: str) -> bool:
    import re2

    try:
        return re2.fullmatch(regex, name) is not None
    except re2.error:
        return False


def _forward_rules(rules: At, context: Context) -> Iterator[Finding]:
    needed = (*context.caller_headers[:1], *MCP_HEADERS)
    allowed, denied = rules["allowed_headers"], rules["disallowed_headers"]
    if allowed.exists:
        missing = [name for name in needed if not _listed(allowed, name)]
        if missing:
            yield Finding(
                "headers-withheld",
                allowed,
                f"allowed_headers lacks {', '.join(missing)}",
                f"- exact: {missing[0]}" + (" (and so on)" if len(missing) > 1 else ""),
            )
    withheld = [name for name in needed if denied.exists and _listed(denied, name)]
    if withheld:
        yield Finding(
            "headers-withheld",
            denied,
            f"disallowed_headers holds {', '.join(withheld)}",
            f"take {', '.join(withheld)} out",
        )


def _listed(matchers: At, name: str) -> bool:
    for pattern in matchers["patterns"].items():
        tests: Mapping[str, bool] = {
            "exact": pattern["exact"].text.lower() == name,
            "prefix": name.startswith(pattern["prefix"].text.lower()),
            "suffix": name.endswith(pattern["suffix"].text.lower()),
            "contains": pattern["contains"].text.lower() in name,
        }
        if any(pattern[kind].exists and hit for kind, hit in tests.items()):
            return True
        if pattern["safe_regex"].exists and _finds(pattern.at("safe_regex", "regex").text, name):
            return True
    return False


def check_service(config: At, view: View, context: Context) -> Iterator[Finding]:
    """How the filter reaches the processor."""
    service = config["grpc_service"]
    if not service.exists:
        at = config["http_service"] if config["http_service"].exists else config
        shown = "http_service is set" if config["http_service"].exists else "there is no grpc_service"
        yield Finding("not-grpc", at, shown, "grpc_service: {envoy_grpc: {cluster_name: toolsearch}}")
        return
    name = service.at("envoy_grpc", "cluster_name")
    if not name.exists:
        return
    cluster = view.clusters.get(name.text)
    if cluster is None:
        if view.complete:
            near = ", ".join(sorted(view.clusters)) or "no cluster at all"
            yield Finding(
                "cluster-missing",
                name,
                f"cluster_name is {name.text}; the file has {near}",
                "cluster_name: the processor's cluster, or add it (`config envoy` prints one)",
            )
        return
    yield from check_cluster(cluster, context)


def check_cluster(cluster: At, context: Context) -> Iterator[Finding]:
    """The processor's cluster."""
    options = cluster["typed_extension_protocol_options"][HTTP_OPTIONS]
    modern = [
        options.at("explicit_http_config", "http2_protocol_options"),
        options.at("use_downstream_protocol_config", "http2_protocol_options"),
        options.at("auto_config"),
    ]
    if not any(at.exists for at in [*modern, cluster["http2_protocol_options"]]):
        empty = next((at for at in modern if at.present), None)
        yield Finding(
            "cluster-http1",
            empty or cluster,
            f"cluster {cluster['name'].text} has no http2_protocol_options"
            + (": an empty value counts as none" if empty else ""),
            "explicit_http_config: {http2_protocol_options: {}} under typed_extension_protocol_options",
        )
    yield from _streams(cluster)
    if context.settings:
        yield from _tls(cluster, context.settings.server.tls_cert != "")


def _streams(cluster: At) -> Iterator[Finding]:
    thresholds = list(cluster.at("circuit_breakers", "thresholds").items())
    limits = [each["max_requests"] for each in thresholds if each["priority"].text in ("", "DEFAULT", "0")]
    limit = next((at for at in limits if at.exists), None)
    value = limit.scalar if limit else DEFAULT_STREAMS
    if isinstance(value, int) and value <= DEFAULT_STREAMS:
        yield Finding(
            "few-streams",
            limit or cluster,
            f"max_requests is {value:,}"
            if limit
            else f"max_requests is not set, which means {DEFAULT_STREAMS:,}",
            "circuit_breakers: {thresholds: [{max_requests: 10000, max_pending_requests: 10000}]}",
        )


def _tls(cluster: At, served: bool) -> Iterator[Finding]:
    socket = cluster["transport_socket"]
    used = "tls" in socket["name"].text or "Tls" in socket.at("typed_config", "@type").text
    if used != served:
        yield Finding(
            "tls-mismatch",
            socket if used else cluster,
            "the cluster speaks TLS, server.tls_cert is not set"
            if used
            else "server.tls_cert is set, the cluster has no transport_socket",
            "server.tls_cert, server.tls_key and server.tls_client_ca"
            if used
            else "transport_socket: see envoy/mtls.yaml",
        )


def processor_address(config: At, view: View) -> str:
    """Cluster or target that tells one processor from another."""
    service = config["grpc_service"]
    name = service.at("envoy_grpc", "cluster_name").text
    cluster = view.clusters.get(name)
    if cluster:
        for at in cluster.walk():
            if at["port_value"].exists:
                return f"{at['address'].text}:{at['port_value'].text}"
            if at["pipe"].exists:
                return at["pipe"]["path"].text
    return name or service.at("google_grpc", "target_uri").text
