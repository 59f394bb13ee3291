"""Without an engine: everything in the Dockerfile that the code or another file can contradict."""

from __future__ import annotations

import fnmatch
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from extproc.cli import main
from extproc.settings import Settings
from tests.deploy.parts import PROJECT, ROOT, VERSION, instructions, one, stages, words
from tests.harness.processor import Processor


def sources() -> list[str]:
    found: list[str] = []
    for name, argument in instructions():
        if name in ("COPY", "ADD") and "--from" not in argument:
            found += argument.split()[:-1]
    return found


def test_what_is_copied_exists_and_reaches_the_builder() -> None:
    rules = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] not in ("#", "")
    ]
    assert rules[0] == "*", "everything is left out unless named"
    assert len(sources()) >= 5
    for source in sources():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in rules, f".dockerignore leaves {source} out"


def test_nothing_secret_or_large_is_sent() -> None:
    rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = [rule[1:] for rule in rules if rule.startswith("!")]
    assert set(allowed) == set(sources())


def test_the_package_data_holds_the_model() -> None:
    (pattern,) = PROJECT["tool"]["setuptools"]["package-data"]["extproc"]
    model = [path for path in (ROOT / "extproc" / "models").rglob("*") if path.is_file()]
    assert model
    assert all(fnmatch.fnmatch(str(path.relative_to(ROOT / "extproc")), pattern) for path in model)


def test_the_build_loads_the_model() -> None:
    script = next(
        argument for name, argument in stages()["build"] if name == "RUN" and "embedders" in argument
    )
    code = re.search(r'-c "([^"]+)"', script)
    assert code
    done = subprocess.run(
        [sys.executable, "-c", code[1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


def test_not_root_and_nothing_to_write() -> None:
    final = dict(stages()["final"])
    assert final["USER"] == "65532:65532"
    order = [name for name, _ in stages()["final"]]
    assert "RUN" not in order[order.index("USER") :]
    assert "PYTHONDONTWRITEBYTECODE=1" in final["ENV"]
    assert "VOLUME" not in order
    assert stages()["mcp-servers"][-1][0] == "ENTRYPOINT"
    assert ("USER", "65532:65532") in stages()["mcp-servers"]


ARENAS = """
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
barrier = threading.Barrier(9)

def hold():
    libc.malloc(1000)
    barrier.wait()
    barrier.wait()

for _ in range(8):
    threading.Thread(target=hold).start()
barrier.wait()
out = libc.fdopen(1, b"w")
libc.malloc_info(0, out)
libc.fflush(out)
barrier.wait()
"""


LARGE = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc.mallinfo2.restype = Info
libc.free(libc.malloc(12_000_000))
before = libc.mallinfo2().hblkhd
kept = libc.malloc(12_000_000)
print(libc.mallinfo2().hblkhd - before >= 12_000_000)
"""


def with_and_without(code: str) -> tuple[str, str]:
    """What the program prints with the image's settings of malloc, and without any."""
    words = dict(stages()["final"])["ENV"].split()
    settings = dict(word.split("=", 1) for word in words if word.startswith("MALLOC_"))
    bare = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    with_them, without = (
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        for env in ({**bare, **settings}, bare)
    )
    return with_them.stdout, without.stdout


glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these settings are glibc's")


@glibc
def test_freed_memory_stays_in_two_arenas() -> None:
    """Of eight threads that allocate."""
    few, many = (text.count("<heap nr=") for text in with_and_without(ARENAS))
    assert few == 2
    assert many > 2


@glibc
def test_a_second_large_body_is_given_back_too() -> None:
    """It gets a mapping of its own; by itself glibc takes it from the heap once one was freed."""
    assert with_and_without(LARGE) == ("True\n", "False\n")


def test_the_command_is_one_the_program_takes() -> None:
    (program,) = PROJECT["project"]["scripts"]
    assert words("final", "ENTRYPOINT") == [program]
    assert main([*words("final", "CMD"), "--check"]) == 0


def test_ports_are_those_of_the_settings() -> None:
    server = Settings().server
    ports = [address.rpartition(":")[2] for address in (server.listen, server.admin)]
    assert one("final", "EXPOSE").split() == ports
    listening = [word.rpartition(":")[2] for word in words("final", "CMD") if ":" in word]
    assert listening == ports
    assert f"127.0.0.1:{ports[1]}/readyz" in words("final", "HEALTHCHECK")[-1]


def test_the_health_check_tells_up_from_down(tmp_path: Path) -> None:
    processor = Processor(tmp_path)
    code = words("final", "HEALTHCHECK")[-1]
    assert words("final", "HEALTHCHECK")[:2] == ["python", "-c"]
    command = [sys.executable, "-c", code.replace(":9090/", f":{processor.admin_port}/")]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    try:
        processor.start()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    finally:
        processor.stop()


@pytest.mark.parametrize("stage", ["build", "final", "mcp-servers"])
def test_python_is_one_that_the_project_supports(stage: str) -> None:
    image = stages()[stage][0][1].split()[0]
    version = re.fullmatch(r"python:3\.(\d+)-slim", image)
    assert version
    assert int(version[1]) >= int(PROJECT["project"]["requires-python"].rpartition(".")[2])


def test_pinned_servers_are_those_of_the_tests() -> None:
    pins = (ROOT / "constraints-servers.txt").read_text("utf-8").splitlines()
    install = next(argument for name, argument in stages()["mcp-servers"] if "pip install" in argument)
    wanted = re.findall(r"\S+==\S+", install)
    assert len(wanted) >= 3
    assert set(wanted) <= set(pins)


def test_the_image_tag_is_the_version() -> None:
    assert f"mcp-toolsearch-extproc:{VERSION}" in (ROOT / "Dockerfile").read_text("utf-8")
