"""``doctor``: checks gateway configuration, and with ``--live`` the gateway itself."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import httpx

from extproc.cli import FINE, PROBLEM, UsageError
from extproc.config_sources import SettingsError, load
from extproc.gateway.doctor import report
from extproc.gateway.doctor.context import Context, split_url
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.located import MAX_BYTES, Source, Unreadable, parse, read_file


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "doctor",
        help="check a gateway configuration and say how to mend it",
        description="Check what a gateway was told, and say what would not work, worst first.",
        epilog="exit codes: 0 nothing found, 1 a problem found, 2 the input cannot be read",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "sources",
        nargs="*",
        metavar="FILE|URL",
        help="Envoy bootstrap (YAML or JSON), Envoy admin config_dump URL, agentgateway file, Kubernetes "
        "manifests; - reads standard input",
    )
    add("--settings", type=Path, metavar="FILE", help="the processor's own settings, to compare with")
    add(
        "--catalogue-url",
        default="",
        metavar="URL",
        help="the processor's catalog.url, when not in --settings",
    )
    add("--live", default="", metavar="URL", help="run a real MCP handshake through the gateway")
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="sent with --live; repeat")
    add("--timeout", type=float, default=15.0, metavar="SECONDS", help="for each step of --live")
    add("--json", action="store_true", help="print findings as JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    if not args.sources and not args.live:
        raise UsageError("doctor needs a FILE or URL to check, or --live URL")
    if not 0 < args.timeout <= 600:
        raise UsageError("--timeout: more than 0 and at most 600 seconds")
    if args.catalogue_url and split_url(args.catalogue_url) is None:
        raise UsageError(f"--catalogue-url: {args.catalogue_url!r} is not an http:// or https:// URL")
    code = FINE
    if args.sources:
        try:
            sources = [_read(name) for name in args.sources]
            findings = examine(sources, _context(args))
        except Unreadable as error:
            raise UsageError(str(error)) from None
        show = report.to_json if args.json else report.to_text
        sys.stdout.write(show(findings, args.sources))
        code = report.exit_code(findings)
    if args.live:
        code = max(code, _live(args))
    return code


def _context(args: argparse.Namespace) -> Context:
    if args.settings is None:
        return Context(catalogue_url=args.catalogue_url)
    try:
        settings = load(args.settings, os.environ, {}).settings
    except SettingsError as error:
        raise UsageError(*error.problems) from None
    return Context(settings, args.catalogue_url or settings.catalog.url)


def _read(name: str) -> Source:
    if name == "-":
        return parse(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    if name.startswith(("http://", "https://")):
        return _fetch(name)
    return read_file(Path(name))


def _fetch(url: str) -> Source:
    parts = split_url(url)
    if parts is None:
        raise Unreadable(f"{url} is no URL; an Envoy admin is http://HOST:PORT")
    address = url if parts.path != "/" else url.rstrip("/") + "/config_dump"
    try:
        with httpx.Client(timeout=10) as client, client.stream("GET", address) as response:
            if response.status_code != 200:
                raise Unreadable(
                    f"{address}: HTTP {response.status_code}; an Envoy admin answers at /config_dump"
                )
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > MAX_BYTES:
                    break
    except httpx.InvalidURL as error:
        raise Unreadable(f"{address}: {error}") from None
    except httpx.HTTPError as error:
        raise Unreadable(f"{address}: {error or type(error).__name__}") from None
    return parse(bytes(data), address)


def _header(text: str) -> tuple[str, str]:
    """Never shown back: it may be a credential."""
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise UsageError("--header takes 'NAME: VALUE'")
    if not re.fullmatch(r"[\t -~]*", value):
        raise UsageError(f"--header {name}: the value holds characters that no header may carry")
    return name, value


def _live(args: argparse.Namespace) -> int:
    from extproc.gateway.doctor.live import Target, run_live

    if split_url(args.live) is None:
        raise UsageError(f"--live: {args.live!r} is not an http:// or https:// URL")
    headers = [_header(text) for text in args.header]
    try:
        steps = run_live(Target(args.live, tuple(headers), args.timeout))
    except httpx.InvalidURL as error:
        raise UsageError(f"--live: {error}") from None
    for step in steps:
        sys.stdout.write(step.shown)
    return PROBLEM if any(step.failed for step in steps) else FINE
