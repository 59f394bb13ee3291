"""``doctor --live`` as an operator runs it: through the real gateway, with each thing that can be wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import stack
from tests.harness.processes import ROOT, free_ports
from tests.harness.stack import Stack

TOKEN = "s3cret-of-the-operator"


@pytest.fixture(scope="module")
def _own(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack.single_upstream(tmp_path_factory.mktemp("live"), gateway=gateway) as running:
        yield running


@pytest.fixture
def own(_own: Stack) -> Stack:
    _own.office.reset()
    return _own


def doctor(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "extproc", "doctor", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in run.stdout + run.stderr
    assert TOKEN not in run.stdout + run.stderr
    return run.returncode, run.stdout, run.stderr


def steps(text: str) -> dict[str, str]:
    """Step to its mark."""
    found = {}
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark in ("ok", "skipped", "FAILED"):
            found[rest.strip().split(": ")[0]] = mark
    return found


def test_both_eras_with_a_credential(own: Stack) -> None:
    own.office.set(require_token=True, tokens={TOKEN: ["*"]})
    code, said, _ = doctor("--live", own.url, "--header", f"Authorization: Bearer {TOKEN}")
    assert code == 0, said
    assert set(steps(said).values()) == {"ok"}
    names = " ".join(steps(said))
    for step in ("initialize (", "server/discover (2026-07-28)", "tools/list (", "search_tools (2026-07-28)"):
        assert step in names
    assert "instructions carry the guidance" in said
    methods = {request["method"] for request in own.office.received()}
    assert methods == {"POST", "DELETE"}, "the session is ended"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_of_one_era_is_no_fault(own: Stack, era: str) -> None:
    own.office.set(era=era)
    code, said, _ = doctor("--live", own.url, "--header", "x-api-key: k")
    assert code == 0, said
    assert list(steps(said).values()).count("skipped") == 1


@pytest.mark.parametrize("fault", ["500", "503", "reset"])
@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_an_era_that_fails_is_a_fault(own: Stack, method: str, fault: str) -> None:
    own.office.set(faults={method: fault})
    code, said, _ = doctor("--live", own.url, "--header", "x-api-key: k")
    assert code == 1, said
    (failed,) = (name for name, mark in steps(said).items() if mark == "FAILED")
    assert failed.startswith(method)
    assert "ok" in steps(said).values()


def test_without_a_credential(own: Stack) -> None:
    own.office.set(require_token=True, tokens={TOKEN: ["*"]})
    code, said, _ = doctor("--live", own.url)
    assert code == 1
    assert "HTTP 401 with a challenge" in said
    assert "mend: give credentials with --header" in said
    assert set(steps(said).values()) == {"FAILED"}


def test_with_the_credential_of_nobody(own: Stack) -> None:
    own.office.set(require_token=True, tokens={"another": ["*"]})
    code, said, _ = doctor("--live", own.url, "--header", f"Authorization: Bearer {TOKEN}")
    assert code == 1
    assert "HTTP 401" in said


def test_the_raw_route(own: Stack) -> None:
    code, said, _ = doctor("--live", own.raw_url, "--header", "x-api-key: k")
    assert code == 1
    assert "and not the six: the response does not pass the processor" in said
    assert "mend: check the route's filter with doctor FILE" in said


def test_the_server_behind_the_gateway_fails(own: Stack) -> None:
    own.office.set(faults={"tools/list": "503"})
    code, said, _ = doctor("--live", own.url, "--header", "x-api-key: nobody-knows-yet")
    assert code == 1
    assert "FAILED" in said
    assert steps(said)["initialize (2025-06-18)"] == "ok"


def test_file_and_gateway_together(own: Stack, tmp_path: Path) -> None:
    good, bad = ROOT / "envoy" / "single-upstream.yaml", tmp_path / "bad.yaml"
    bad.write_text(good.read_text("utf-8").replace("failure_mode_allow: false", "failure_mode_allow: true"))
    code, said, _ = doctor(str(good), "--live", own.url, "--header", "x-api-key: k")
    assert code == 0, said
    code, said, _ = doctor(str(bad), "--live", own.url, "--header", "x-api-key: k")
    assert code == 1
    assert "[failure-mode-open]" in said
    assert "FAILED" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--live", "ftp://gateway/mcp"],
        ["--live", "not a url"],
        ["--live", "http://127.0.0.1:1/mcp", "--header", "no colon"],
        ["--live", "http://127.0.0.1:1/mcp", "--header", f"Authorization: {TOKEN}\nx-evil: 1"],
        ["--live", "http://127.0.0.1:1/mcp", "--header", f"x-k: ž{TOKEN}"],
        ["--live", "http://127.0.0.1:1/mcp", "--timeout", "0"],
        [],
    ],
)
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    code, said, problem = doctor(*arguments)
    assert code == 2
    assert said == ""
    assert problem.strip()


def test_nobody_listens() -> None:
    code, said, _ = doctor("--live", f"http://127.0.0.1:{free_ports(1)[0]}/mcp")
    assert code == 1
    assert list(steps(said).values()) == ["FAILED"], "said once"
    assert "no connection" in said


def test_a_processor_that_is_down_and_a_gateway_that_is_gone(gateway: str, tmp_path: Path) -> None:
    with stack.single_upstream(tmp_path, gateway=gateway) as running:
        assert doctor("--live", running.url, "--header", "x-api-key: k")[0] == 0
        running.processor.stop()
        code, said, _ = doctor("--live", running.url, "--header", "x-api-key: k")
        assert code == 1
        assert ("HTTP 500, empty body" if gateway == "envoy" else "HTTP 500") in said
        assert "mend: the gateway does not reach the processor" in said
        running.gateway.stop()
        code, said, _ = doctor("--live", running.url)
        assert code == 1
        assert "no connection" in said
