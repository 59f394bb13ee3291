"""Child processes that are ready when they say so, leave a log, and never outlive their parent."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

ROOT = Path(__file__).parents[2]
READY_SECONDS = 90.0
_BLOCK = 500
_locks: list[IO[str]] = []
LAUNCH = Path(__file__).with_name("launch.py")


class NotReadyError(RuntimeError):
    """A process ended or stayed silent instead of becoming ready; the text holds the end of its log."""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, below those that outgoing connections take, so that none is gone later.

    Nor does another process that asks here get one of them while this process lives: between its choice and
    its use, or while whoever used it is started anew, a port looks free.
    """
    ports: list[int] = []
    for port in _own_ports():
        if len(ports) == count:
            break
        with contextlib.suppress(OSError), socket.socket() as each:
            each.bind(("127.0.0.1", port))
            ports.append(port)
    return ports


@functools.cache
def _own_ports() -> Iterator[int]:
    """The ports of one block, over and over; the block is locked until this process ends."""
    folder = Path(tempfile.gettempdir()) / f"toolsearch-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for first in random.sample(range(15_000, 32_000, _BLOCK), 17_000 // _BLOCK):
        lock = (folder / str(first)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return itertools.cycle(range(first, first + _BLOCK))
    raise RuntimeError(f"all blocks of ports are taken, see {folder}")


def listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Process:
    """One child in a process group of its own; use it in a ``with`` statement or call :meth:`stop`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log_dir: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.name, self.command, self.cwd = name, [str(part) for part in command], cwd
        self.env = dict(env) if env is not None else dict(os.environ)
        self.log = log_dir / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log_file = self.log.open("ab")
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), *self.command],
                cwd=self.cwd,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            log_file.close()
        atexit.register(self.stop)

    def wait_ready(self, ready: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
        """Poll until ``ready()``.  Raises NotReadyError with the end of the log otherwise."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise NotReadyError(f"{self.name} ended during start:\n{self.tail()}")
            if time.monotonic() > end:
                raise NotReadyError(f"{self.name} was not ready after {seconds:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._child.pid

    def stop(self, seconds: float = 5.0) -> None:
        """End the whole group: politely, then by force."""
        child, self._child = self._child, None
        atexit.unregister(self.stop)
        if child is None:
            return
        self._signal(child.pid, signal.SIGTERM)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._signal(child.pid, signal.SIGKILL)
            child.wait()

    def kill(self) -> None:
        """End the group at once, as a crash would."""
        child, self._child = self._child, None
        if child is not None:
            self._signal(child.pid, signal.SIGKILL)
            child.wait()

    @staticmethod
    def _signal(group: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)

    def rss(self) -> int:
        """Resident memory in bytes (Linux)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def __enter__(self) -> Process:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
