"""``serve``: the external processor."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from extproc.cli import FINE, PROBLEM, UsageError
from extproc.cli.setting_help import help_text, remarks
from extproc.config_checks import leaves
from extproc.config_consistency import Flaw, file_flaws
from extproc.config_sources import CONFIG_VARIABLE, Loaded, SettingsError, load
from extproc.settings import Settings

if TYPE_CHECKING:
    from extproc.replay import Recorder

_FLAG = "setting:"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "serve",
        help="run the external processor",
        description="Run the external processor until SIGTERM or Ctrl-C.",
        epilog="Every setting is also read from the file and from TOOLSEARCH_<SECTION>__<NAME>; "
        f"{CONFIG_VARIABLE} names the file.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file of settings")
    parser.add_argument("--check", action="store_true", help="check the settings and exit: 0 fine, 2 not")
    group = parser.add_argument_group("settings")
    short = {"server.listen": "--listen", "server.admin": "--admin"}
    said = remarks()
    for key, field in leaves():
        names = [short[key]] if key in short else []
        text = help_text(key, field, said).replace("%", "%%")
        group.add_argument(*names, f"--{key}", dest=_FLAG + key, metavar="VALUE", help=text)
    return parser


def run(args: argparse.Namespace) -> int:
    flags = {
        name.removeprefix(_FLAG): value
        for name, value in vars(args).items()
        if name.startswith(_FLAG) and value is not None
    }
    try:
        further = (file_flaws, _embedder_flaws) if args.check else ()
        loaded = load(args.config, os.environ, flags, further)
    except SettingsError as error:
        raise UsageError(*error.problems) from None
    if args.check:
        print(f"settings are fine; profiles: {', '.join(loaded.profiles) or 'none'}")
        return FINE
    return serve(loaded)


def _embedder_flaws(settings: Settings) -> Iterator[Flaw]:
    """Serving goes on without an embedder; a check says what is wrong with it.  Remote ones are not asked."""
    if (problem := _embedder_problem(settings.search.embedder)) is not None:
        yield Flaw(("search.embedder",), problem)


@cache
def _embedder_problem(spec: str) -> str | None:
    if spec in ("default", "none") or (spec.startswith("openai:") and spec != "openai:"):
        return None
    from extproc import embedders
    from extproc.search.embedder import EmbedderError

    try:
        embedders.load(spec)
    except EmbedderError as error:
        return str(error)
    return None


def serve(loaded: Loaded) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    # Late: the other commands and --check need neither grpc nor an event loop.
    from extproc.exchange.machine import Exchange
    from extproc.processor import Processor
    from extproc.server.app import App, run_until_signalled
    from extproc.server.service import TlsError
    from extproc.server.sockets import AddressInUse
    from extproc.telemetry import Metrics, configure_logging, logger

    configure_logging(loaded.settings.telemetry)
    metrics = Metrics()
    recorder = _recorder(loaded)
    try:
        processor = Processor(loaded.settings, loaded.profiles, metrics)
        run_until_signalled(App(loaded, processor, metrics, recorder or Exchange))
    except (AddressInUse, TlsError) as error:
        logger.error(str(error))
        return PROBLEM
    return FINE


def _recorder(loaded: Loaded) -> Recorder | None:
    """What writes exchanges down when ``telemetry.record`` names a file."""
    telemetry = loaded.settings.telemetry
    if not telemetry.record:
        return None
    from extproc.replay import Recorder

    every = (loaded.settings, *loaded.profiles.values())
    secret = {name for settings in every for name in (*settings.caller.headers, *settings.catalog.headers)}
    try:
        return Recorder(Path(telemetry.record), secret, telemetry.record_limit)
    except OSError as error:
        raise UsageError(f"telemetry.record: cannot write {telemetry.record}: {error.strerror}") from None
