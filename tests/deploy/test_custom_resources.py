"""Custom resources against the schemas that packages carry: Prometheus operator's and Istio's.

No package carries the schemas of Envoy Gateway (EnvoyExtensionPolicy, ClientTrafficPolicy, EnvoyProxy) and of
agentgateway (AgentgatewayPolicy).  Their field names are held against the projects' published types by hand,
and ``doctor`` reads them in its own tests; no machine checks them here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.deploy.parts import ROOT, documents
from tests.deploy.test_kubernetes import CUSTOM, FOLDERS

WITHOUT_SCHEMA = {"EnvoyExtensionPolicy", "ClientTrafficPolicy", "EnvoyProxy", "AgentgatewayPolicy"}
RESOURCES = {
    f"{path.relative_to(ROOT)}-{document['kind']}": document
    for folder in FOLDERS
    for path in sorted((ROOT / folder).glob("*.yaml"))
    for document in documents(str(path.relative_to(ROOT)))
    if document["kind"] in CUSTOM and document["kind"] not in WITHOUT_SCHEMA
}


def model(kind: str) -> type[BaseModel]:
    """Imported when asked for: each takes seconds."""
    if kind == "EnvoyFilter":
        from cloudcoil.models.istio.networking import v1alpha3

        return v1alpha3.EnvoyFilter
    from cloudcoil.models.prometheus_operator import v1

    return v1.ServiceMonitor


def check(document: dict[str, Any]) -> None:
    """Raises ValidationError for a wrong value, AssertionError for a field that the schema does not have.

    The models drop what they do not know, so what comes back tells.
    """
    read = model(document["kind"]).model_validate(document)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == document


@pytest.mark.parametrize("name", RESOURCES)
def test_the_schema_accepts_it(name: str) -> None:
    check(RESOURCES[name])


def test_every_kind_is_checked_or_said_to_be_unchecked() -> None:
    checked = {document["kind"] for document in RESOURCES.values()}
    assert checked == {"ServiceMonitor", "EnvoyFilter"}
    assert checked | WITHOUT_SCHEMA == set(CUSTOM)
    text = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    assert all(kind in text for kind in WITHOUT_SCHEMA)


def endpoint(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["endpoints"][0]
    return found


def patch(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["configPatches"][0]
    return found


BREAKS: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "unknown field": ("ServiceMonitor", lambda it: endpoint(it).update(intervall="30s")),
    "wrong type": ("ServiceMonitor", lambda it: endpoint(it).update(port=["admin"])),
    "wrong duration": ("ServiceMonitor", lambda it: endpoint(it).update(interval="soon")),
    "missing field": ("ServiceMonitor", lambda it: it["spec"].pop("selector")),
    "unknown filter field": ("EnvoyFilter", lambda it: it["spec"].update(configPatch=[])),
    "unknown place": ("EnvoyFilter", lambda it: patch(it).update(applyTo="HTTP_FILTERS")),
    "unknown operation": ("EnvoyFilter", lambda it: patch(it)["patch"].update(operation="INSERT")),
    "unknown match field": ("EnvoyFilter", lambda it: patch(it)["match"].update(listeners={})),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_wrong_field_is_seen(case: str) -> None:
    kind, plant = BREAKS[case]
    broken = copy.deepcopy(next(each for each in RESOURCES.values() if each["kind"] == kind))
    plant(broken)
    with pytest.raises((ValidationError, AssertionError)):
        check(broken)
