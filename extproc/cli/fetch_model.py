"""``fetch-model NAME``: download an embedding model, checked and resumable."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import httpx

from extproc.embedders import models_folder

_HUB = "https://huggingface.co"
_FILES = ("config.json", "tokenizer.json", "model.safetensors")
_CHUNK = 1 << 18
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Known:
    """A model that can be asked for by name.

    ``digests`` are the SHA-256 of each file; an empty one is to be filled by the release, and until then
    the model needs ``--digest``.
    """

    repository: str
    revision: str
    size: str
    digests: Mapping[str, str]


def _unpinned(repository: str, size: str) -> Known:
    return Known(repository, "main", size, dict.fromkeys(_FILES, ""))


KNOWN: Mapping[str, Known] = {
    "potion-multilingual-128M": _unpinned(
        "minishlab/potion-multilingual-128M", "about 530 MB, 101 languages"
    ),
    "potion-base-8M": _unpinned("minishlab/potion-base-8M", "about 30 MB, English"),
    "potion-retrieval-32M": _unpinned("minishlab/potion-retrieval-32M", "about 130 MB, English"),
}


class FetchError(Exception):
    """The model was not installed; the text says why and what to do."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Register the command; returns its parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "fetch-model",
        help="download an embedding model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="models:\n" + "\n".join(f"  {name:26} {known.size}" for name, known in KNOWN.items()),
    )
    parser.add_argument("name", metavar="NAME", help="a model from the list below, or OWNER/NAME on the hub")
    parser.add_argument(
        "--digest",
        action="append",
        default=[],
        metavar="FILE=SHA256",
        help="SHA-256 you trust for a file; once for each of " + ", ".join(_FILES),
    )
    parser.add_argument("--revision", help="commit or tag on the hub (default: the pinned one)")
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FOLDER",
        help="models folder (default: %(default)s)",
        default=models_folder(),
    )
    parser.add_argument(
        "--hub",
        default=os.environ.get("HF_ENDPOINT") or _HUB,
        metavar="URL",
        help="hub or mirror (default: %(default)s, from $HF_ENDPOINT when set)",
    )
    parser.add_argument("--force", action="store_true", help="replace a model that is already there")
    return parser


def run(args: argparse.Namespace) -> int:
    """0 installed or already there, 1 not installed, 2 wrong usage."""
    try:
        digests = parse_digests(args.digest)
        known = _resolve(args.name, args.revision, digests)
    except FetchError as error:
        print(f"fetch-model: {error}", file=sys.stderr)
        return 2
    target = args.to.expanduser() / known.repository.rpartition("/")[2]
    if target.exists() and not args.force:
        print(f"{target} is already there (--force replaces it)")
        return 0
    try:
        fetch(known, target, args.hub, sys.stderr)
    except FetchError as error:
        print(f"fetch-model: {error}", file=sys.stderr)
        return 1
    print(f"{target}\nuse it with search.embedder: {known.repository.rpartition('/')[2]}")
    return 0


def parse_digests(values: list[str]) -> dict[str, str]:
    """``FILE=SHA256`` entries as a mapping.  Raises ``FetchError`` for anything else."""
    out: dict[str, str] = {}
    for value in values:
        file, _, digest = value.partition("=")
        digest = digest.lower().removeprefix("sha256:")
        if file not in _FILES or not _SHA256.fullmatch(digest):
            raise FetchError(f"--digest {value!r} is not FILE=SHA256 with FILE one of {', '.join(_FILES)}")
        out[file] = digest
    return out


def _resolve(name: str, revision: str | None, digests: Mapping[str, str]) -> Known:
    """What to download.  Raises ``FetchError`` for an unknown name or a file without a digest."""
    known = KNOWN.get(name) or next((k for k in KNOWN.values() if k.repository == name), None)
    if known is None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or ".." in name:
            raise FetchError(f"unknown model {name!r}; known are {', '.join(KNOWN)}, or give OWNER/NAME")
        known = _unpinned(name, "")
    pinned = known.digests if revision in (None, known.revision) else dict.fromkeys(_FILES, "")
    merged = {file: digests.get(file) or pinned[file] for file in _FILES}
    if missing := [file for file, digest in merged.items() if not digest]:
        raise FetchError(
            f"no digest is pinned for {', '.join(missing)} of {known.repository}. Take the SHA-256 from a "
            "source you trust and pass it: " + " ".join(f"--digest {file}=SHA256" for file in missing)
        )
    return Known(known.repository, revision or known.revision, known.size, merged)


def fetch(known: Known, target: Path, hub: str, screen: TextIO) -> None:
    """Download into ``target``: all files verified first, then one rename.

    Partial files stay in ``<target>.part`` and are continued by the next run.  Raises ``FetchError``.
    """
    part = target.with_name(target.name + ".part")
    try:
        part.mkdir(parents=True, exist_ok=True)
        with httpx.Client(follow_redirects=True, timeout=httpx.Timeout(30.0)) as client:
            for file, digest in known.digests.items():
                url = f"{hub.rstrip('/')}/{known.repository}/resolve/{known.revision}/{file}"
                _fetch_file(client, url, part / file, digest, screen)
        _replace(part, target)
    except OSError as error:
        raise FetchError(f"cannot write {target}: {error}") from error


def _fetch_file(client: httpx.Client, url: str, path: Path, digest: str, screen: TextIO) -> None:
    if path.exists() and _sha256(path) == digest:
        return
    for resume in (True, False):
        _download(client, url, path, resume, screen)
        found = _sha256(path)
        if found == digest:
            return
        # A continued file that fails may have begun under another version: try once from the start.
        path.unlink()
        if not resume:
            break
    raise FetchError(f"{path.name} has SHA-256 {found}, expected {digest}; nothing was installed")


def _download(client: httpx.Client, url: str, path: Path, resume: bool, screen: TextIO) -> None:
    have = path.stat().st_size if resume and path.exists() else 0
    headers = {"accept-encoding": "identity"} | ({"range": f"bytes={have}-"} if have else {})
    try:
        with client.stream("GET", url, headers=headers) as response:
            if response.status_code == 416:
                return
            if response.status_code not in (200, 206):
                raise FetchError(f"{url} answered {response.status_code} {response.reason_phrase}")
            if response.status_code == 200:
                have = 0
            length = response.headers.get("content-length", "")
            bar = _bar(path.name, have, have + int(length) if length.isdigit() else None, screen)
            with path.open("ab" if have else "wb") as file:
                for chunk in response.iter_bytes(_CHUNK):
                    file.write(chunk)
                    bar(len(chunk))
            if screen.isatty():
                screen.write("\n")
    except httpx.ConnectError as error:
        raise FetchError(
            f"no connection to {httpx.URL(url).host} ({error}). Without network, copy a model2vec folder to "
            "this machine and give its path as search.embedder, or keep the default, which needs no download"
        ) from error
    except httpx.HTTPError as error:
        reason = type(error).__name__
        raise FetchError(f"{path.name}: the download broke off ({reason}); run it again to go on") from error


def _bar(name: str, have: int, total: int | None, screen: TextIO) -> Callable[[int], None]:
    """Prints progress on a terminal; elsewhere one line a tenth."""
    done, shown = have, -1

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        share = done / total if total else 0.0
        step = int(share * (100 if screen.isatty() else 10))
        if total is None or step == shown:
            return
        shown = step
        line = f"{name:18} [{'#' * int(share * 30):30}] {share:4.0%} {done / 1e6:.1f} of {total / 1e6:.1f} MB"
        screen.write(f"\r{line}" if screen.isatty() else f"{line}\n")
        screen.flush()

    return advance


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    if path.exists():
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _replace(part: Path, target: Path) -> None:
    """Put ``part`` in place of ``target``; a reader sees the old folder or the new one."""
    old = target.with_name(target.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    part.rename(target)
    shutil.rmtree(old, ignore_errors=True)
