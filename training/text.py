"""Cleaning of interface texts, language codes, and the noisy copies that make the table forgiving."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Mapping, Sequence

_ALIASES = {"no": "nb", "iw": "he", "fil": "tl", "in": "id", "ji": "yi"}
_SCRIPTS = {
    "ja": r"[\u3040-\u30ff\u3400-\u9fff]",
    "ko": r"[\uac00-\ud7af]",
    "th": r"[\u0e00-\u0e7f]",
    "el": r"[\u0370-\u03ff]",
    "he": r"[\u0590-\u05ff]",
    "ka": r"[\u10a0-\u10ff]",
    "hy": r"[\u0530-\u058f]",
    **dict.fromkeys(("zh", "zh-hant", "yue"), r"[\u3400-\u9fff]"),
    **dict.fromkeys(("ar", "fa", "ur"), r"[\u0600-\u06ff]"),
    **dict.fromkeys(("ru", "uk", "bg", "mk", "be", "kk", "ky", "mn"), r"[\u0400-\u04ff]"),
    **dict.fromkeys(("hi", "mr", "ne"), r"[\u0900-\u097f]"),
}
_PLURAL = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,.*?other\s*\{([^{}]*)\}\s*\}", re.S)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_PLACEHOLDER = re.compile(
    r"<[^>]{1,80}>|https?://\S+|%\(\w+\)[sd]|%\d?\$?[sd@]|\$\d|\$?\{+[^{}]*\}+|\[%key:[^\]]*\]|__\w+__"
)
_CLUTTER = re.compile(r"&(?=\w)|[`*#\\]|&\w+;")


def language(code: str) -> str | None:
    """One code a language: regions folded, Chinese by script, English and constructed variants None."""
    code = code.strip("_").replace("_", "-").lower()
    if "@" in code or code.endswith(("-latn", "-beta")) or not code:
        return None
    base = code.split("-")[0]
    if base == "zh":
        return "zh-hant" if re.search(r"hant|tw|hk|mo", code) else "zh"
    base = _ALIASES.get(base, base)
    return base if base != "en" and len(base) in (2, 3) else None


def clean(text: str) -> str:
    """Without markup, placeholders, keyboard accelerators and addresses; of a plural the general form."""
    text = _PLURAL.sub(r" \1 ", text)
    text = _LINK.sub(r"\1", text)
    text = _PLACEHOLDER.sub(" ", text)
    text = _CLUTTER.sub("", text)
    return re.sub(r"\s+", " ", text).strip(" .:…")


def is_pair(lang: str, english: str, foreign: str) -> bool:
    """Whether both look like text, the foreign one in its own script and not left in English."""
    if not 2 <= len(english) <= 300 or not 1 <= len(foreign) <= 300 or english.lower() == foreign.lower():
        return False
    if not re.search(r"[A-Za-z]{2}", english) or not re.search(r"\w", foreign):
        return False
    return lang not in _SCRIPTS or re.search(_SCRIPTS[lang], foreign) is not None


def is_latin(char: str) -> bool:
    return char < "\u0250" or "\u1e00" <= char < "\u1f00"


def strip_diacritics(text: str) -> str:
    """Latin letters without their marks; other scripts, where marks are letters, stay."""
    return "".join(
        "".join(c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c))
        if is_latin(char)
        else char
        for char in text
    )


def _typo(word: str, dice: random.Random) -> str:
    at = dice.randrange(len(word) - 1)
    match dice.randrange(4):
        case 0:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        case 1:
            return word[:at] + word[at + 1 :]
        case 2:
            return word[:at] + word[at] + word[at:]
    return word[:at] + dice.choice("abcdefghijklmnoprstuvz") + word[at + 1 :]


def noisy(
    text: str, dice: random.Random, forms: Mapping[str, Sequence[str]] | None = None, typo: float = 0.33
) -> str:
    """The text as it might be typed: some words in another form, some misspelt, half the time no diacritics.

    ``forms`` gives the other inflected forms of a lower-case word.
    """
    words = text.split(" ")
    if forms:
        words = [
            dice.choice(forms[w.lower()]) if w.lower() in forms and dice.random() < 0.5 else w for w in words
        ]
        typo /= 3
    words = [
        _typo(w, dice) if len(w) > 4 and w.isalpha() and is_latin(w[0]) and dice.random() < typo else w
        for w in words
    ]
    text = " ".join(words)
    return strip_diacritics(text) if dice.random() < 0.5 else text
