"""Each thing the doctor promises to find, by name: the finding, and where it has a broken configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.cli import main
from extproc.gateway.doctor.findings import RULES, Severity
from tests.doctor import cases_agentgateway, cases_envoy, cases_kubernetes
from tests.doctor.cases import Case, broken

E, A, K = "Envoy", "agentgateway", "Kubernetes"
CASES: dict[str, list[Case]] = {
    E: cases_envoy.CASES,
    A: cases_agentgateway.CASES,
    K: cases_kubernetes.CASES,
}

PROMISED: dict[str, dict[str, tuple[str, ...]]] = {
    "missing or wrong body modes": {
        "request-body-mode": (E, A, K),
        "response-body-mode": (E,),
        "mixed-duplex": (E, A),
        "duplex-trailers": (E, A),
    },
    "headers skipped": {
        "request-headers-skipped": (E, A, K),
        "response-headers-skipped": (E, A, K),
    },
    "no allow_mode_override": {"mode-override-off": (E, A, K)},
    "allowed_override_modes lacks ours": {"override-modes-lack-ours": (E,)},
    "failure_mode_allow: true": {"failure-mode-open": (E, A, K)},
    "message timeout under 1 s": {"message-timeout": (E, K)},
    "buffer limit too small": {"buffer-limit": (E, A, K)},
    "HTTP/1 ext_proc cluster": {"cluster-http1": (E,)},
    "ext_proc before authentication": {"processor-before-auth": (E, K)},
    "ext_proc after the MCP router": {"processor-after-mcp": (E,)},
    "compression in front": {"compressed-responses": (E,)},
    "raw route reachable from outside": {"raw-route-open": (E, A), "raw-route-anonymous": (E, A)},
    "catalogue URL loops": {"catalogue-loop": (E, A)},
    "JWT policy without attributes": {
        "identity-lost": (E, A, K),
        "catalogue-token-lost": (E, A, K),
        "attributes-missing": (E,),
    },
    "full duplex with long GET streams": {"duplex-get": (E, A)},
    "half-sent requests that stay": {"request-timeout": (E, K)},
    "a renamed filter": {"route-misses-filter": (E,)},
    "two copies of the filter": {"two-filters": (E, A)},
}
ROWS = [
    (promise, finding, gateway)
    for promise, findings in PROMISED.items()
    for finding, gateways in findings.items()
    for gateway in gateways
]


@pytest.mark.parametrize(("promise", "finding", "gateway"), ROWS)
def test_what_is_promised_is_found(
    promise: str, finding: str, gateway: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [case for case in CASES[gateway] if case.expected == finding]
    assert cases, f"{promise}: no broken {gateway} configuration"
    severity = RULES[finding].severity
    for number, case in enumerate(cases):
        file = tmp_path / f"broken-{number}.yaml"
        file.write_text(broken(case), "utf-8")
        flags = ["--catalogue-url", case.context.catalogue_url] if case.context.catalogue_url else []
        code = main(["doctor", *flags, str(file)])
        said = capsys.readouterr().out
        if case.context.settings is not None:
            continue  # compared with settings in test_broken, which a flag of a file would only repeat
        blocks = [part for part in said.split("\n\n") if f"[{finding}]" in part and f"{file}:" in part]
        assert blocks, said
        for block in blocks:
            assert RULES[finding].consequence in " ".join(block.split())
            assert "  mend:" in block
        if severity is not Severity.NOTE:
            assert code == 1


def test_there_are_enough_of_them() -> None:
    assert sum(len(cases) for cases in CASES.values()) >= 25
    assert len({case.expected for cases in CASES.values() for case in cases}) == len(RULES)
