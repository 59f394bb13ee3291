"""Kubernetes: the processor's own objects, Envoy Gateway's policies and Istio's EnvoyFilter."""

from __future__ import annotations

from dataclasses import replace

from extproc.gateway import envoy_pieces as pieces
from extproc.gateway.options import MIB, HostPort, Options
from extproc.gateway.yamltext import Noted, Tree, note, plain
from extproc.settings import Settings

GRPC_PORT = 50051
ADMIN_PORT = 9090
UID = 65532


def quantity(count: int) -> str:
    return f"{count // MIB}Mi"


def processor(options: Options, gateway_namespace: str) -> list[Tree]:
    """What runs the processor: Deployment, Service, autoscaling, network policy and monitoring."""
    name = options.service
    labels: dict[str, Tree] = {"app.kubernetes.io/name": name}
    meta: dict[str, Tree] = {"name": name, "namespace": options.namespace, "labels": labels}
    selector: dict[str, Tree] = {"matchLabels": labels}
    settings: Tree = (
        "# Every setting is described in docs/configuration.md.\nlimits:\n  cache: "
        + str(Settings().limits.cache)
        + "\n"
    )
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**meta, "name": f"{name}-settings"},
            "data": {"settings.yaml": settings},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": note("Two, so that one may go away; the autoscaler takes over from here.", 2),
                "selector": selector,
                "template": {"metadata": {"labels": labels}, "spec": _pod(options)},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {
                "clusterIP": note(
                    "Headless: gRPC keeps its connections, so the gateway has to see every replica.",
                    "None",
                ),
                "selector": labels,
                "ports": [
                    {
                        "name": "grpc",
                        "port": GRPC_PORT,
                        "targetPort": "grpc",
                        "appProtocol": note("Tells every gateway to speak HTTP/2 here.", "kubernetes.io/h2c"),
                    },
                    {"name": "admin", "port": ADMIN_PORT, "targetPort": "admin"},
                ],
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {"maxUnavailable": 1, "selector": selector},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": meta,
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": 2,
                "maxReplicas": 10,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 70},
                        },
                    }
                ],
                "behavior": {
                    "scaleDown": note(
                        "A new replica starts without catalogues; do not drop one at every dip.",
                        {"stabilizationWindowSeconds": 300},
                    )
                },
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": meta,
            "spec": {
                "podSelector": selector,
                "policyTypes": ["Ingress"],
                "ingress": [
                    note(
                        "Only the gateway may speak ext_proc: whoever does chooses the caller's identity.",
                        _ingress(gateway_namespace, GRPC_PORT),
                    ),
                    note("Only monitoring reads metrics.", _ingress("monitoring", ADMIN_PORT)),
                ],
            },
        },
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": meta,
            "spec": {
                "selector": selector,
                "endpoints": [{"port": "admin", "path": "/metrics", "interval": "30s"}],
            },
        },
    ]


def _ingress(namespace: str, port: int) -> Tree:
    return {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }


def _probe(path: str, **more: Tree) -> Tree:
    return {"httpGet": {"path": path, "port": "admin"}, **more}


def _pod(options: Options) -> Tree:
    drain = Settings().server.drain
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": note(
            f"The pause before the stop plus server.drain ({drain:g} s) and some room.", 30
        ),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": options.service}},
            }
        ],
        "containers": [
            {
                "name": "processor",
                "image": options.image,
                "args": [
                    "serve",
                    "--listen",
                    f"0.0.0.0:{GRPC_PORT}",
                    "--admin",
                    f"0.0.0.0:{ADMIN_PORT}",
                    "--config",
                    "/etc/toolsearch/settings.yaml",
                ],
                "ports": [
                    {"name": "grpc", "containerPort": GRPC_PORT},
                    {"name": "admin", "containerPort": ADMIN_PORT},
                ],
                "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=60),
                "readinessProbe": _probe("/readyz", periodSeconds=5),
                "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=3),
                "lifecycle": {
                    "preStop": note(
                        "Time for the gateway to learn that this replica is leaving.",
                        {"sleep": {"seconds": 5}},
                    )
                },
                "resources": {
                    "requests": {"cpu": "500m", "memory": "512Mi"},
                    "limits": {
                        "memory": note(
                            f"limits.cache ({quantity(Settings().limits.cache)}), the model and the process.",
                            "1Gi",
                        )
                    },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "settings", "mountPath": "/etc/toolsearch", "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            }
        ],
        "volumes": [
            {"name": "settings", "configMap": {"name": f"{options.service}-settings"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }


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
            metadata:{pieces.JWT_FILTER}:<provider>.<claim>.""",
            {"accessibleNamespaces": [pieces.JWT_FILTER]},
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
                        "applyTo": "CLUSTER",
                        "match": {"context": "GATEWAY"},
                        "patch": {"operation": "ADD", "value": pieces.processor_cluster(inner)},
                    },
                ],
            },
        }
    ]


def _router_match() -> Tree:
    return {
        "context": "GATEWAY",
        "listener": {
            "filterChain": {
                "filter": {
                    "name": "envoy.filters.network.http_connection_manager",
                    "subFilter": {"name": "envoy.filters.http.router"},
                }
            }
        },
    }


def check_istio(documents: list[Tree]) -> None:
    """Raises ValueError when an Envoy message inside the EnvoyFilter is not valid."""
    from extproc.gateway import messages

    kinds = {"HTTP_FILTER": "http_filters", "LISTENER": "listener", "CLUSTER": "clusters"}
    for document in documents:
        tree = plain(document.value if isinstance(document, Noted) else document)
        assert isinstance(tree, dict)
        for patch in tree["spec"]["configPatches"]:
            messages.check(kinds[patch["applyTo"]], patch["patch"]["value"])
