"""The command: ``mcp-toolsearch-extproc`` and ``python -m extproc``."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Protocol, cast

# One query is far too small to be worth a second thread, and idle ones spin for milliseconds on shared cores.
# The library reads this when numpy is first imported.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

PROGRAM = "mcp-toolsearch-extproc"
DISTRIBUTION = "mcp-toolsearch-extproc"

FINE = 0
PROBLEM = 1
WRONG_USAGE = 2

_COMMANDS = {
    "serve": ("serve", "run the external processor"),
    "search": ("search_cmd", "search a catalogue and show how each ranking saw it"),
    "eval": ("eval_cmd", "measure search quality on a catalogue and its queries"),
    "savings": ("savings", "count the tokens of a full tool list against the six tools"),
    "config": ("config_cmd", "print gateway configuration to paste"),
    "doctor": ("doctor_cmd", "check a gateway configuration and say how to mend it"),
    "fetch-model": ("fetch_model", "download an embedding model"),
    "replay": ("replay", "run recorded exchanges again"),
}


class UsageError(Exception):
    """Wrong usage or settings: one line each in ``problems``; ends the command with 2."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CommandModule(Protocol):
    """What a module of a command offers."""

    def add_parser(self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> object: ...

    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 found a problem, 2 wrong usage or settings."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        for problem in error.problems:
            print(f"{PROGRAM}: {problem}", file=sys.stderr)
        return WRONG_USAGE
    except BrokenPipeError:
        # The reader has gone; without this the interpreter would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return 130
    return code


def _run(arguments: list[str]) -> int:
    offered = [name for name in _COMMANDS if _exists(name)]
    parser = argparse.ArgumentParser(
        PROGRAM, description="Tool search for any MCP route of a gateway.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    module: CommandModule | None = None
    for name in offered:
        if name == chosen:
            module = _load(name)
            module.add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=_COMMANDS[name][1])
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = [option for option in _options(subparsers, chosen) if option.startswith("--")]
        flags = [argument for argument in unknown if argument.startswith("-")]
        raise UsageError(*(_unknown(argument, known) for argument in flags or unknown))
    assert module is not None
    return module.run(args)


def _exists(name: str) -> bool:
    return find_spec(f"extproc.cli.{_COMMANDS[name][0]}") is not None


def _load(name: str) -> CommandModule:
    return cast(CommandModule, import_module(f"extproc.cli.{_COMMANDS[name][0]}"))


def _options(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], chosen: str | None
) -> list[str]:
    parser = subparsers.choices.get(chosen or "")
    return [option for action in parser._actions for option in action.option_strings] if parser else []


def _unknown(argument: str, known: list[str]) -> str:
    name = argument.partition("=")[0]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{name}: unknown argument{hint}"


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown (not installed)"
