"""The command as a process and as a function."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

import extproc.cli
from extproc.cli import UsageError, main
from extproc.cli.setting_help import help_text, remarks
from extproc.config_checks import describe, leaves

COMMAND = [sys.executable, "-m", "extproc"]


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=os.environ | environ, check=False
    )


def test_check_says_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--check"]) == 0
    assert "settings are fine" in capsys.readouterr().out


def test_check_names_the_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("profiles: {a: , b: {search: {limit: 1}}}")
    assert main(["serve", "--check", "--config", str(file)]) == 0
    assert "a, b" in capsys.readouterr().out


def test_wrong_settings_are_wrong_usage() -> None:
    result = run("serve", "--check", "--search.limit", "many", TOOLSEARCH_SEARCH__LIMT="3")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "--search.limit" in result.stderr
    assert "did you mean search.limit?" in result.stderr
    assert "Traceback" not in result.stderr


def test_flags_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSEARCH_SEARCH__LIMIT", "many")
    assert main(["serve", "--check"]) == 2
    assert main(["serve", "--check", "--search.limit", "3"]) == 0


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--search.limt", "--search.limit"),
        ("--listn", "--listen"),
        ("--server.socket-mode", "--server.socket_mode"),
    ],
)
def test_an_unknown_flag_names_the_nearest(flag: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--check", flag, "secret-value"]) == 2
    message = capsys.readouterr().err
    assert f"{flag}: unknown argument; did you mean {hint}?" in message
    assert "secret-value" not in message


def test_a_stray_word_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--check", "now"]) == 2
    assert "now: unknown argument" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["serv"], ["serve", "--config"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith("mcp-toolsearch-extproc ")
    usage = run("serve", "--help").stdout
    assert "--listen" in usage
    assert "--limits.exchanges" in usage


@pytest.mark.parametrize(("key", "field"), list(leaves()), ids=[key for key, _ in leaves()])
def test_every_flag_says_what_it_is_for(key: str, field: FieldInfo) -> None:
    text = help_text(key, field, remarks())
    assert " (" in text
    assert describe(field) in text
    default = field.get_default(call_default_factory=True)
    if isinstance(default, int | float) and not isinstance(default, bool):
        assert f"default: {default})" in text


def test_check_loads_neither_grpc_nor_search() -> None:
    code = (
        "import sys; from extproc.cli import main; main(['serve', '--check']);"
        "print([m for m in ('grpc', 'numpy', 'uvloop', 'httpx') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_check_tells_all_kinds_of_problems_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    flags = {
        "search.limit": "many",
        "search.embedder": "/no/such",
        "catalog.url": "gateway",
        "server.listen": "unix:/no/such/socket",
        "telemetry.record": "/no/such/record",
    }
    assert main(["serve", "--check", *(f"--{key}={value}" for key, value in flags.items())]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == len(flags)
    for key in flags:
        assert f"(from --{key})" in told
    assert told.count("the folder /no/such does not exist") == 2


def test_check_looks_at_the_files_that_serving_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record, listen = str(tmp_path / "record"), f"unix:{tmp_path / 'socket'}"
    check = ["serve", "--check", f"--telemetry.record={record}", f"--listen={listen}"]
    assert main(check) == 0
    assert not any(tmp_path.iterdir())
    assert main(["serve", "--check", f"--telemetry.record={tmp_path}"]) == 2
    assert "is a folder" in capsys.readouterr().err
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert main(check) == 2
    told = capsys.readouterr().err
    assert told.count(f"nothing may be written into the folder {tmp_path}") == 2
    Path(record).touch()
    assert main(check) == 2
    assert f"{record} may not be written" in capsys.readouterr().err


def test_a_socket_in_a_folder_that_is_not_there_ends_with_1(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "socket"
    result = run("serve", "--listen", f"unix:{nowhere}", "--admin", "", "--search.embedder", "none")
    assert result.returncode == 1
    assert f"the folder {nowhere.parent} does not exist" in result.stderr
    assert "in use" not in result.stderr


def test_a_taken_address_ends_with_1(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    result = run("serve", "--listen", f"unix:{in_the_way}", "--admin", "", "--search.embedder", "none")
    assert result.returncode == 1
    assert "is not a socket" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_serving_quietly(number: signal.Signals) -> None:
    flags = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--search.embedder", "none"]
    process = subprocess.Popen([*COMMAND, "serve", *flags], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "serving listen=" in line:
            break
    process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait() == 0
    assert "draining" in rest
    assert "Traceback" not in rest


def test_a_reader_that_leaves_is_no_error() -> None:
    command = " ".join([*COMMAND, "serve", "--help"])
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


# Other commands -------------------------------------------------------------------------------------------


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """Stands in for a command's module."""
    module = types.SimpleNamespace(
        add_parser=lambda subparsers: subparsers.add_parser("replay"), run=lambda args: 1
    )
    monkeypatch.setattr(extproc.cli, "_exists", lambda name: name in ("serve", "replay"))
    monkeypatch.setattr(extproc.cli, "_load", lambda name: module)
    return module


def test_the_code_of_a_command_is_the_exit_code(replay: types.SimpleNamespace) -> None:
    assert main(["replay"]) == 1


def test_a_usage_error_of_a_command_is_told(
    replay: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise UsageError("this", "that")

    replay.run = fail
    assert main(["replay"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "mcp-toolsearch-extproc: this",
        "mcp-toolsearch-extproc: that",
    ]


def test_interrupting_a_command_is_quiet(
    replay: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(args: object) -> int:
        raise KeyboardInterrupt

    replay.run = interrupted
    assert main(["replay"]) == 130
    assert capsys.readouterr().err == ""


def test_a_command_whose_module_is_missing_is_not_offered(
    replay: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert "invalid choice: 'doctor' (choose from" in capsys.readouterr().err
