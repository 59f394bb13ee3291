"""Message files of many projects, each read as ``{key: text}``.  Damaged files raise ``ValueError``."""

from __future__ import annotations

import ast
import json
import re
import struct
from itertools import pairwise
from typing import Any

Messages = dict[str, str]


def _flatten(node: Any, key: str, out: Messages) -> Messages:
    if isinstance(node, str):
        out[key] = node
    elif isinstance(node, dict):
        for name, value in node.items():
            if name not in ("@metadata", "_meta"):
                _flatten(value, f"{key}.{name}", out)
    elif isinstance(node, list) and all(isinstance(item, str) for item in node):
        out[key] = ", ".join(node)
    return out


def nested_json(data: bytes) -> Messages:
    """Nested objects; a list of strings becomes one text."""
    return _flatten(json.loads(data.decode("utf-8-sig")), "", {})


def rooted_json(data: bytes) -> Messages:
    """One top-level key, the language itself, besides private ones."""
    tree = {name: value for name, value in json.loads(data).items() if not name.startswith("_")}
    if len(tree) != 1:
        raise ValueError("more than one root")
    return _flatten(next(iter(tree.values())), "", {})


def cldr_annotations(data: bytes) -> Messages:
    """Names and keywords of emoji and symbols."""
    return _flatten(json.loads(data)["annotations"]["annotations"], "", {})


def cldr_main(data: bytes) -> Messages:
    """Display names of countries and languages."""
    (body,) = json.loads(data)["main"].values()
    return _flatten(body["localeDisplayNames"], "", {})


def cldr_units(data: bytes) -> Messages:
    """Long names of units."""
    (body,) = json.loads(data)["main"].values()
    return {
        f"{unit}": entry["displayName"]
        for unit, entry in body["units"]["long"].items()
        if isinstance(entry, dict) and "displayName" in entry
    }


def properties(data: bytes) -> Messages:
    """Java property files with ``\\uXXXX`` escapes."""
    text = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda m: chr(int(m[1], 16)), data.decode("utf-8", "replace"))
    return {m[1]: m[2] for m in re.finditer(r"^([\w.\-]+)[ \t]*=[ \t]*(.+)$", text, re.M)}


def gettext(data: bytes) -> Messages:
    """The message id is both key and English text.  Fuzzy and obsolete entries are left out."""
    out: Messages = {}
    for block in re.split(r"\n\s*\n", data.decode("utf-8", "replace")):
        if re.search(r"^#,.*fuzzy", block, re.M):
            continue
        fields: dict[str, str] = {}
        field = ""
        for line in block.splitlines():
            if opening := re.match(r'(msgid|msgid_plural|msgstr(?:\[\d\])?)\s+(".*")\s*$', line):
                field, literal = opening[1], opening[2]
            elif field and line.startswith('"'):
                literal = line.strip()
            else:
                continue
            try:
                fields[field] = fields.get(field, "") + str(ast.literal_eval(literal))
            except SyntaxError:
                field = ""
        translation = fields.get("msgstr") or fields.get("msgstr[0]")
        if fields.get("msgid") and translation:
            out[fields["msgid"]] = translation
    return out


def typescript_messages(data: bytes) -> Messages:
    """The key is the English text with underscores for spaces and a trailing number."""
    return {re.sub(r"_\d+$", "", key).replace("_", " "): text for key, text in json.loads(data).items()}


def chromium_pak(data: bytes) -> Messages:
    """Chromium resource pack, version 4 or 5: a table of 16-bit ids and 32-bit offsets, then the texts."""
    (version,) = struct.unpack_from("<I", data)
    if version == 4:
        count, encoding = struct.unpack_from("<IB", data, 4)
        table = 9
    elif version == 5:
        encoding, count = struct.unpack_from("<BxxxH", data, 4)
        table = 12
    else:
        raise ValueError(f"resource pack version {version}")
    codec = {1: "utf-8", 2: "utf-16-le"}[encoding]
    entries = [struct.unpack_from("<HI", data, table + 6 * i) for i in range(count + 1)]
    return {
        str(key): data[start:end].decode(codec, "replace") for (key, start), (_, end) in pairwise(entries)
    }
