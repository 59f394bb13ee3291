"""The command: texts, JSON, exit codes, standard input, and a live admin address."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from extproc.cli import main
from extproc.gateway.doctor import located
from extproc.gateway.doctor.findings import RULES

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "envoy" / "mcp-router.yaml"


@contextmanager
def serving(status: int, body: bytes) -> Iterator[str]:
    """An HTTP server on this host that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    paths: list[str] = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
        assert paths == ["/config_dump"]
    finally:
        server.shutdown()
        server.server_close()


def config_dump(text: str) -> bytes:
    """What an Envoy with this bootstrap shows at /config_dump, as far as the doctor looks."""
    static = yaml.safe_load(text)["static_resources"]
    listener, *_ = static["listeners"]
    return json.dumps(
        {
            "configs": [
                {
                    "@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump",
                    "dynamic_active_clusters": [{"cluster": each} for each in static["clusters"]],
                },
                {
                    "@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump",
                    "dynamic_listeners": [{"name": "mcp", "active_state": {"listener": listener}}],
                },
            ]
        },
        indent=1,
    ).encode()


def test_nothing_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(GOOD)]) == 0
    assert capsys.readouterr().out == f"{GOOD}: no problem found\n"


def test_text_says_where_what_why_and_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "e.yaml"
    text = GOOD.read_text("utf-8").replace("failure_mode_allow: false", "failure_mode_allow: true")
    file.write_text(text, "utf-8")
    line = next(index for index, each in enumerate(text.splitlines(), 1) if "failure_mode_allow" in each)
    assert main(["doctor", str(file)]) == 1
    output = capsys.readouterr().out
    assert f"{file}:{line}: LEAK: " in output
    assert "[failure-mode-open]" in output
    assert "mend:        failure_mode_allow: false" in output
    assert RULES["failure-mode-open"].consequence in output
    assert f"{file}: 1 problem" in output


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "e.yaml"
    text = GOOD.read_text("utf-8").replace("allow_mode_override: true", "allow_mode_override: false")
    file.write_text(text, "utf-8")
    assert main(["doctor", "--json", str(file)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["id"] == "mode-override-off"
    assert finding["severity"] == "broken"
    assert finding["path"].endswith("typed_config.allow_mode_override")
    assert "allow_mode_override" in text.splitlines()[finding["line"] - 1]


def test_a_note_alone_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(GOOD.read_text("utf-8").replace("max_requests: 10000", "max_requests: 9", 1), "utf-8")
    assert main(["doctor", str(file)]) == 0
    assert "no problem found, 1 note" in capsys.readouterr().out


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.read_bytes())))
    assert main(["doctor", "-"]) == 0
    assert "-: no problem found" in capsys.readouterr().out


def test_a_running_envoy_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.read_text("utf-8")
    with serving(200, config_dump(text)) as url:
        assert main(["doctor", url]) == 0
    broken = text.replace("request_body_mode: BUFFERED", "request_body_mode: NONE")
    with serving(200, config_dump(broken)) as url:
        assert main(["doctor", f"{url}/"]) == 1
    output = capsys.readouterr().out
    assert "[request-body-mode]" in output
    assert "at:          configs.1.dynamic_listeners.0.active_state.listener." in output


def test_a_large_dump_is_read_without_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(located, "LINES_UP_TO", 1000)
    text = GOOD.read_text("utf-8")
    for spoilt, code in ((text, 0), (text.replace("message_timeout: 10s", "message_timeout: 0.1s"), 1)):
        with serving(200, config_dump(spoilt)) as url:
            assert main(["doctor", url]) == code
    assert "/config_dump:1: RISK" in capsys.readouterr().out
    for body in (b"{" + b'"a":' * 1000, b"[" * 3000 + b"]" * 3000, b"{}" * 600):
        with serving(200, body) as url:
            assert main(["doctor", url]) == 2


def test_routes_from_a_control_plane_are_followed(capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.read_text("utf-8").replace(
        "address: 127.0.0.1\n        port_value: 10000", "address: 0.0.0.0\n        port_value: 10000"
    )
    dump = json.loads(config_dump(text))
    manager = dump["configs"][1]["dynamic_listeners"][0]["active_state"]["listener"]["filter_chains"][0][
        "filters"
    ][0]
    routes = manager["typed_config"].pop("route_config")
    manager["typed_config"]["rds"] = {"route_config_name": "mcp"}
    typed = {"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", **routes}
    dump["configs"].append({"dynamic_route_configs": [{"route_config": typed}]})
    with serving(200, json.dumps(dump).encode()) as url:
        assert main(["doctor", url]) == 1
    assert "[raw-route-open]" in capsys.readouterr().out


def test_an_address_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(404, b"nope") as url:
        assert main(["doctor", url]) == 2
    assert main(["doctor", url]) == 2
    assert main(["doctor", "http://[::1"]) == 2
    assert "HTTP 404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "needs a FILE or URL"),
        (["--live", "ftp://x"], "not an http"),
        (["--live", "http://x", "--header", "no colon"], "NAME: VALUE"),
        (["--timeout", "0", "x"], "--timeout"),
        (["--catalogue-url", "nonsense", str(GOOD)], "--catalogue-url"),
        (["--settings", "/nonexistent.yaml", str(GOOD)], "nonexistent"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_settings_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("catalog: {url: 'http://127.0.0.1:10000/mcp'}\n", "utf-8")
    assert main(["doctor", "--settings", str(file), str(GOOD)]) == 1
    assert "[catalogue-loop]" in capsys.readouterr().out


def test_neither_grpc_nor_envoy_messages_are_loaded() -> None:
    """The doctor has to run where only the file is: no gRPC, no protobuf stubs."""
    code = (
        "import sys; from extproc.cli import main; code = main(['doctor', sys.argv[1]]); "
        "heavy = ('grpc', 'envoy_data_plane', 'google'); "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in heavy)); "
        "raise SystemExit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(GOOD)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_finding_is_documented() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    missing = [name for name in RULES if f"### {name}\n" not in text]
    assert missing == []
