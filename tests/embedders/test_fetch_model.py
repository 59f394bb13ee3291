"""Against a real HTTP server on this machine."""

from __future__ import annotations

import argparse
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.cli import fetch_model
from extproc.cli.fetch_model import KNOWN, Known

FILES = {"config.json": b"{}", "tokenizer.json": b'{"t": 1}', "model.safetensors": bytes(range(256)) * 4000}
DIGESTS = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


class Hub(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(FILES)
        self.ranges: list[str | None] = []
        self.cut = 0
        self.honours_ranges = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        prefix, _, name = self.path.rpartition("/")
        self.server.ranges.append(self.headers.get("range"))
        if prefix != "/owner/tiny/resolve/v1" or name not in self.server.files:
            self.send_error(404)
            return
        data, start = self.server.files[name], 0
        if (wanted := self.headers.get("range")) and self.server.honours_ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("content-length", str(len(data) - start))
        self.end_headers()
        end = self.server.cut if name == "model.safetensors" and self.server.cut else len(data)
        self.wfile.write(data[start:end])

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_model, "KNOWN", {"tiny": Known("owner/tiny", "v1", "", DIGESTS)})


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    fetch_model.add_parser(parser.add_subparsers())
    return fetch_model.run(parser.parse_args(["fetch-model", *arguments]))


@pytest.mark.usefixtures("pinned")
def test_all_files_arrive_and_the_bar_reaches_the_end(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path)) == 0
    assert {f.name: f.read_bytes() for f in (tmp_path / "tiny").iterdir()} == FILES
    assert [f.name for f in tmp_path.iterdir()] == ["tiny"]
    printed = capsys.readouterr()
    assert "search.embedder: tiny" in printed.out
    assert "100% 1.0 of 1.0 MB" in printed.err


@pytest.mark.usefixtures("pinned")
def test_a_broken_download_goes_on_where_it_stopped(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.cut = 400_000
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path)) == 1
    assert "run it again" in capsys.readouterr().err
    assert not (tmp_path / "tiny").exists()
    hub.cut, hub.ranges = 0, []
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path)) == 0
    # Whole files are not asked for again, the cut one from where it ends.
    assert len(hub.ranges) == 1
    assert hub.ranges[0] is not None
    assert 0 < int(hub.ranges[0].removeprefix("bytes=").rstrip("-")) <= 400_000
    assert (tmp_path / "tiny" / "model.safetensors").read_bytes() == FILES["model.safetensors"]


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("honours", [True, False])
def test_a_wrong_beginning_is_thrown_away(hub: Hub, tmp_path: Path, honours: bool) -> None:
    hub.honours_ranges = honours
    part = tmp_path / "tiny.part"
    part.mkdir()
    (part / "model.safetensors").write_bytes(b"another version" * 100)
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path)) == 0
    assert (tmp_path / "tiny" / "model.safetensors").read_bytes() == FILES["model.safetensors"]


@pytest.mark.usefixtures("pinned")
def test_a_changed_file_installs_nothing_and_keeps_the_old_model(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "tiny"
    old.mkdir()
    (old / "config.json").write_text("old")
    hub.files["model.safetensors"] = b"evil"
    assert command("tiny", "--force", "--hub", hub.url, "--to", str(tmp_path)) == 1
    assert "expected" in capsys.readouterr().err
    assert (old / "config.json").read_text() == "old"
    assert not (tmp_path / "tiny.part" / "model.safetensors").exists()
    hub.files = dict(FILES)
    assert command("tiny", "--force", "--hub", hub.url, "--to", str(tmp_path)) == 0
    assert (old / "config.json").read_bytes() == FILES["config.json"]


@pytest.mark.usefixtures("pinned")
def test_what_is_there_is_left_alone(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path)) == 0
    assert hub.ranges == []


@pytest.mark.parametrize("name", [*KNOWN, "someone/else"])
def test_without_a_pinned_digest_it_refuses_before_any_request(
    name: str, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = KNOWN.get(name)
    if known and all(known.digests.values()):
        pytest.skip("the release has filled the digests in")
    assert command(name, "--hub", hub.url, "--to", str(tmp_path)) == 2
    assert "--digest model.safetensors=SHA256" in capsys.readouterr().err
    assert hub.ranges == []


def test_digests_from_the_command_line(hub: Hub, tmp_path: Path) -> None:
    digests = [
        argument for name, digest in DIGESTS.items() for argument in ("--digest", f"{name}=sha256:{digest}")
    ]
    arguments = ["owner/tiny", "--revision", "v1", "--hub", hub.url, "--to", str(tmp_path)]
    assert command(*arguments, *digests[:4]) == 2
    assert command(*arguments, *digests) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["../x"],
        ["a/.."],
        ["tiny", "--digest", "x"],
        ["owner/tiny", "--digest", "config.json=12"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*arguments) == 2
    assert capsys.readouterr().err.startswith("fetch-model: ")


@pytest.mark.usefixtures("pinned")
def test_no_network_and_no_such_model(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("tiny", "--hub", "http://127.0.0.1:9", "--to", str(tmp_path)) == 1
    assert "Without network" in capsys.readouterr().err
    del hub.files["tokenizer.json"]
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path)) == 1
    assert "404" in capsys.readouterr().err


@pytest.mark.usefixtures("pinned")
def test_a_folder_that_cannot_be_written(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert command("tiny", "--hub", hub.url, "--to", str(tmp_path / "file")) == 1
    assert "cannot write" in capsys.readouterr().err
