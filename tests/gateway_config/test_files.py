"""The configuration files are what ``config`` makes of them, and only what Envoy knows can be printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.cli import main
from extproc.gateway import messages
from extproc.gateway.doctor import envoy_filter
from extproc.gateway.shipped import FILES
from extproc.gateway.yamltext import Noted, note, plain, render, render_all, scalar
from extproc.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(FILES))
def test_file_is_the_output(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == FILES[name](), (
        f"{name} differs: run python -m extproc.gateway.shipped"
    )


def test_no_other_file_is_shipped() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("envoy", "agentgateway")
        for path in (ROOT / folder).rglob("*.*")
    }
    assert found == set(FILES)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_line_is_explained_or_plain(name: str) -> None:
    """Files are for people: a head, comments above what is unusual, no line that has to be scrolled."""
    text = FILES[name]()
    assert text.startswith("# ")
    assert text.count("#") >= 2
    assert all(len(line) <= 130 for line in text.splitlines())
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    "spoil",
    [
        {"failure_mode_alow": True},
        {"processing_mode": {"request_body_mode": "BUFFER"}},
        {"processing_mode": {"body": 1}},
        {"message_timeout": "soon"},
        {"request_attributes": "not a list"},
        {"grpc_service": []},
    ],
)
def test_a_wrong_field_cannot_be_printed(spoil: dict[str, Any]) -> None:
    good: dict[str, Any] = {"grpc_service": {"envoy_grpc": {"cluster_name": "x"}}, "message_timeout": "10s"}
    messages.check("ext_proc", good)
    with pytest.raises(ValueError, match=r"ExternalProcessor"):
        messages.check("ext_proc", {**good, **spoil})


def test_a_wrong_field_deep_inside_an_any_is_found() -> None:
    tree = plain(yaml.safe_load(FILES["envoy/mcp-router.yaml"]()))
    assert isinstance(tree, dict)
    messages.check("bootstrap", tree)
    tree["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["stat"] = 1
    with pytest.raises(ValueError, match="stat"):
        messages.check("bootstrap", tree)


def test_the_doctor_knows_every_field_of_the_filter() -> None:
    fields = {name for name in messages.KINDS["ext_proc"].__dataclass_fields__ if not name.startswith("_")}
    assert fields == set(envoy_filter.FIELDS)


def test_numbers_agree_with_the_settings() -> None:
    settings = Settings()
    text = FILES["envoy/mcp-router.yaml"]()
    assert settings.limits.request_body < 33554432
    assert "per_connection_buffer_limit_bytes: 33554432" in text
    assert f"max_requests: {settings.limits.exchanges}" in text
    assert settings.server.deadline < 10
    assert "message_timeout: 10s" in text
    port = settings.server.listen.rpartition(":")[2]
    assert f"port_value: {port}" in text


JWT = "--jwt-issuer https://i --jwt-audience x --jwt-jwks https://i/k"
TLS = "--tls-ca a --tls-cert b --tls-key c --tls-server-name d"
COMMANDS = [
    "envoy",
    "envoy --listen unix:/run/p.sock --mode full-duplex --message-timeout 30",
    "envoy --server a=h:1 --catalogue-listen 127.0.0.1:10001 --gateway-listen 0.0.0.0:80",
    "envoy --server a=h:1/x --server b=h:2 --direct-listen 127.0.0.1:10002",
    "envoy --server a=h:1/x --server b=h:2 --catalogue-path /raw --profile /mcp/a=a",
    "envoy --server a=h:1/x --server b=h:2 --repeat",
    f"envoy --server a=h:1 --repeat --mode full-duplex --catalogue-listen 127.0.0.1:10001 {JWT}",
    f"envoy --server a=h:1 {JWT} --attribute sub --attribute tenant",
    f"envoy --listen h:1 {TLS}",
    "envoy-gateway --route r --gateway g --namespace n --service s",
    f"envoy-gateway --mode full-duplex {JWT}",
    "istio --buffer-limit 5000000",
    f"istio {TLS}",
    "agentgateway --server a=127.0.0.1:9101 --catalogue-path /all",
    "agentgateway --server a=h:1 --mode full-duplex --path /x",
    f"agentgateway --server a=h:1 {JWT}",
    f"agentgateway --server a=h:1 {JWT} --catalogue-path /all",
    f"agentgateway --server a=h:1 {JWT} --catalogue-path /all --token-attribute bearer --mode full-duplex",
    f"agentgateway-kubernetes {JWT} --token-attribute bearer",
    "agentgateway-kubernetes --mode full-duplex",
    f"agentgateway-kubernetes {JWT}",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_printed_configuration_pleases_the_doctor(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", *command.split()]) == 0
    file = tmp_path / "printed.yaml"
    file.write_text(capsys.readouterr().out, "utf-8")
    assert main(["doctor", str(file)]) == 0, capsys.readouterr().out
    assert "no problem found" in capsys.readouterr().out


def test_options_show_in_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--listen", "[::1]:7", "--message-timeout", "3.5", "--buffer-limit", "70000"]
    assert (
        main(["config", "envoy", "--server", "a=[::1]:9/deep/mcp", "--gateway-listen", "[::]:80", *flags])
        == 0
    )
    text = capsys.readouterr().out
    data = yaml.safe_load(text)["static_resources"]
    listener = data["listeners"][0]
    assert listener["address"]["socket_address"] == {"address": "::", "port_value": 80}
    assert listener["per_connection_buffer_limit_bytes"] == 70000
    assert "message_timeout: 3.5s" in text
    (route,) = listener["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0][
        "routes"
    ]
    assert route["match"] == {"path": "/mcp"}
    assert route["route"]["prefix_rewrite"] == "/deep/mcp"
    endpoints = {cluster["name"]: cluster["load_assignment"]["endpoints"][0] for cluster in data["clusters"]}
    assert (
        endpoints["toolsearch"]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]["port_value"] == 7
    )
    assert all(cluster["type"] == "STATIC" for cluster in data["clusters"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nginx"], "invalid choice"),
        (["envoy", "--listen", "50051"], "--listen: '50051' is not HOST:PORT"),
        (["envoy", "--listen", "unix:relative"], "absolute path"),
        (["envoy", "--listen", "h:99999"], "--listen"),
        (["envoy", "--server", "Bad Name=h:1"], "--server"),
        (["envoy", "--server", "a=https://h:1"], "only http"),
        (["envoy", "--server", "a=h:1", "--server", "a=h:2"], "name of its own"),
        (
            ["envoy", "--server", "a=h:1", "--server", "b=h:2", "--router", "router"],
            "--router router carries one",
        ),
        (["envoy", "--catalogue-path", "/x"], "not used by envoy without --server"),
        (["envoy", "--server", "a=h:1", "--path", "mcp"], "--path"),
        (["envoy", "--server", "a=h:1", "--path", "/a b"], "--path"),
        (["envoy", "--jwt-issuer", "i"], "--jwt-audience, --jwt-jwks missing"),
        (["envoy", "--attribute", "sub"], "--attribute needs"),
        (["envoy", "--message-timeout", "0"], "--message-timeout"),
        (["envoy", "--buffer-limit", "1"], "--buffer-limit"),
        (["envoy", "--profile", "/x"], "PATH=NAME"),
        (["agentgateway"], "at least one --server"),
        (["agentgateway", "--server", "a=h:1", "--listen", "unix:/x"], "not a unix socket"),
        (["agentgateway", "--server", "a=h:1", "--catalogue-listen", "127.0.0.1:3000"], "own port"),
        (["agentgateway", "--server", "a=h:1", "--profile", "/x=y"], "not used by agentgateway"),
        (["agentgateway", "--server", "a=h:1", "--repeat"], "not used by agentgateway"),
        (["envoy", "--repeat"], "not used by envoy without --server"),
        (["istio", "--repeat"], "not used by istio"),
        (["agentgateway", "--server", "a=h:1", "--token-attribute", "t"], "--token-attribute needs"),
        (
            ["agentgateway", "--server", "a=h:1", *JWT.split(), "--token-attribute", "sub"],
            "is a claim already",
        ),
        (
            ["envoy", "--server", "a=h:1", *JWT.split(), "--token-attribute", "t"],
            "Envoy leaves Authorization",
        ),
        (["envoy-gateway", *JWT.split(), "--token-attribute", "t"], "not used by envoy-gateway"),
        (["envoy-gateway", "--server", "a=h:1"], "not used by envoy-gateway"),
        (["istio", "--catalogue-path", "/x"], "not used by istio"),
    ],
)
def test_wrong_usage_ends_with_two(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["config", *arguments])
    except SystemExit as stopped:
        code = int(str(stopped.code))
    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert says in output.err


@pytest.mark.parametrize(
    "value",
    [
        "",
        "true",
        "No",
        "null",
        "1",
        "1.5",
        "0x1",
        "10s",
        "127.0.0.1",
        "::1",
        "a: b",
        "a #b",
        "- x",
        "*x",
        "&x",
        "!x",
        "'",
        '"',
        "a\\b",
        "{x}",
        "[x]",
        "%x",
        "@x",
        "`",
        "?",
        "~",
        ".",
        "1_000",
        "1e3",
        "2026-07-28",
        "a'b\"c",
        "é",
        "\t",
        "x\ny",
        "x\ny\n",
        "--flag",
        "=",
        "<<",
        "http://h:1/p",
        "h:1",
        "a:",
        "12:30:45",
        "32Mi",
        " x",
        "x ",
    ],
)
def test_text_survives_yaml(value: str) -> None:
    tree = {"key": value, "list": [value, {"inner": value}], "flow": [value]}
    assert yaml.safe_load(render(tree)) == tree


def test_comments_fold_and_stay_out_of_the_data() -> None:
    tree = {"a": note("why  this\n is so " * 20, {"b": note("inner", [1, note("item", {"c": True})])})}
    text = render(tree, "head\n\nsecond")
    assert yaml.safe_load(text) == plain(tree) == {"a": {"b": [1, {"c": True}]}}
    assert text.startswith("# head\n#\n# second\n")
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "# item" in text
    documents = list(yaml.safe_load_all(render_all([Noted("first", {"x": 1}), {"y": 2}])))
    assert documents == [{"x": 1}, {"y": 2}]
    assert scalar(None) == "null"


def test_serving_loads_none_of_this() -> None:
    code = (
        "import sys, extproc.cli.serve, extproc.server.app; "
        "print([name for name in sys.modules if name.startswith(('extproc.gateway', 'envoy_data_plane'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
