"""Every standalone file of agentgateway, asked through: on ``AGENTGATEWAY_BIN``, or else on the stand-in."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.gateway_config.conftest import Issuer
from tests.gateway_config.test_envoy_runs import HEADERS, INITIALIZE, good, live
from tests.harness import stack
from tests.harness.client import MODERN, Wire
from tests.harness.gateway import AGENTGATEWAY
from tests.harness.processes import ROOT
from tests.harness.stack import Stack

STAND_IN = ROOT / "tests" / "agentgateway" / "stand_in" / "agentgateway"
FOLDER = ROOT / "agentgateway"
WITH_KEYS = ["buffered-auth", "full-duplex-auth", "buffered-auth-catalogue"]
ALICE, BOB = "al-4711", "bo-0815"


@contextlib.contextmanager
def running(config: dict[str, Any], folder: Path, *, route: bool = False, **settings: Any) -> Iterator[Stack]:
    """The fixture server behind agentgateway with this file."""
    file = folder / "changed.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGATEWAY_BIN", os.environ.get("AGENTGATEWAY_BIN", "") or str(STAND_IN))
        patch.setenv("STAND_IN_PYTHON", sys.executable)
        patch.setitem(AGENTGATEWAY, "changed", file)
        with stack.single_upstream(folder, gateway="changed", catalogue_route=route, **settings) as started:
            yield started


def shipped(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    return config


def with_keys(name: str, issuer: Issuer) -> dict[str, Any]:
    """The file with the keys on disk instead of at the issuer's."""
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    assert "url: https://id.example.com/.well-known/jwks.json" in text
    text = text.replace("url: https://id.example.com/.well-known/jwks.json", f"file: {issuer.jwks}")
    config: dict[str, Any] = yaml.safe_load(text)
    return config


def token(issuer: Issuer, sub: str) -> str:
    return issuer.token(sub=sub)


@pytest.mark.parametrize("name", ["buffered", "full-duplex", "compose"])
def test_both_eras_through_the_file(name: str, tmp_path: Path) -> None:
    with running(shipped(name), tmp_path) as started:
        assert good(live(started.url))


def test_a_policy_with_a_host_and_no_more(tmp_path: Path) -> None:
    """What is not said is full duplex, GET streams included."""
    config = shipped("buffered")
    policies = config["binds"][0]["listeners"][0]["routes"][0]["policies"]
    policies["extProc"] = {"host": "replaced"}
    with running(config, tmp_path) as started:
        assert good(live(started.url))


def test_buffered_partial_is_refused_with_the_mend(tmp_path: Path) -> None:
    config = shipped("buffered")
    policy = config["binds"][0]["listeners"][0]["routes"][0]["policies"]["extProc"]
    policy["processingOptions"]["requestBodyMode"] = "bufferedPartial"
    with running(config, tmp_path) as started:
        steps = live(started.url)
        assert all(step.failed for step in steps)
        assert "requestBodyMode: buffered" in started.processor.process.log_text()
        assert started.office.received() == []


@pytest.mark.parametrize("name", WITH_KEYS)
def test_tokens_are_asked_for_and_taken_off(name: str, tmp_path: Path, issuer: Issuer) -> None:
    route = name.endswith("catalogue")
    catalog = {"token_attribute": "token"} if route else {}
    settings: dict[str, Any] = {"caller": {"attributes": ["sub"]}, "catalog": catalog}
    with running(with_keys(name, issuer), tmp_path, route=route, **settings) as started:
        refused = httpx.post(started.url, json=INITIALIZE, headers=HEADERS, timeout=30)
        assert refused.status_code == 401
        assert "resource_metadata" in refused.headers["www-authenticate"]
        told = httpx.get(started.gateway.url("/.well-known/oauth-protected-resource/mcp"), timeout=30)
        assert told.status_code == 200
        assert "id.example.com" in told.text
        for sub in (ALICE, BOB):
            steps = live(started.url, token(issuer, sub))
            assert good(steps)
            listed = next(step.what for step in steps if step.name.startswith("tools/list"))
            assert listed.startswith("6 tools" if route else "5 tools")
        seen = started.office.received()
        log, metrics = started.processor.process.log_text(), started.processor.metrics()
    assert seen
    assert not [name for each in seen for name, _ in each["headers"] if name == "authorization"]
    assert "neither a credential nor" not in log
    for text in (log, metrics):
        assert not any(part in text for part in (ALICE, BOB, "eyJ"))


async def test_each_caller_is_one_by_its_attribute(tmp_path: Path, issuer: Issuer) -> None:
    """A refreshed token keeps its catalogue, another subject does not get it."""
    settings: dict[str, Any] = {"caller": {"attributes": ["sub"]}, "search": {"embedder": "none"}}
    with running(with_keys("buffered-auth", issuer), tmp_path, **settings) as started:

        async def search(sub: str) -> int:
            """Lists the server was asked for."""
            started.office.forget()
            async with Wire(started.url, MODERN, issuer.token(sub=sub, nonce=os.urandom(4).hex())) as wire:
                assert "fixture_echo" in (await wire.search("fixture_echo")).text
            return sum(["mcp-method", "tools/list"] in each["headers"] for each in started.office.received())

        assert await search(ALICE) == 1
        assert await search(ALICE) == 0
        assert await search(BOB) == 1


def test_without_attributes_it_is_said_and_counted(tmp_path: Path, issuer: Issuer) -> None:
    config = with_keys("buffered-auth", issuer)
    del config["binds"][0]["listeners"][0]["routes"][0]["policies"]["extProc"]["requestAttributes"]
    with running(config, tmp_path, caller={"attributes": ["sub"]}) as started:
        assert good(live(started.url, token(issuer, ALICE)))
        log = started.processor.process.log_text()
        metrics = started.processor.metrics()
    assert log.count("requestAttributes: {sub: jwt.sub}") == 1
    (line,) = [
        line
        for line in metrics.splitlines()
        if line.startswith('toolsearch_warnings_total{setting="caller.attributes"}')
    ]
    assert float(line.rpartition(" ")[2]) >= 3


def test_every_file_is_run() -> None:
    files = {path.stem for path in FOLDER.glob("*.yaml")}
    assert files == {"buffered", "full-duplex", "compose", *WITH_KEYS}
