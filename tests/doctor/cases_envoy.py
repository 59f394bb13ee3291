"""Broken envoy configurations."""

from __future__ import annotations

from extproc.gateway.doctor.context import Context
from extproc.settings import Caller, Catalog, Server
from tests.doctor.cases import Case, edit, settings

MCP = "envoy/mcp-router.yaml"
ONE = "envoy/single-upstream.yaml"
JWT = "envoy/jwt-rbac.yaml"
TWO = "envoy/loopback-catalogue.yaml"
PROFILES = "envoy/profiles.yaml"
DUPLEX = "envoy/full-duplex.yaml"
REPEATING = "envoy/replicas.yaml"
MCP_FILTER = """          - name: envoy.filters.http.mcp
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.mcp.v3.Mcp
"""
COMPRESSOR = """          - name: envoy.filters.http.compressor
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor
"""
JWT_AFTER = """          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
"""
COPY = """          - name: second
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {envoy_grpc: {cluster_name: toolsearch}}
              processing_mode: {request_body_mode: BUFFERED}
              allow_mode_override: true
              message_timeout: 10s
"""
WHOLE_HOST = """              domains: ["*"]
              typed_per_filter_config:
                x.ext_proc:
                  "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig
                  config:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides: {}
"""
RAW = """  - name: catalogue
    address: {socket_address: {address: 127.0.0.1, port_value: 10001}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/x.HttpConnectionManager
          http_filters:
          - name: envoy.filters.http.rbac
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
          - name: envoy.filters.http.router
          route_config:
            virtual_hosts:
            - domains: ["*"]
              routes:
              - match: {path: /mcp/all}
                route: {cluster: office}
"""
RAW_ROUTE = """              - match: {path: /mcp/all}
                route: {cluster: office}
                typed_per_filter_config:
                  envoy.filters.http.ext_proc: {disabled: true}
                  envoy.filters.http.jwt_authn: {disabled: true}
"""
ALLOW = "allow_mode_override: true\n"
PAD = " " * 14

CASES: list[Case] = [
    # Envoy: the filter's own fields
    edit(
        "failure-mode-open",
        MCP,
        "failure_mode_allow: false",
        "failure_mode_allow: true",
        "failure_mode_allow",
    ),
    edit(
        "request-body-mode",
        MCP,
        "request_body_mode: BUFFERED",
        "request_body_mode: NONE",
        "request_body_mode",
    ),
    edit("request-body-mode", MCP, "request_body_mode: BUFFERED", "request_body_mode: STREAMED", "STREAMED"),
    edit(
        "request-body-mode",
        MCP,
        "request_body_mode: BUFFERED",
        "request_body_mode: BUFFERED_PARTIAL",
        "PARTIAL",
    ),
    edit("request-body-mode", ONE, "request_body_mode: BUFFERED\n", "request_trailer_mode: SKIP\n"),
    edit("mixed-duplex", MCP, "request_body_mode: BUFFERED", "request_body_mode: FULL_DUPLEX_STREAMED"),
    edit(
        "duplex-trailers",
        DUPLEX,
        "request_trailer_mode: SEND",
        "request_trailer_mode: SKIP",
        "request_trailer_mode",
    ),
    edit(
        "response-body-buffered",
        MCP,
        "response_body_mode: NONE",
        "response_body_mode: BUFFERED",
        "response_body",
    ),
    edit("response-body-mode", MCP, "response_body_mode: NONE", "response_body_mode: BUFFERED_PARTIAL"),
    edit(
        "request-headers-skipped",
        MCP,
        "request_header_mode: SEND",
        "request_header_mode: SKIP",
        "header_mode: SKIP",
    ),
    edit("response-headers-skipped", MCP, "response_header_mode: SEND", "response_header_mode: SKIP"),
    edit("mode-override-off", MCP, ALLOW, "allow_mode_override: false\n", "allow_mode_override"),
    edit("mode-override-off", ONE, PAD + ALLOW, ""),
    edit(
        "override-modes-lack-ours",
        MCP,
        ALLOW,
        ALLOW + PAD + "allowed_override_modes: [{response_body_mode: BUFFERED}]\n",
        "allowed_override_modes",
    ),
    edit("message-timeout", MCP, "message_timeout: 10s", "message_timeout: 0.5s", "message_timeout"),
    edit("message-timeout", MCP, PAD + "message_timeout: 10s\n", ""),
    edit("message-timeout", MCP, "message_timeout: 10s", "message_timeout: 5s", context=settings()),
    edit("immediate-response-off", MCP, ALLOW, ALLOW + PAD + "disable_immediate_response: true\n"),
    edit("observability-mode", MCP, ALLOW, ALLOW + PAD + "observability_mode: true\n", "observability_mode"),
    edit(
        "mutation-rules", MCP, ALLOW, ALLOW + PAD + "mutation_rules: {disallow_all: true}\n", "mutation_rules"
    ),
    edit(
        "mutation-rules",
        MCP,
        ALLOW,
        ALLOW + PAD + "mutation_rules: {disallow_expression: {regex: 'content-.*'}}\n",
        "disallow_expression",
    ),
    edit(
        "headers-withheld",
        MCP,
        ALLOW,
        ALLOW + PAD + "forward_rules: {allowed_headers: {patterns: [{exact: authorization}]}}\n",
        "allowed_headers",
    ),
    edit(
        "headers-withheld",
        MCP,
        ALLOW,
        ALLOW + PAD + "forward_rules: {disallowed_headers: {patterns: [{prefix: auth}]}}\n",
        "disallowed_headers",
    ),
    edit("wrong-spelling", MCP, ALLOW, "allow_mode_overide: true\n", "allow_mode_overide"),
    edit("wrong-spelling", MCP, "request_body_mode: BUFFERED", "request_body_mode: Buffered", "Buffered"),
    edit(
        "stream-timeout",
        MCP,
        "cluster_name: toolsearch\n",
        "cluster_name: toolsearch\n                timeout: 5s\n",
    ),
    edit("not-grpc", MCP, "grpc_service:", "http_service:", "http_service"),
    # Envoy: the processor's cluster
    edit("cluster-missing", MCP, "cluster_name: toolsearch\n", "cluster_name: toolserach\n", "toolserach"),
    edit("cluster-http1", MCP, "http2_protocol_options: {}", "http_protocol_options: {}"),
    edit(
        "cluster-http1",
        MCP,
        "http2_protocol_options: {}",
        "http2_protocol_options:",
        "http2_protocol_options",
    ),
    edit("few-streams", MCP, "max_requests: 10000", "max_requests: 100", "max_requests: 100"),
    edit("tls-mismatch", "envoy/mtls.yaml", "message_timeout", "message_timeout", context=settings()),
    edit("tls-mismatch", MCP, ALLOW, ALLOW, context=settings(server=Server(tls_cert="c.pem"))),
    # Envoy: order
    edit("processor-before-auth", JWT, "          http_filters:\n", "          http_filters:\n" + COPY),
    Case(
        "processor-before-auth",
        ONE,
        (
            (
                "          - name: envoy.filters.http.router",
                JWT_AFTER + "          - name: envoy.filters.http.router",
            ),
        ),
        "jwt_authn",
    ),
    edit("mcp-parser-order", MCP, "          http_filters:\n", "          http_filters:\n" + MCP_FILTER),
    edit(
        "processor-after-mcp",
        ONE,
        "          http_filters:\n",
        "          http_filters:\n          - name: envoy.filters.http.router\n",
    ),
    edit("mcp-parser-missing", MCP, "filters.http.mcp.v3.Mcp", "filters.http.other.v3.Other", "mcp_router"),
    edit("mcp-body-limit", MCP, "max_request_body_size: 10485760", "max_request_body_size: 8192", "8192"),
    edit(
        "compressed-responses",
        ONE,
        "          - name: envoy.filters.http.router",
        COMPRESSOR + "          - name: envoy.filters.http.router",
        "compressor",
    ),
    edit(
        "two-filters",
        MCP,
        "          http_filters:\n",
        "          http_filters:\n" + COPY,
        "envoy.filters.http.ext_proc",
    ),
    edit(
        "filter-off",
        MCP,
        "          - name: envoy.filters.http.ext_proc\n",
        "          - name: envoy.filters.http.ext_proc\n            disabled: true\n",
        "disabled: true",
    ),
    edit("no-filter", MCP, "ext_proc.v3.ExternalProcessor", "fault.v3.HTTPFault"),
    # Envoy: listeners and routes
    edit("buffer-limit", MCP, "    per_connection_buffer_limit_bytes: 33554432\n    filter", "    filter"),
    edit("buffer-limit", MCP, "33554432\n    filter_chains", "32768\n    filter_chains", "32768"),
    edit("request-timeout", MCP, "          request_timeout: 60s\n", "", "typed_config"),
    edit("request-timeout", JWT, "request_timeout: 60s", "request_timeout: 0s", "request_timeout: 0s"),
    edit(
        "route-misses-filter",
        PROFILES,
        "          - name: envoy.filters.http.ext_proc\n",
        "          - name: other\n",
        "envoy.filters.http.ext_proc:",
    ),
    edit(
        "route-misses-filter",
        MCP,
        "                  envoy.filters.http.ext_proc:\n",
        "                  tool.search:\n",
        "tool.search:",
    ),
    edit("route-misses-filter", ONE, '              domains: ["*"]\n', WHOLE_HOST, "x.ext_proc:"),
    edit(
        "raw-route-open",
        MCP,
        "address: 127.0.0.1\n        port_value: 10000",
        "address: 0.0.0.0\n        port_value: 10000",
    ),
    edit(
        "raw-route-open",
        TWO,
        "address: 127.0.0.1\n        port_value: 10001",
        "address: 0.0.0.0\n        port_value: 10001",
    ),
    Case(
        "catalogue-token-lost",
        JWT,
        (
            ("forward: true", "forward: false"),
            (
                "  clusters:\n",
                RAW.replace("http.rbac.v3.RBAC", "jwt_authn.v3.JwtAuthentication") + "  clusters:\n",
            ),
        ),
        "forward: false",
        Context(catalogue_url="http://127.0.0.1:10001/mcp/all"),
    ),
    edit("raw-route-anonymous", JWT, "  clusters:\n", f"{RAW}  clusters:\n", "path: /mcp/all"),
    edit(
        "raw-route-anonymous",
        JWT,
        "              routes:\n",
        f"              routes:\n{RAW_ROUTE}",
        "path: /mcp/all",
    ),
    Case(
        "route-timeout",
        ONE,
        (("timeout: 0s", "timeout: 1s"), ("timeout: 0s", "timeout: 5s"), ("timeout: 0s", "timeout: 15s")),
        "timeout: 15s",
    ),
    edit("route-timeout", MCP, "timeout: 3600s", "timeout: 5s", "timeout: 5s"),
    edit(
        "duplex-get",
        DUPLEX,
        '                  - name: ":method"\n                    string_match:\n'
        "                      exact: POST\n",
        "",
    ),
    edit(
        "catalogue-loop",
        MCP,
        ALLOW,
        ALLOW,
        context=settings(catalog=Catalog(targets={"files": "http://127.0.0.1:10000/mcp"})),
    ),
    edit(
        "catalogue-loop",
        MCP,
        "path: /mcp/all",
        "path: /mcp/raw",
        context=Context(catalogue_url="http://127.0.0.1:10000/mcp/all"),
    ),
    edit(
        "catalogue-nowhere",
        MCP,
        "port_value: 10000",
        "port_value: 10009",
        context=Context(catalogue_url="http://127.0.0.1:10000/mcp/all"),
    ),
    edit(
        "catalogue-nowhere",
        TWO,
        "path: /mcp/all",
        "path: /mcp/raw",
        context=Context(catalogue_url="http://127.0.0.1:10001/mcp/all"),
    ),
    edit(
        "raw-route-open",
        REPEATING,
        "  - name: mcp\n    address:\n      socket_address:\n        address: 127.0.0.1",
        "  - name: mcp\n    address:\n      socket_address:\n        address: 0.0.0.0",
        "disabled: true",
    ),
    edit(
        "catalogue-loop",
        REPEATING,
        "path: /mcp/all",
        "path: /mcp/raw",
        context=Context(catalogue_url="http://127.0.0.1:10000/mcp/all"),
    ),
    edit("route-timeout", REPEATING, " timeout: 0s", " timeout: 15s", "timeout: 15s"),
    edit("request-timeout", REPEATING, "request_timeout: 60s", "request_timeout: 0s", "request_timeout"),
    Case(
        "identity-lost",
        JWT,
        (("forward: true", "forward: false"), ("request_attributes:", "response_attributes:")),
    ),
    edit("attributes-missing", JWT, "request_attributes:", "response_attributes:"),
    edit(
        "attributes-not-used",
        JWT,
        "message_timeout",
        "message_timeout",
        context=settings(caller=Caller(attributes=("email",))),
    ),
    edit(
        "duplicate-key",
        MCP,
        "failure_mode_allow: false",
        "failure_mode_allow: false\n" + PAD + "failure_mode_allow: false",
    ),
]
