"""Files of unix sockets: stale ones, taken ones, their mode."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from extproc.addresses import folder_problem


class AddressInUse(OSError):
    """Somebody else listens there, or no socket can be made: its path is taken, its folder is not there."""


def clear_stale_socket(path: Path) -> None:
    """Remove the socket a dead process left behind.

    Raises :class:`AddressInUse` when a process still listens on it, the path is no socket, or its folder
    is missing or may not be written.
    """
    if (problem := folder_problem(path)) is not None:
        raise AddressInUse(f"cannot listen on unix:{path}: {problem}")
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
