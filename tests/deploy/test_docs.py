"""The guides agree with the files, the settings and the commands they speak of."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from typing import Any

import pytest
import yaml

from extproc.cli import doctor_cmd, main
from extproc.gateway import shipped
from extproc.gateway.doctor.findings import RULES
from extproc.gateway.doctor.live import NAMES
from extproc.gateway.doctor.workload import setting_names
from tests.deploy.parts import ROOT

DOCS = ["envoy", "agentgateway", "kubernetes", "clients", "troubleshooting"]
LINKED = [*DOCS, "privacy", "catalogues", "recording"]
SECTIONS = {name.partition(".")[0] for name in setting_names()}


def text_of(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(name), flags=re.M | re.S)


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_somewhere(name: str) -> None:
    text = text_of(name)
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("http")]
    for target in targets:
        path, _, anchor = target.partition("#")
        file = (ROOT / "docs" / path) if path else ROOT / "docs" / f"{name}.md"
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), flags=re.M)
            # As the code host makes anchors: no punctuation but hyphens and underscores.
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, target


@pytest.mark.parametrize("name", DOCS)
def test_files_named_in_the_text_exist(name: str) -> None:
    for path in re.findall(r"`((?:envoy|agentgateway|docs)/[\w./-]+\.(?:yaml|md))`", text_of(name)):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("name", DOCS)
def test_settings_named_in_the_text_exist(name: str) -> None:
    found = set(re.findall(r"`(?:--)?([a-z]+\.[a-z_]+)(?:: [^`]*)?`", text_of(name)))
    named = {each for each in found if each.partition(".")[0] in SECTIONS}
    assert named <= set(setting_names())
    assert named or name == "clients"


@pytest.mark.parametrize("name", DOCS)
def test_examples_parse(name: str) -> None:
    for block in blocks(name, "json"):
        json.loads(block)
    for block in blocks(name, "yaml"):
        yaml.safe_load(block)


def commands(program: str) -> list[str]:
    found = []
    for name in DOCS:
        lines = re.findall(rf"^\$ mcp-toolsearch-extproc {program} (.+)$", text_of(name), flags=re.M)
        found += [line.partition(" #")[0].strip() for line in lines]
    return found


@pytest.mark.parametrize("arguments", commands("config"))
def test_config_commands_in_the_guides_work(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *arguments.split()]) == 0
    assert capsys.readouterr().out


def test_doctor_commands_in_the_guides_are_parsed() -> None:
    parser = argparse.ArgumentParser()
    doctor_cmd.add_parser(parser.add_subparsers())
    assert len(commands("doctor")) >= 4
    for arguments in commands("doctor"):
        parser.parse_args(["doctor", *shlex.split(arguments)])


def part(file: str, *keys: Any) -> Any:
    data = yaml.safe_load(shipped.FILES[file]())
    for key in keys:
        data = data[key]
    return data


def test_the_envoy_guide_shows_the_printed_filter_and_cluster() -> None:
    shown = [yaml.safe_load(block) for block in blocks("envoy", "yaml")]
    assert part("envoy/filter.yaml", "http_filters") in shown
    assert part("envoy/filter.yaml", "clusters") in shown


def test_the_agentgateway_guide_shows_the_printed_policy() -> None:
    shown = [yaml.safe_load(block) for block in blocks("agentgateway", "yaml")]
    route = ("binds", 0, "listeners", 0, "routes", 0, "policies", "extProc")
    assert {"extProc": part("agentgateway/buffered.yaml", *route)} in shown
    attributes = part("agentgateway/buffered-auth.yaml", *route, "requestAttributes")
    assert {"requestAttributes": attributes} in shown
    assert {"caller": {"attributes": list(attributes)}} in shown


def test_every_line_of_the_filter_is_explained() -> None:
    text = text_of("envoy")
    config = part("envoy/filter.yaml", "http_filters", 0, "typed_config")
    lines = [
        f"`{key}: {str(value).lower() if isinstance(value, bool) else value}`"
        for key, value in [
            *config["processing_mode"].items(),
            ("failure_mode_allow", config["failure_mode_allow"]),
            ("allow_mode_override", config["allow_mode_override"]),
            ("message_timeout", config["message_timeout"]),
        ]
    ]
    explained = [line for line in text.splitlines() if line.startswith("| `")]
    missing = [line for line in lines if not any(line in row for row in explained)]
    assert missing == ["`response_trailer_mode: SKIP`"] or missing == []


@pytest.mark.parametrize("folder", ["envoy", "agentgateway"])
def test_every_file_is_in_its_guide(folder: str) -> None:
    names = [name for name in shipped.FILES if name.startswith(f"{folder}/") and "kubernetes" not in name]
    assert all(f"(../{name})" in text_of(folder) for name in names)
    inside = [name for name in shipped.FILES if "/kubernetes/" in name]
    assert all(f"(../{name})" in text_of("kubernetes") for name in inside)


def test_the_clients_guide_names_the_six() -> None:
    text = text_of("clients")
    named = set(re.findall(r"\b(?:mcp__tools__|tools:)?((?:search|describe|call)_\w*tools?)\b", text))
    assert named == NAMES
    for client in (
        "Claude Code",
        "Claude Desktop",
        "Cursor",
        "VS Code",
        "ChatGPT",
        "Gemini CLI",
        "OpenAI Agents SDK",
    ):
        assert f"## {client}\n" in text
    safe = {"search_tools", "describe_tool", "call_read_tool", "call_read_tools"}
    for block in blocks("clients", "json"):
        data = json.loads(block)
        allowed = data.get("permissions", {}).get("allow") or data.get("require_approval", {}).get(
            "never", {}
        ).get("tool_names")
        if allowed:
            assert {name.rpartition("__")[2] for name in allowed} == safe


def test_findings_in_the_guide_are_those_of_the_doctor() -> None:
    text = text_of("troubleshooting")
    section = text[text.index("## Findings of the doctor") :]
    assert re.findall(r"^### (.+)$", section, flags=re.M) == [
        name
        for severity in sorted({rule.severity for rule in RULES.values()})
        for name, rule in RULES.items()
        if rule.severity is severity
    ]
    flat = " ".join(section.split())
    for rule in RULES.values():
        assert f"{rule.severity.name.capitalize()}: {rule.title}." in flat
        assert f"Left as it is: {rule.consequence}." in flat
