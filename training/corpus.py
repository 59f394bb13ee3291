"""Parallel texts: English and a translation, from the interface strings of translated projects."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training import archives
from training.formats import Messages
from training.sources import SOURCES, Source
from training.text import clean, is_pair, language

_FEWEST = 3000


@dataclass(frozen=True, slots=True)
class Pair:
    """``lang`` is the language of ``text``; ``en`` for two English texts of the same meaning."""

    lang: str
    english: str
    text: str


def parallel(folder: Path) -> tuple[list[Pair], dict[str, collections.Counter[str]]]:
    """All pairs of languages with at least 3,000, sorted; and new pairs by package and language."""
    seen: set[Pair] = set()
    counts: dict[str, collections.Counter[str]] = {}
    for source in SOURCES:
        fresh = set(_pairs(source, archives.fetch(source.package, folder))) - seen
        seen |= fresh
        counts[source.package.name] = collections.Counter(pair.lang for pair in fresh)
        print(f"{source.package.name}: {len(fresh):,} pairs", flush=True)
    total = collections.Counter(pair.lang for pair in seen)
    kept = [pair for pair in seen if total[pair.lang] >= _FEWEST]
    return sorted(kept, key=lambda p: (p.lang, p.english, p.text)), counts


def _pairs(source: Source, archive: Path) -> Iterator[Pair]:
    catalogues: dict[str, dict[str, Messages]] = collections.defaultdict(dict)
    for match, data in archives.read(archive, source.pattern):
        try:
            catalogues[_catalogue(match)][match["lang"]] = source.parse(data)
        except (ValueError, KeyError, RecursionError):
            continue  # a damaged or empty translation is no reason to stop
    for by_code in catalogues.values():
        english: Messages = {}
        for code in reversed(source.english):
            english |= by_code.get(code, {})
        for code, messages in by_code.items():
            lang = language(code)
            if lang is None or code in source.english:
                continue
            for key, translation in messages.items():
                original = english.get(key, "") if source.english else key
                original, translation = clean(original), clean(translation)
                if is_pair(lang, original, translation):
                    yield Pair(lang, original, translation)


def _catalogue(match: re.Match[str]) -> str:
    """The file's name with the language blanked out."""
    name = match.string
    spans = [match.span(group) for group in ("lang", "hash") if group in match.re.groupindex]
    for start, end in sorted(spans, reverse=True):
        name = name[:start] + "*" + name[end:]
    return name


def lithuanian_forms(archive: Path, words: set[str]) -> dict[str, list[str]]:
    """Other inflected forms of each of the lower-case ``words``, from a Hunspell dictionary.

    Only words that belong to one paradigm are given: a form shared by two lemmas would mix their meanings.
    """
    ((_, affixes),) = archives.read(archive, re.compile(r"package/index\.aff$"))
    ((_, entries),) = archives.read(archive, re.compile(r"package/index\.dic$"))
    rules: dict[str, list[tuple[str, str, re.Pattern[str]]]] = collections.defaultdict(list)
    prefixes: dict[str, list[str]] = collections.defaultdict(list)
    for line in affixes.decode("utf-8").splitlines():
        parts = line.split()
        if len(parts) >= 5 and parts[0] == "PFX" and parts[2] == "0":
            prefixes[parts[1]].append(parts[3].split("/")[0])
        elif len(parts) >= 5 and parts[0] == "SFX":
            strip, add = (part if part != "0" else "" for part in parts[2:4])
            rules[parts[1]].append((strip, add.split("/")[0], re.compile(f"(?:{parts[4]})$")))
    paradigms: dict[str, list[set[str]]] = collections.defaultdict(list)
    for entry in entries.decode("utf-8").splitlines()[1:]:
        stem, _, flags = entry.partition("/")
        if not stem.islower() or not flags:
            continue
        forms = {stem}
        for flag in flags.strip():
            forms |= {
                stem[: len(stem) - len(strip)] + add
                for strip, add, ending in rules.get(flag, ())
                if stem.endswith(strip) and ending.search(stem)
            }
        for prefix in ["", *(p for flag in flags.strip() for p in prefixes.get(flag, ()))]:
            prefixed = {prefix + form for form in forms}
            for form in prefixed & words:
                paradigms[form].append(prefixed)
    return {
        word: sorted(found[0] - {word})
        for word, found in sorted(paradigms.items())
        if len(found) == 1 and len(found[0]) > 1
    }
