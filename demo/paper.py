"""Printing the transcript."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from typing import Any

WIDTH = 100
_COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _paint(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _COLOUR else text


def heading(text: str) -> None:
    print(f"\n{_paint('1;36', f'── {text} ' + '─' * max(3, WIDTH - len(text) - 4))}")


def call(name: str, arguments: dict[str, Any]) -> None:
    print(f"{_paint('1', name)} {json.dumps(arguments, ensure_ascii=False)}")


def say(text: str) -> None:
    for paragraph in text.splitlines() or [""]:
        print(textwrap.fill(paragraph, WIDTH, initial_indent="  ", subsequent_indent="    "))


def good(text: str) -> None:
    print(_paint("32", f"  ✓ {text}"))


def bad(text: str) -> None:
    print(_paint("31", f"  ✗ {text}"))


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join(cells).rstrip()[: WIDTH + 20])
