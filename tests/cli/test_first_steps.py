"""What a newcomer reads and pastes: README.md, the demo's words, the files that the guides name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from demo.__main__ import PORT, taken
from extproc.cli import main
from extproc.gateway.doctor.findings import RULES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
QUALITY = (ROOT / "docs" / "search-quality.md").read_text("utf-8")


def test_the_demo_says_when_its_port_is_taken() -> None:
    assert taken(f"http://127.0.0.1:{PORT}/mcp") == ""
    assert taken("http://127.0.0.1:4321/mcp") == f"port {PORT} is taken, using 4321\n"


def test_the_port_of_the_demo_is_that_of_its_file() -> None:
    config = yaml.safe_load((ROOT / "envoy" / "mcp-router.yaml").read_text("utf-8"))
    listener = config["static_resources"]["listeners"][0]
    assert listener["address"]["socket_address"]["port_value"] == PORT
    assert f"localhost:{PORT}/" in README


def offline() -> list[str]:
    """Every command of these two that works on files of the repository."""
    found = re.findall(r"mcp-toolsearch-extproc (\w+ --catalog [^`#\n]+)", README + QUALITY)
    return [line.strip() for line in found]


@pytest.mark.parametrize("line", offline())
def test_what_is_shown_with_files_works_as_it_is(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    more = [] if line.startswith("savings") else ["--embedder", "none"]
    assert main([*shlex.split(line), *more]) == 0
    assert capsys.readouterr().out


def test_all_three_commands_are_shown_with_files() -> None:
    assert {line.partition(" ")[0] for line in offline()} == {"savings", "search", "eval"}


def test_what_the_pasted_filter_still_lacks_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    http_filter, cluster = (
        yaml.safe_load(text)[0] for text in re.findall(r"```yaml\n(.*?)```", README, re.S)
    )
    kind = "type.googleapis.com/envoy.extensions.filters"
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{kind}.http.router.v3.Router"},
    }
    route = {"match": {"path": "/mcp"}, "route": {"cluster": "toolsearch"}}
    manager = {
        "@type": f"{kind}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "mcp",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [http_filter, router],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    address = {"socket_address": {"address": "127.0.0.1", "port_value": 10000}}
    listener = {"name": "mcp", "address": address, "filter_chains": [chain]}
    file = tmp_path / "envoy.yaml"
    file.write_text(yaml.safe_dump({"static_resources": {"listeners": [listener], "clusters": [cluster]}}))
    main(["doctor", str(file)])
    told = capsys.readouterr().out
    rules = re.findall(r"(?:LEAK|BROKEN|RISK): .*\[([\w-]+)\]$", told, re.M)
    assert rules
    assert {*rules} <= {*RULES}
    for mend in re.findall(r"(?:LEAK|BROKEN|RISK): .*\[[\w-]+\]\n(?:.*\n)*?  mend: +(.*)", told):
        assert f"`{mend}`" in README


def test_every_reason_of_a_refusal_is_documented() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "extproc").rglob("*.py"))
    reasons = set(re.findall(r'refusals\.labels\("(\w+)"\)', sources))
    row = next(
        line
        for line in (ROOT / "docs" / "configuration.md").read_text("utf-8").splitlines()
        if "toolsearch_refusals_total" in line
    )
    assert "request" in reasons
    assert {*re.findall(r"`(\w+)`:", row)} == reasons
