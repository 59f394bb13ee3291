"""What happens when ``AGENTGATEWAY_BIN`` is set, shown with a stand-in that only reads its file and listens.

It answers nothing: that the real gateway does what its configuration says is for the real one to show.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from extproc.gateway.doctor.context import Context
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.findings import Severity
from extproc.gateway.doctor.located import parse
from tests.harness import stack
from tests.harness.gateway import AGENTGATEWAY
from tests.harness.processes import ROOT, listening

STAND_IN = """#!{python}
import socket, sys, time
import yaml
arguments = sys.argv[1:]
config = yaml.safe_load(open(arguments[arguments.index("-f") + 1]))
ports = [bind["port"] for bind in config["binds"]]
if "--validate-only" in arguments:
    sys.exit(0)
open({seen!r}, "a").write(" ".join(arguments) + "\\n")
sockets = [socket.create_server(("127.0.0.1", port)) for port in ports]
time.sleep(600)
"""


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "stand-in"
    file.write_text(STAND_IN.format(python=sys.executable, seen=str(tmp_path / "seen")), "utf-8")
    file.chmod(0o755)
    monkeypatch.setenv("AGENTGATEWAY_BIN", str(file))
    return file


@pytest.mark.parametrize("name", AGENTGATEWAY)
def test_a_set_up_starts_the_binary_with_the_shipped_file(name: str, binary: Path, tmp_path: Path) -> None:
    with stack.single_upstream(tmp_path, gateway=name, catalogue_route=True) as running:
        gateway = running.gateway
        (command,) = (tmp_path / "seen").read_text("utf-8").splitlines()
        written = Path(command.removeprefix("-f "))
        config = yaml.safe_load(written.read_text("utf-8"))
        assert listening(gateway.port)
        assert running.processor.settings["catalog"]["url"] == running.raw_url
    assert not listening(gateway.port)
    shipped = yaml.safe_load(AGENTGATEWAY[name].read_text("utf-8"))
    assert policy(config).pop("host") == f"127.0.0.1:{running.processor.port}"
    assert policy(shipped).pop("host") == "127.0.0.1:50051"
    assert policy(config) == policy(shipped)
    for bind, of_the_file in zip(config["binds"], shipped["binds"], strict=True):
        route, original = (each["listeners"][0]["routes"][0] for each in (bind, of_the_file))
        assert route["matches"] == original["matches"]
        assert route["backends"][0]["mcp"]["targets"] == [
            {"name": "office", "mcp": {"host": running.office.url}}
        ]
    assert [running.url, running.raw_url] == [
        f"http://127.0.0.1:{bind['port']}{bind['listeners'][0]['routes'][0]['matches'][0]['path']['exact']}"
        for bind in config["binds"]
    ]
    found = examine([parse(written.read_bytes(), written.name)], Context())
    assert [finding.id for finding in found if finding.rule.severity is not Severity.NOTE] == []


def policy(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = config["binds"][0]["listeners"][0]["routes"][0]["policies"]["extProc"]
    return found["conditional"][0] if "conditional" in found else found


OVER_A_GATEWAY = (
    *("batch", "calls", "canary", "catalogue_route", "doctor_live", "full_duplex", "ids", "nameless"),
    *("outage", "protocol", "python_client", "savings", "soak", "streams", "typescript_client"),
)


def test_the_same_tests_are_asked_of_it(binary: Path) -> None:
    """Every test over a gateway has one run on Envoy and one for each file of agentgateway."""
    files = [f"tests/e2e/test_{name}.py" for name in OVER_A_GATEWAY]
    command = [sys.executable, "-m", "pytest", "--collect-only", *files]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stdout[-2000:]
    names = {line for line in run.stdout.splitlines() if "::" in line}
    on_envoy = {name for name in names if re.search(r"[\[-]envoy[\]-]", name)}
    assert len(on_envoy) > 300
    missing = set()
    for gateway in AGENTGATEWAY:
        twins = {name: re.sub(r"([\[-])envoy([\]-])", rf"\1{gateway}\2", name) for name in on_envoy}
        missing |= {name for name, twin in twins.items() if twin not in names}
    # Its buffered file has no part in the tests of full duplex.
    assert {name.partition("::")[0] for name in missing} == {"tests/e2e/test_full_duplex.py"}
    others = {re.sub(r"\[.*", "", name) for name in names - on_envoy}
    others -= {re.sub(r"\[.*", "", name) for name in on_envoy}
    assert {name.partition("tests/e2e/")[2] for name in others} == WITHOUT_A_GATEWAY


WITHOUT_A_GATEWAY = {
    "test_canary.py::test_a_canary_is_found_in_every_form",
    "test_canary.py::test_a_secret_in_the_memory_of_the_store_would_be_found",
    "test_doctor_live.py::test_wrong_usage_ends_with_two",
    "test_doctor_live.py::test_nobody_listens",
    "test_savings.py::test_savings_of_a_file",
    "test_savings.py::test_nothing_there_is_a_problem",
    "test_savings.py::test_bad_files_are_named",
}


def test_without_the_binary_only_envoy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGATEWAY_BIN", raising=False)
    assert stack.gateways() == ["envoy"]


def test_the_shipped_files_are_shown_to_the_binary(binary: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "tests/gateway_config/test_agentgateway_accepts.py"]
    run = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stdout[-2000:]
    assert "skipped" not in run.stdout


def test_the_stand_in_answers_nothing(binary: Path, tmp_path: Path) -> None:
    with stack.single_upstream(tmp_path, gateway="agentgateway") as running, pytest.raises(httpx.HTTPError):
        httpx.get(running.url, timeout=0.2)
