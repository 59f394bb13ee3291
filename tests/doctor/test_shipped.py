"""The files this project ships have nothing to complain about, alone and together."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.gateway.doctor.context import Context
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.located import read_file
from extproc.gateway.shipped import FILES
from extproc.settings import Caller, Catalog, Server, Settings

ROOT = Path(__file__).parents[2]
PROCESSORS = [name for name in FILES if name.endswith("processor.yaml")]


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_complaint(name: str) -> None:
    assert examine([read_file(ROOT / name)], Context()) == []


@pytest.mark.parametrize("folder", ["envoy/kubernetes", "agentgateway/kubernetes"])
def test_no_complaint_about_a_folder(folder: str) -> None:
    names = [name for name in FILES if name.startswith(folder) and "policy-auth" not in name]
    assert len(names) >= 2
    assert examine([read_file(ROOT / name) for name in names], Context()) == []


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("envoy/mcp-router.yaml", Settings(catalog=Catalog(url="http://127.0.0.1:10000/mcp/all"))),
        ("envoy/loopback-catalogue.yaml", Settings(catalog=Catalog(url="http://127.0.0.1:10001/mcp/all"))),
        ("envoy/single-upstream.yaml", Settings(catalog=Catalog(url="http://127.0.0.1:10000/mcp/all"))),
        ("agentgateway/buffered.yaml", Settings(catalog=Catalog(url="http://127.0.0.1:3001/mcp/all"))),
        ("envoy/mtls.yaml", Settings(server=Server(tls_cert="a", tls_key="b", tls_client_ca="c"))),
        (
            "envoy/jwt-rbac.yaml",
            Settings(
                caller=Caller(
                    attributes=("metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['sub']",)
                )
            ),
        ),
    ],
)
def test_no_complaint_with_the_settings_the_file_names(name: str, settings: Settings) -> None:
    context = Context(settings, settings.catalog.url)
    assert examine([read_file(ROOT / name)], context) == []
