"""Configurations broken in one way each; the doctor has to find exactly that, at the right line."""

from __future__ import annotations

import json

import pytest
import yaml

from extproc.gateway.doctor.context import Context
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.findings import RULES, Severity
from extproc.gateway.doctor.located import parse
from tests.doctor import cases_agentgateway, cases_envoy, cases_kubernetes
from tests.doctor.cases import ROOT, Case, broken

CASES = [*cases_envoy.CASES, *cases_agentgateway.CASES, *cases_kubernetes.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_broken_configuration_is_found(case: Case) -> None:
    text = broken(case)
    found = examine([parse(text.encode(), "broken.yaml")], case.context)
    hits = [finding for finding in found if finding.id == case.expected]
    assert hits, f"found only {[finding.id for finding in found]}"
    lines = text.splitlines()
    if case.mark:
        assert any(case.mark in lines[finding.at.line - 1] for finding in hits), [
            (finding.at.line, lines[finding.at.line - 1]) for finding in hits
        ]
    assert all(finding.what and finding.mend and finding.where.startswith("broken.yaml:") for finding in hits)


@pytest.mark.parametrize("case", cases_envoy.CASES, ids=lambda case: case.name)
def test_the_same_break_is_found_in_json(case: Case) -> None:
    """JSON with protobuf's camelCase names and tab indentation, as programs write it."""
    if case.expected == "duplicate-key":
        pytest.skip("a key that stands twice is gone once the file is parsed to be written as JSON")
    data = yaml.safe_load(broken(case))
    text = json.dumps(camelled(data), indent="\t")
    found = examine([parse(text.encode(), "broken.json")], case.context)
    assert case.expected in {finding.id for finding in found}


def camelled(value: object, protect: bool = False) -> object:
    """Keys in camelCase; names that are map keys (extensions, providers) stay."""
    if isinstance(value, dict):
        return {
            (key if "." in key or key.startswith("@") or protect else _camel(key)): camelled(
                item, key in ("providers", "typed_per_filter_config", "typed_extension_protocol_options")
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [camelled(item) for item in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def test_every_check_has_a_broken_configuration() -> None:
    assert set(RULES) == {case.expected for case in CASES}
    assert len(CASES) >= 25


def test_worst_comes_first() -> None:
    text = (ROOT / "envoy/mcp-router.yaml").read_text("utf-8")
    for old, new in (
        ("failure_mode_allow: false", "failure_mode_allow: true"),
        ("message_timeout: 10s", "message_timeout: 0.2s"),
        ("max_requests: 10000", "max_requests: 10"),
        ("request_body_mode: BUFFERED", "request_body_mode: NONE"),
    ):
        text = text.replace(old, new, 1)
    found = examine([parse(text.encode(), "x.yaml")], Context())
    assert [finding.rule.severity for finding in found] == [
        Severity.LEAK,
        Severity.BROKEN,
        Severity.RISK,
        Severity.NOTE,
    ]
