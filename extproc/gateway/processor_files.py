"""Kubernetes: what runs the processor."""

from __future__ import annotations

from extproc.gateway.options import MIB, Options
from extproc.gateway.yamltext import Tree, note
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
                            f"""limits.cache ({quantity(Settings().limits.cache)}), seven times
                            limits.buffered ({quantity(Settings().limits.buffered)}) and the process with its
                            model; see docs/kubernetes.md.""",
                            "3Gi",
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
