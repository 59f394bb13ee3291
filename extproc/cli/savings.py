"""``savings``: what the full tool list costs a model in every request, against the six tools."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from extproc.cli import FINE, PROBLEM, UsageError
from extproc.cli.catalogue_files import TOOL_FILE, numbered_tools
from extproc.cli.remote import RemoteError, fetch_tools, parse_headers
from extproc.rewriter import meta_tools

BYTES_PER_TOKEN = 4.1
"""UTF-8 bytes of compact JSON per o200k token, measured over two catalogues of 500 and 600 tools."""
SHOWN = ("name", "description", "inputSchema")
"""What clients hand to a model of each tool."""
BATCH = 10


@dataclass(frozen=True, slots=True)
class Savings:
    """Tokens in one request.  ``exact`` is false when they were estimated from the length."""

    tools: int
    full: int
    shown_tools: int
    shown: int
    exact: bool

    @property
    def saved(self) -> int:
        return self.full - self.shown


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "savings",
        help="count the tokens of a full tool list against the six tools",
        description="Count what the full tool list costs in every request of a model, against the six tools.",
        epilog="--url wants the route without the filter, for example http://localhost:10000/mcp/all",
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--url", help="MCP endpoint to list the tools of")
    source.add_argument("--catalog", type=Path, metavar="FILE", help=TOOL_FILE)
    parser.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="request header for --url"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(args: argparse.Namespace) -> int:
    try:
        tools = (
            fetch_tools(args.url, parse_headers(args.header)) if args.url else read_catalogue(args.catalog)
        )
        if not tools:
            raise RemoteError(f"no tools at {args.url}")
        found = measure(tools)
    except RemoteError as error:
        print(f"savings: {error}", file=sys.stderr)
        return PROBLEM
    except RecursionError:
        raise UsageError("savings: a tool is nested too deeply") from None
    print(json.dumps({**asdict(found), "saved": found.saved}) if args.json else describe(found))
    if {tool.get("name") for tool in tools} >= set(own_names(many=False)):
        print("savings: that route is filtered already; give the one without the filter", file=sys.stderr)
        return PROBLEM
    return FINE


def read_catalogue(path: Path) -> list[dict[str, Any]]:
    """The tools of a file.  Raises UsageError that names the line."""
    tools = []
    for number, tool in numbered_tools(path):
        if not isinstance(tool.get("name"), str):
            raise UsageError(f"{path}:{number}: every tool is an object with a name")
        tools.append(tool)
    return tools


def measure(tools: Iterable[Mapping[str, Any]], *, many: bool = True) -> Savings:
    """Tokens of ``tools`` and of the six (five without ``many``, the tool that needs a catalogue route)."""
    count, exact = counter()
    full = list(tools)
    own = [json.loads(text) for text in _own(many)]
    return Savings(len(full), count(as_shown(full)), len(own), count(as_shown(own)), exact)


def as_shown(tools: Iterable[Mapping[str, Any]]) -> str:
    """The part of each tool that a model reads, as compact JSON."""
    shown = [{key: tool[key] for key in SHOWN if key in tool} for tool in tools]
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    # JSON can escape halves of surrogate pairs, which no encoding takes.
    return text.encode("utf-8", "replace").decode()


def counter() -> tuple[Callable[[str], int], bool]:
    """A token counter, and whether it counts (o200k) or estimates."""
    try:
        import bpe_openai
    except ImportError:
        return (lambda text: round(len(text.encode()) / BYTES_PER_TOKEN)), False
    encoding = bpe_openai.get_encoding("o200k_base")
    return (lambda text: len(encoding.encode_ordinary(text))), True


def describe(found: Savings) -> str:
    how = "o200k tokens" if found.exact else "tokens, estimated from the length (install bpe-openai to count)"
    share = 100 * found.saved / found.full if found.full else 0.0
    return "\n".join(
        (
            f"full list  {found.tools:>6,} tools  {found.full:>9,} {how}",
            f"six tools  {found.shown_tools:>6,} tools  {found.shown:>9,}",
            f"saved      {'':>6}        {found.saved:>9,} in every request ({share:.1f} %)",
        )
    )


def own_names(*, many: bool) -> list[str]:
    return [json.loads(text)["name"] for text in _own(many)]


def _own(many: bool) -> tuple[bytes, ...]:
    return meta_tools.definitions(BATCH if many else 0)
