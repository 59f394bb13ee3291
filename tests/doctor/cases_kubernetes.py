"""Broken kubernetes configurations."""

from __future__ import annotations

from extproc.gateway.doctor.context import Context
from tests.doctor.cases import Case, edit

EG = "envoy/kubernetes/envoy-gateway.yaml"
ISTIO = "envoy/kubernetes/istio.yaml"
POLICY = "agentgateway/kubernetes/policy.yaml"
POLICY_JWT = "agentgateway/kubernetes/policy-auth.yaml"
POD = "envoy/kubernetes/processor.yaml"
ALLOW = "allow_mode_override: true\n"


def document(version: str, kind: str, spec: str) -> str:
    return f"---\napiVersion: {version}\nkind: {kind}\nspec:\n  {spec}\n"


CASES: list[Case] = [
    # Kubernetes: Envoy Gateway
    edit("failure-mode-open", EG, "failOpen: false", "failOpen: true", "failOpen"),
    edit("message-timeout", EG, "messageTimeout: 10s", "messageTimeout: 200ms", "messageTimeout"),
    edit("request-body-mode", EG, "body: Buffered", "body: Streamed", "Streamed"),
    edit("wrong-spelling", EG, "body: Buffered", "body: BUFFERED", "BUFFERED"),
    edit("wrong-spelling", EG, "backendRefs:", "backendRef:", "backendRef"),
    edit("request-headers-skipped", EG, "      request:\n        body: Buffered\n", ""),
    edit("response-headers-skipped", EG, "      response: {}\n", ""),
    edit("mode-override-off", EG, "allowModeOverride: true", "allowModeOverride: false", "allowModeOverride"),
    edit("buffer-limit", EG, "bufferLimit: 32Mi", "bufferLimit: 32Ki", "bufferLimit"),
    edit("buffer-limit", EG, "kind: ClientTrafficPolicy", "kind: BackendTrafficPolicy"),
    Case(
        "processor-before-auth",
        EG,
        (("before: envoy.filters.http.ext_proc", "after: envoy.filters.http.ext_proc"),),
        "authorization",
        append=document(
            "gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", "authorization: {defaultAction: Deny}"
        ),
    ),
    edit("request-timeout", EG, "requestReceivedTimeout: 60s", "requestReceivedTimeout: 0s", "Received"),
    edit("request-timeout", EG, "requestReceivedTimeout: 60s", "requestReceivedTimeout:", "apiVersion"),
    # Kubernetes: Istio
    edit(
        "processor-before-auth", ISTIO, "operation: INSERT_BEFORE", "operation: INSERT_FIRST", "INSERT_FIRST"
    ),
    edit("processor-after-mcp", ISTIO, "operation: INSERT_BEFORE", "operation: INSERT_AFTER", "INSERT_AFTER"),
    edit("cluster-http1", ISTIO, "http2_protocol_options: {}", "http_protocol_options: {}"),
    edit("buffer-limit", ISTIO, "applyTo: LISTENER", "applyTo: ROUTE_CONFIGURATION"),
    edit("mode-override-off", ISTIO, ALLOW, "allow_mode_override: false\n", "allow_mode_override"),
    edit("request-timeout", ISTIO, "request_timeout: 60s", "request_timeout: 0s", "request_timeout"),
    edit("request-timeout", ISTIO, "applyTo: NETWORK_FILTER", "applyTo: HTTP_ROUTE"),
    # Kubernetes: agentgateway
    edit("failure-mode-open", POLICY, "failureMode: FailClosed", "failureMode: FailOpen", "FailOpen"),
    edit("wrong-spelling", POLICY, "requestBodyMode: Buffered", "requestBodyMode: buffered", "buffered"),
    edit("backend-policy", POLICY, "kind: HTTPRoute", "kind: AgentgatewayBackend", "AgentgatewayBackend"),
    edit("buffer-limit", POLICY, "maxBufferSize: 33554432", "maxBufferSize: 1Mi", "maxBufferSize"),
    Case(
        "identity-lost",
        POLICY,
        append=document(
            "agentgateway.dev/v1alpha1", "AgentgatewayPolicy", "traffic: {jwtAuthentication: {mode: Strict}}"
        ),
    ),
    Case(
        "catalogue-token-lost",
        POLICY_JWT,
        mark="requestAttributes",
        context=Context(catalogue_url="http://mcp-gateway.mcp/mcp/all"),
        append=document(
            "agentgateway.dev/v1alpha1", "AgentgatewayPolicy", "traffic: {jwtAuthentication: {mode: Strict}}"
        ),
    ),
    edit("redacted-attribute", POLICY_JWT, "sub: jwt.sub", "token: jwt.rawToken", "jwt.rawToken"),
    # Kubernetes: the processor
    Case(
        "probe-misses-socket",
        POD,
        (
            ("- 0.0.0.0:50051\n", "- unix:/run/p.sock\n"),
            (
                "readinessProbe:\n          httpGet:\n            path: /readyz\n            port: admin",
                "readinessProbe:\n          tcpSocket:\n            port: grpc",
            ),
        ),
        "port: grpc",
    ),
    edit("probe-misses-socket", POD, "- 0.0.0.0:9090", "- 0.0.0.0:9191"),
    edit("probe-misses-socket", POD, "- 0.0.0.0:9090", "- 127.0.0.1:9090"),
    edit("probe-misses-socket", POD, "path: /readyz", "path: /ready", "/ready"),
    edit("no-probe", POD, "readinessProbe:", "otherProbe:"),
    edit("unknown-flag", POD, "- --admin", "- --admim", "--admim"),
    edit("bad-address", POD, "- 0.0.0.0:50051\n", "- 127.0.0.1:50051\n"),
    edit(
        "short-grace",
        POD,
        "terminationGracePeriodSeconds: 30",
        "terminationGracePeriodSeconds: 10",
        "GracePeriod",
    ),
]
