"""Addresses to listen on: ``HOST:PORT``, ``[IPV6]:PORT`` or ``unix:/PATH``."""

from __future__ import annotations

import os
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


def folder_problem(path: Path) -> str | None:
    """Why no file can be made at ``path``, as far as its folder tells; None when it can."""
    folder = path.parent
    if not os.path.exists(folder):
        return f"the folder {folder} does not exist"
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"nothing may be written into the folder {folder}"
    return None
