"""Normalisers of a Hugging Face ``tokenizer.json``, as plain functions from text to text.

``compile_normaliser`` covers the steps that static multilingual models use and refuses the rest with
``UnsupportedTokenizer``, so that a model is either tokenised exactly or handed to another loader.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

Normaliser = Callable[[str], str]

# Oniguruma's \s is Unicode White_Space; Python's also matches the four separators U+001C to U+001F.
_WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Characters that decompose, or marks that are put in order, by newer rules than the old Unicode tables of
# ``tokenizers``, which leaves them where they are.
_NEWER = re.compile(
    "(["
    "\u07fd\u0898-\u089f\u08ca-\u08d3\u09fe\u0c3c\u0d3b-\u0d3c\u0eba\u1715\u1abf-\u1ace"
    "\u1df6-\u1dfa\u32ff\ua7f1-\ua7f4\ua82c\uab69\U00010780-\U000107bf\U00010d24-\U00010d27"
    "\U00010eab-\U00010eac\U00010f46-\U00010f50\U00010f82-\U00010f85\U00011070\U0001133b"
    "\U0001145e\U00011839-\U0001183a\U00011938\U0001193d-\U0001193e\U00011943\U000119e0"
    "\U00011a34\U00011a47\U00011a99\U00011d42\U00011d44-\U00011d45\U00011d97"
    "\U00016ff0-\U00016ff1\U0001ccd6-\U0001ccf9\U0001e030-\U0001e08f\U0001e130-\U0001e136"
    "\U0001e2ae\U0001e2ec-\U0001e2ef\U0001f16c\U0001fbf0-\U0001fbf9"
    "]+)"
)
_SEPARATORS = r"[_\-./:\s]+"
_CAMEL = "(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
# Constructs that mean the same to Oniguruma and to Python's re once \s is spelled out.
_PORTABLE_REGEX = re.compile(r"(?:[^\\(*]|\\[\-./:\]\[+?*|\\s]|\((?:\?<?[=!])|\*(?!\+))*")


class UnsupportedTokenizer(Exception):
    """The tokenizer needs a step that is not built in; the text names the step."""


def compile_normaliser(spec: Mapping[str, Any] | None) -> Normaliser:
    """The function a ``normalizer`` object of ``tokenizer.json`` describes.

    Raises ``UnsupportedTokenizer`` for a step that is not reproduced exactly.
    """
    if spec is None:
        return lambda text: text
    match spec.get("type"):
        case "Sequence":
            return _sequence([compile_normaliser(step) for step in spec["normalizers"]])
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            return _unicode_form(form)
        case "Lowercase":
            return lower
        case "StripAccents":
            return _strip_accents
        case "Strip":
            return _strip(bool(spec.get("strip_left", True)), bool(spec.get("strip_right", True)))
        case "Prepend":
            return _prepend(str(spec["prepend"]))
        case "Replace":
            return _replace(spec["pattern"], str(spec["content"]))
        case kind:
            raise UnsupportedTokenizer(f"normalizer {kind}")


def splits_at_space(spec: Mapping[str, Any] | None) -> bool:
    """Whether text may be normalised chunk by chunk, cut at ASCII white space.

    True for chains that bring text to a Unicode form, then turn every run of white space and ``_-./:`` into
    one space, and do nothing else that looks beyond a chunk.
    """
    steps = spec["normalizers"] if spec is not None and spec.get("type") == "Sequence" else [spec or {}]
    forms = {"NFC", "NFD", "NFKC", "NFKD"}
    kinds = [
        (step["pattern"].get("Regex"), step["content"]) if step.get("type") == "Replace" else step.get("type")
        for step in steps
    ]
    separators, camel = (_SEPARATORS, " "), (_CAMEL, " ")
    return (
        set(kinds) <= forms | {"Lowercase", "StripAccents", separators, camel}
        and separators in kinds
        # A form may write one character as a space and another.
        and not forms & set(kinds[kinds.index(separators) :])
    )


def lower(text: str) -> str:
    """Character by character, as Rust's ``char::to_lowercase``: a final sigma stays a medial one."""
    return text.replace("Σ", "σ").lower()


def _unicode_form(form: Any) -> Normaliser:
    def normalise(text: str) -> str:
        if text.isascii():
            return text
        if not _NEWER.search(text):
            return unicodedata.normalize(form, text)
        parts = _NEWER.split(text)
        return "".join(part if i % 2 else unicodedata.normalize(form, part) for i, part in enumerate(parts))

    return normalise


def _sequence(steps: list[Normaliser]) -> Normaliser:
    def normalise(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return normalise


def _strip_accents(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) != "Mn")


def _strip(left: bool, right: bool) -> Normaliser:
    space = re.compile(f"^[{_WHITE_SPACE}]+" if left else "(?!)"), re.compile(f"[{_WHITE_SPACE}]+\\Z")

    def normalise(text: str) -> str:
        text = space[0].sub("", text)
        return space[1].sub("", text) if right else text

    return normalise


def _prepend(prefix: str) -> Normaliser:
    return lambda text: prefix + text if text else text


def _replace(pattern: Mapping[str, str], content: str) -> Normaliser:
    if "String" in pattern:
        old = pattern["String"]
        return lambda text: text.replace(old, content)
    source = pattern["Regex"]
    if not _PORTABLE_REGEX.fullmatch(source):
        raise UnsupportedTokenizer(f"normalizer Replace with the expression {source!r}")
    try:
        compiled = re.compile(_spell_out_white_space(source))
    except re.error as error:
        raise UnsupportedTokenizer(f"normalizer Replace with the expression {source!r}: {error}") from error
    literal = content.replace("\\", r"\\")
    return lambda text: compiled.sub(literal, text)


def _spell_out_white_space(source: str) -> str:
    out: list[str] = []
    inside = False
    for part in re.findall(r"\\.|.", source, re.S):
        if part == "\\s":
            part = _WHITE_SPACE if inside else f"[{_WHITE_SPACE}]"
        elif part == "[":
            inside = True
        elif part == "]":
            inside = False
        out.append(part)
    return "".join(out)
