"""Files that cannot be checked: a clear sentence and exit code 2, in bounded time and memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from extproc.cli import main
from extproc.gateway.doctor import located
from extproc.gateway.doctor.context import Context, seconds, size
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.located import Unreadable, parse

ROOT = Path(__file__).parents[2]
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"# only a comment\n", "holds no document"),
        (b"\x00\x01\x02", "is a binary file"),
        (b"\x7fELF\xff\xfe", "not UTF-8"),
        (b"a: [1, 2", "not YAML or JSON"),
        (b"\tkey: value", "not YAML or JSON"),
        (b"{'a': }}", "not YAML or JSON"),
        (b"just a sentence", "not an Envoy, agentgateway or Kubernetes configuration"),
        (b"[1, 2, 3]", "not an Envoy, agentgateway or Kubernetes configuration"),
        (b"services: {web: {image: nginx}}", "it has services"),
        (b"static_resources: {}", "no HTTP connection manager"),
        (b"dynamic_resources: {ads_config: {}}", "config_dump"),
        (b"? [a, b]\n: c", "a key that is not text"),
        (b"a: &a [*a]", "alias"),
        (b"[" * 500, "not YAML or JSON"),
        (b"[" * 500 + b"]" * 500, "nested"),
        (BOMB.encode(), "once aliases are followed"),
    ],
)
def test_bad_files_end_with_two(
    data: bytes,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(located, "MAX_NODES", 20_000)
    file = tmp_path / "gateway.yaml"
    file.write_bytes(data)
    assert main(["doctor", str(file)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert says in output.err
    assert "gateway.yaml" in output.err
    assert "Traceback" not in output.err


def test_a_huge_file_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(located.MAX_BYTES + 1)
    assert main(["doctor", str(file)]) == 2
    assert "bytes" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_path_that_is_no_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path / name)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_lines_are_those_of_the_keys() -> None:
    (document,) = parse(b"a:\n  b: 1\n  c:\n  - d: 2\n    e: 3\n", "x").documents
    assert (document.at("a", "b").line, document.at("a", "c", 0, "e").line) == (2, 5)
    assert document.at("a", "c", 0, "missing", "deeper").line == 4
    assert document.at("a", "c", 7).line == 3


def test_merge_keys_and_aliases_are_followed() -> None:
    text = b"base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nsame: *b\n"
    (document,) = parse(text, "x").documents
    assert document.at("use", "x").scalar == 1
    assert document.at("use", "y").scalar == 3
    assert document.at("same", "y").scalar == 2


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(
        ["", "true", "BUFFERED", "10s", "-1s", "unix:/x", "http://[", "127.0.0.1:1", "é", "(((", "Deployment"]
    )
)
_KEYS = st.sampled_from(
    [
        "static_resources",
        "listeners",
        "clusters",
        "name",
        "address",
        "socket_address",
        "port_value",
        "filter_chains",
        "filters",
        "typed_config",
        "@type",
        "http_filters",
        "processing_mode",
        "request_body_mode",
        "grpc_service",
        "envoy_grpc",
        "cluster_name",
        "route_config",
        "virtual_hosts",
        "routes",
        "match",
        "path",
        "prefix",
        "safe_regex",
        "regex",
        "configs",
        "binds",
        "port",
        "policies",
        "extProc",
        "conditional",
        "host",
        "processingOptions",
        "backends",
        "mcp",
        "targets",
        "apiVersion",
        "kind",
        "spec",
        "template",
        "containers",
        "args",
        "env",
        "readinessProbe",
        "httpGet",
        "targetRefs",
        "traffic",
        "configPatches",
        "patch",
        "value",
        "applyTo",
        "items",
        "providers",
        "forward",
    ]
)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=40,
)
_TYPES = st.sampled_from(["Deployment", "EnvoyFilter", "EnvoyExtensionPolicy", "AgentgatewayPolicy", "List"])


@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_TREES, _TYPES)
def test_any_shape_gives_findings_or_a_sentence(tree: object, kind: str) -> None:
    """Right keys with wrong contents: never an exception of another kind."""
    chain = [{"filters": [{"typed_config": {"@type": "x.HttpConnectionManager", "http_filters": tree}}]}]
    route = {"policies": {"extProc": tree}, "backends": tree}
    listener = {"filter_chains": chain, "address": tree}
    context = Context(catalogue_url="http://127.0.0.1:1/mcp")
    for document in (
        tree,
        {"static_resources": tree},
        {"static_resources": {"listeners": [listener], "clusters": tree}},
        {"http_filters": [{"name": "envoy.filters.http.ext_proc", "typed_config": tree}], "clusters": tree},
        {"binds": tree},
        {"binds": [{"port": 1, "listeners": [{"routes": [route]}]}]},
        {"apiVersion": "v1", "kind": kind, "spec": tree, "items": tree},
    ):
        try:
            found = examine([parse(json.dumps(document).encode(), "x")], context)
        except Unreadable:
            continue
        assert all(finding.rule and finding.where for finding in found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10s", 10),
        ("0.5s", 0.5),
        ("200ms", 0.2),
        ("1m30s", 90),
        ("1h", 3600),
        ("x", None),
        ("", None),
        (3, 3),
        (True, None),
    ],
)
def test_durations(text: object, value: float | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("32Mi", 33554432), ("32Ki", 32768), ("1.5Gi", 1610612736), (7, 7), ("1Q", None)],
)
def test_sizes(text: object, value: int | None) -> None:
    assert size(text) == value
