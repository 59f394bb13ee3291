"""Addresses to listen on: ``HOST:PORT``, ``[IPV6]:PORT`` or ``unix:/PATH``."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Tcp:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unix:
    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address: TypeAlias = Tcp | Unix


class BadAddress(ValueError):
    """The text is no address; the message says what is allowed."""


class AddressInUse(OSError):
    """Somebody else listens there, or the socket's path is taken by something that is no socket."""


def parse_address(text: str) -> Address:
    """Raises :class:`BadAddress`."""
    if text.startswith("unix:"):
        path = Path(text.removeprefix("unix:"))
        if not path.is_absolute():
            raise BadAddress("a socket path has to be absolute: unix:/PATH")
        return Unix(path)
    return parse_tcp(text)


def parse_tcp(text: str) -> Tcp:
    """Raises :class:`BadAddress`."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or (":" in bare and bare == host):
        raise BadAddress("allowed: HOST:PORT, [IPV6]:PORT or, for listening to the gateway, unix:/PATH")
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise BadAddress("the port has to be a number from 0 to 65535 (0 takes a free one)")
    return Tcp(bare, int(port))


def clear_stale_socket(path: Path) -> None:
    """Remove the socket a dead process left behind.

    Raises :class:`AddressInUse` when a process still listens on it or the path is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise AddressInUse(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise AddressInUse(f"{path} is in use ({error.strerror or error})") from None
    raise AddressInUse(f"another process listens on {path}")


@contextmanager
def socket_mode(mode: int) -> Iterator[None]:
    """Files made inside get ``mode`` from their first moment; a chmod afterwards would leave a gap."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)
