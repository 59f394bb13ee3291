"""What a broken configuration is: a shipped file and one edit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from extproc.gateway.doctor.context import Context
from extproc.settings import Settings

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """``edits`` are (text, replacement) pairs; ``mark`` is text on the line the finding has to name."""

    expected: str
    file: str
    edits: tuple[tuple[str, str], ...] = ()
    mark: str = ""
    context: Context = field(default_factory=Context)
    append: str = ""

    @property
    def name(self) -> str:
        what = (
            self.edits[0][1].strip().splitlines()[-1]
            if self.edits and self.edits[0][1].strip()
            else "changed"
        )
        return f"{self.expected}-{Path(self.file).stem}-{what[:40]}"


def edit(expected: str, file: str, old: str, new: str, mark: str = "", **more: object) -> Case:
    return Case(expected, file, ((old, new),), mark, **more)  # type: ignore[arg-type]


def settings(**sections: object) -> Context:
    return Context(Settings(**sections))  # type: ignore[arg-type]


def broken(case: Case) -> str:
    text = (ROOT / case.file).read_text("utf-8")
    for old, new in case.edits:
        assert old in text, f"{case.file} no longer has {old!r}"
        text = text.replace(old, new, 1)
    return text + case.append
