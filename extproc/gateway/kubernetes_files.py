"""Kubernetes: Envoy Gateway's policies and Istio's EnvoyFilter."""

from __future__ import annotations

from dataclasses import replace

from extproc.gateway import envoy_auth as auth
from extproc.gateway import envoy_pieces as pieces
from extproc.gateway.envoy_files import HCM
from extproc.gateway.options import HostPort, Options
from extproc.gateway.processor_files import GRPC_PORT, quantity
from extproc.gateway.yamltext import Noted, Tree, note, plain

MANAGER = "envoy.filters.network.http_connection_manager"


def envoy_gateway(options: Options) -> list[Tree]:
    """EnvoyExtensionPolicy, ClientTrafficPolicy and the filter order."""
    body = "FullDuplexStreamed" if options.mode == "full-duplex" else "Buffered"
    mode: dict[str, Tree] = {
        "request": note(
            "Present: headers are sent. The body too, whole, because calls are rewritten in it.",
            {"body": body},
        ),
        "response": note(
            "Present and empty: headers are sent, bodies only when the processor asks.",
            {"body": body} if options.mode == "full-duplex" else {},
        ),
    }
    if options.mode == "buffered":
        mode["allowModeOverride"] = note("Lets it ask.", True)
    ext_proc: dict[str, Tree] = {
        "backendRefs": [{"name": options.service, "port": GRPC_PORT}],
        "failOpen": note("True would leave the whole tool list open while the processor is down.", False),
        "messageTimeout": note("Envoy Gateway's default is 200 ms.", pieces.seconds(options.message_timeout)),
        "processingMode": mode,
    }
    if options.jwt:
        ext_proc["metadata"] = note(
            f"""The claims that jwt_authn verified. caller.attributes names them as
            metadata:{auth.JWT_FILTER}:<provider>.<claim>.""",
            {"accessibleNamespaces": [auth.JWT_FILTER]},
        )
    return [
        {
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "EnvoyExtensionPolicy",
            "metadata": {"name": "toolsearch", "namespace": options.namespace},
            "spec": {
                "targetRefs": note(
                    "The HTTPRoute of the MCP server. Other routes, and the unfiltered one, stay untouched.",
                    [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": options.route}],
                ),
                "extProc": [ext_proc],
            },
        },
        {
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "ClientTrafficPolicy",
            "metadata": {"name": "toolsearch", "namespace": options.namespace},
            "spec": {
                "targetRefs": [
                    {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": options.gateway_name}
                ],
                "connection": note(
                    """Envoy Gateway's listeners hold 32 KiB: a longer call would be a 413, a longer tool list
                    a 500.""",
                    {"bufferLimit": quantity(options.buffer_limit)},
                ),
                "timeout": {"http": {"requestReceivedTimeout": pieces.request_timeout()}},
            },
        },
        note(
            """Envoy Gateway puts rbac (SecurityPolicy.authorization) behind ext_proc, where a search the
            processor answers by itself would not be judged. Name this object in the GatewayClass's or
            Gateway's parametersRef, or merge it into the EnvoyProxy you have.""",
            {
                "apiVersion": "gateway.envoyproxy.io/v1alpha1",
                "kind": "EnvoyProxy",
                "metadata": {"name": "toolsearch", "namespace": options.namespace},
                "spec": {
                    "filterOrder": [
                        {"name": "envoy.filters.http.rbac", "before": "envoy.filters.http.ext_proc"}
                    ]
                },
            },
        ),
    ]


def istio(options: Options) -> list[Tree]:
    """Istio's EnvoyFilter: the filter and its cluster into a gateway workload."""
    host = f"{options.service}.{options.namespace}.svc.cluster.local"
    inner = replace(options, processor=HostPort(host, GRPC_PORT))
    return [
        {
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "EnvoyFilter",
            "metadata": {"name": "toolsearch", "namespace": options.namespace},
            "spec": {
                "targetRefs": note(
                    "Only this gateway: without it every sidecar of the namespace gets the filter.",
                    [
                        {
                            "group": "gateway.networking.k8s.io",
                            "kind": "Gateway",
                            "name": options.gateway_name,
                        }
                    ],
                ),
                "configPatches": [
                    note(
                        """Directly in front of the router: behind Istio's own authentication and
                        authorization filters, which stand at the beginning of the chain.""",
                        {
                            "applyTo": "HTTP_FILTER",
                            "match": _router_match(),
                            "patch": {
                                "operation": "INSERT_BEFORE",
                                "value": pieces.ext_proc_filter(inner),
                            },
                        },
                    ),
                    {
                        "applyTo": "LISTENER",
                        "match": {"context": "GATEWAY"},
                        "patch": {
                            "operation": "MERGE",
                            "value": {
                                "per_connection_buffer_limit_bytes": note(
                                    "The largest body Envoy holds for the processor; Istio leaves 1 MiB.",
                                    options.buffer_limit,
                                )
                            },
                        },
                    },
                    {
                        "applyTo": "NETWORK_FILTER",
                        "match": _manager_match(),
                        "patch": {
                            "operation": "MERGE",
                            "value": {
                                "name": MANAGER,
                                "typed_config": {
                                    "@type": HCM,
                                    "request_timeout": pieces.request_timeout(),
                                },
                            },
                        },
                    },
                    {
                        "applyTo": "CLUSTER",
                        "match": {"context": "GATEWAY"},
                        "patch": {"operation": "ADD", "value": pieces.processor_cluster(inner)},
                    },
                ],
            },
        }
    ]


def _router_match() -> Tree:
    return _manager_match(subFilter={"name": "envoy.filters.http.router"})


def _manager_match(**more: Tree) -> Tree:
    return {"context": "GATEWAY", "listener": {"filterChain": {"filter": {"name": MANAGER, **more}}}}


def check_istio(documents: list[Tree]) -> None:
    """Raises ValueError when an Envoy message inside the EnvoyFilter is not valid."""
    from extproc.gateway import messages

    kinds = {"HTTP_FILTER": "http_filters", "LISTENER": "listener", "CLUSTER": "clusters"}
    kinds["NETWORK_FILTER"] = "network_filters"
    for document in documents:
        tree = plain(document.value if isinstance(document, Noted) else document)
        assert isinstance(tree, dict)
        for patch in tree["spec"]["configPatches"]:
            messages.check(kinds[patch["applyTo"]], patch["patch"]["value"])
