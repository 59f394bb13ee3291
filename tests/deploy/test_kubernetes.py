"""Manifests against Kubernetes' own schemas, against each other, and against the program they start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from extproc.cli import main
from extproc.config_sources import load
from extproc.gateway.options import IMAGE
from extproc.settings import Settings
from tests.deploy.parts import ROOT, documents

FOLDERS = ("envoy/kubernetes", "agentgateway/kubernetes")
PROCESSORS = [f"{folder}/processor.yaml" for folder in FOLDERS]
CUSTOM = {
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "EnvoyExtensionPolicy": "gateway.envoyproxy.io/v1alpha1",
    "ClientTrafficPolicy": "gateway.envoyproxy.io/v1alpha1",
    "EnvoyProxy": "gateway.envoyproxy.io/v1alpha1",
    "EnvoyFilter": "networking.istio.io/v1alpha3",
    "AgentgatewayPolicy": "agentgateway.dev/v1alpha1",
}
ALL = [
    pytest.param(document, id=f"{path.relative_to(ROOT)}-{document['kind']}-{index}")
    for folder in FOLDERS
    for path in sorted((ROOT / folder).glob("*.yaml"))
    for index, document in enumerate(documents(str(path.relative_to(ROOT))))
]


@pytest.mark.parametrize("document", ALL)
def test_the_schema_accepts_it(document: dict[str, Any]) -> None:
    if document["kind"] in CUSTOM:
        assert document["apiVersion"] == CUSTOM[document["kind"]]
        assert document["spec"]
    else:
        kubernetes_validate.validate(document, "1.37", strict=True)
    assert document["metadata"]["name"]
    assert document["metadata"]["namespace"] == "mcp"


def test_the_schema_check_sees_a_wrong_field() -> None:
    document = json.loads(json.dumps(by_kind(PROCESSORS[0])["Deployment"]))
    document["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.37", strict=True)


def by_kind(name: str) -> dict[str, Any]:
    found = {document["kind"]: document for document in documents(name)}
    assert set(found) == {
        "ConfigMap",
        "Deployment",
        "Service",
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "ServiceMonitor",
    }
    return found


def container(parts: dict[str, Any]) -> Any:
    (only,) = parts["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_parts_belong_together(name: str) -> None:
    parts = by_kind(name)
    deployment, service = parts["Deployment"], parts["Service"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        parts["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        parts["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector == labels
    assert parts["ServiceMonitor"]["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    target = parts["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert parts["HorizontalPodAutoscaler"]["spec"]["minReplicas"] >= 2
    assert "cpu" in container(parts)["resources"]["requests"], "the autoscaler needs a request"


@pytest.mark.parametrize("name", PROCESSORS)
def test_ports_agree(name: str) -> None:
    parts = by_kind(name)
    settings = Settings()
    ports = {each["name"]: each["containerPort"] for each in container(parts)["ports"]}
    wanted = {"grpc": settings.server.listen, "admin": settings.server.admin}
    assert ports == {name: int(address.rpartition(":")[2]) for name, address in wanted.items()}
    service = {each["name"]: each for each in parts["Service"]["spec"]["ports"]}
    assert {name: each["port"] for name, each in service.items()} == ports
    assert all(each["targetPort"] == name for name, each in service.items())
    assert service["grpc"]["appProtocol"] == "kubernetes.io/h2c"
    allowed = [rule["ports"][0]["port"] for rule in parts["NetworkPolicy"]["spec"]["ingress"]]
    assert sorted(allowed) == sorted(ports.values())
    (endpoint,) = parts["ServiceMonitor"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("admin", "/metrics")
    for probe, path in (
        ("startupProbe", "/healthz"),
        ("livenessProbe", "/healthz"),
        ("readinessProbe", "/readyz"),
    ):
        assert container(parts)[probe]["httpGet"] == {"path": path, "port": "admin"}


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_program_takes_the_arguments_and_the_settings(name: str, tmp_path: Path) -> None:
    parts = by_kind(name)
    args = container(parts)["args"]
    mount = next(each for each in container(parts)["volumeMounts"] if each["name"] == "settings")
    inside = Path(args[args.index("--config") + 1])
    assert str(inside.parent) == mount["mountPath"]
    file = tmp_path / inside.name
    file.write_text(parts["ConfigMap"]["data"][inside.name], "utf-8")
    assert main([*(str(file) if arg == str(inside) else arg for arg in args), "--check"]) == 0
    loaded = load(file, {}, {}).settings
    memory = container(parts)["resources"]["limits"]["memory"]
    held = loaded.limits.cache + 7 * loaded.limits.buffered
    assert int(memory.removesuffix("Gi")) * 1024**3 >= held + 130 * 1024**2, "the process with its model"


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_pod_is_hardened_and_may_drain(name: str) -> None:
    parts = by_kind(name)
    pod = parts["Deployment"]["spec"]["template"]["spec"]
    only = container(parts)
    assert only["image"] == IMAGE
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert only["securityContext"]["allowPrivilegeEscalation"] is False
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"USER {pod['securityContext']['runAsUser']}:" in (ROOT / "Dockerfile").read_text("utf-8")
    assert pod["automountServiceAccountToken"] is False
    pause = only["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > pause + Settings().server.drain


def test_policies_point_at_the_processor() -> None:
    service = by_kind(PROCESSORS[0])["Service"]
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    envoy = {each["kind"]: each for each in documents("envoy/kubernetes/envoy-gateway.yaml")}
    (entry,) = envoy["EnvoyExtensionPolicy"]["spec"]["extProc"]
    assert entry["backendRefs"] == [{"name": name, "port": port}]
    for file in ("policy.yaml", "policy-auth.yaml"):
        policy = documents(f"agentgateway/kubernetes/{file}")[0]
        assert policy["spec"]["traffic"]["extProc"]["backendRef"] == {"name": name, "port": port}
    (istio,) = documents("envoy/kubernetes/istio.yaml")
    cluster = istio["spec"]["configPatches"][-1]["patch"]["value"]
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    host = f"{name}.{service['metadata']['namespace']}.svc.cluster.local"
    assert endpoint["address"]["socket_address"] == {"address": host, "port_value": port}
