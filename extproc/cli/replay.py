"""``replay``: run recorded exchanges against this version and tell what is answered differently."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from extproc.cli import FINE, PROBLEM, UsageError
from extproc.config_sources import CONFIG_VARIABLE, Loaded, SettingsError, load

_SHOWN = 400
"""Characters of an answer shown unless all is asked for."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "replay",
        help="run recorded exchanges again",
        description="Run exchanges recorded with telemetry.record again, without gateway and network.",
        epilog="Exits with 0 when every exchange is answered as it was recorded, with 1 when not. "
        f"Settings come from --config, {CONFIG_VARIABLE} and the environment, as for serve.",
        allow_abbrev=False,
    )
    parser.add_argument("recording", type=Path, metavar="FILE", help="the recording")
    parser.add_argument("--config", type=Path, metavar="CONFIG", help="YAML file of settings")
    parser.add_argument(
        "--shape", action="store_true", help="compare the kinds of answers only, not their text"
    )
    parser.add_argument("--full", action="store_true", help="show differing answers in full")
    return parser


def run(args: argparse.Namespace) -> int:
    try:
        loaded = load(args.config, os.environ, {})
    except SettingsError as error:
        raise UsageError(*error.problems) from None
    try:
        lines = args.recording.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"{args.recording}: cannot be read: {reason}") from None
    return asyncio.run(_replay(lines, loaded, args))


async def _replay(lines: list[str], loaded: Loaded, args: argparse.Namespace) -> int:
    from extproc.processor import Processor
    from extproc.replay import NotARecording, offline, replay
    from extproc.telemetry import Metrics

    profiles = {name: offline(settings) for name, settings in loaded.profiles.items()}
    settings = offline(loaded.settings)
    processor = Processor(settings, profiles, Metrics())
    await processor.start()
    try:
        found = await replay(lines, {"": settings, **profiles}.get, processor)
    except NotARecording as error:
        raise UsageError(f"{args.recording}: {error}") from None
    finally:
        await processor.close()
    if not found:
        raise UsageError(f"{args.recording}: holds no exchange")
    different = [one for one in found if not (one.same_shape if args.shape else one.same)]
    for one in different:
        print(f"exchange {one.number}: answered differently")
        for label, answer in zip(("recorded", "now"), one.first_difference, strict=True):
            text = "nothing" if answer is None else json.dumps(answer, ensure_ascii=False)
            print(f"  {label}: {text if args.full or len(text) <= _SHOWN else text[:_SHOWN] + '…'}")
    print(f"{len(found)} exchanges, {len(found) - len(different)} answered as recorded")
    return PROBLEM if different else FINE
