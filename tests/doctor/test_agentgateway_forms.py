"""The other ways of writing an agentgateway file."""

from __future__ import annotations

import pytest

from extproc.gateway.doctor.context import Context
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.located import parse

GOOD = """{host: '127.0.0.1:50051', processingOptions: {requestBodyMode: buffered, responseBodyMode: none, \
requestTrailerMode: skip, responseTrailerMode: skip, allowModeOverride: true}}"""
HEAD = "frontendPolicies: {http: {maxBufferSize: 33554432}}\n"
FORMS = {
    "gateways and routes": HEAD
    + "gateways: {default: {port: 3000}}\n"
    + "routes: [{policies: {extProc: EXT}, backends: [{mcp: {targets: []}}]}]\n",
    "simple mcp": HEAD + "mcp: {port: 3000, targets: [{name: a}], policies: {extProc: EXT}}\n",
    "listener policy": HEAD
    + "binds: [{port: 3000, listeners: [{policies: {extProc: EXT}, "
    + "routes: [{backends: [{mcp: {targets: []}}]}]}]}]\n",
    "policies with targets": HEAD
    + "binds: [{port: 3000, listeners: [{routes: [{backends: [{mcp: {targets: []}}]}]}]}]\n"
    + "policies: [{target: {gateway: {}}, policy: {extProc: EXT}}]\n",
}


def ids(text: str) -> list[str]:
    return [finding.id for finding in examine([parse(text.encode(), "x")], Context())]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read(form: str) -> None:
    assert ids(FORMS[form].replace("EXT", GOOD)) == []
    assert ids(FORMS[form].replace("EXT", GOOD.replace("Override: true", "Override: false"))) == [
        "mode-override-off"
    ]
    assert ids(FORMS[form].replace("{extProc: EXT}", "{cors: {}}")) == ["no-filter"]


def test_host_alone_works_but_holds_get_streams() -> None:
    """What a user writes who pastes one line: full duplex on everything."""
    assert ids(FORMS["simple mcp"].replace("EXT", "{host: '127.0.0.1:50051'}")) == ["duplex-get"]


def test_a_list_of_kubernetes_objects_is_read() -> None:
    spec = "{traffic: {extProc: {failureMode: FailOpen}}}"
    policy = f"{{apiVersion: agentgateway.dev/v1alpha1, kind: AgentgatewayPolicy, spec: {spec}}}"
    text = f"apiVersion: v1\nkind: List\nitems: [{policy}]\n"
    assert "failure-mode-open" in ids(text)
