"""YAML with comments: plain trees in, text out."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Plain: TypeAlias = "str | int | float | bool | Mapping[str, Plain] | Sequence[Plain] | None"
Tree: TypeAlias = "str | int | float | bool | Noted | Mapping[str, Tree] | Sequence[Tree] | None"

WIDTH = 100
_BARE = re.compile(r"(?:--)?[A-Za-z_/.][A-Za-z0-9_./%()+-]*(?: [A-Za-z0-9_./(][A-Za-z0-9_./()+-]*)*\Z")
_PLAIN_NUMBERISH = re.compile(
    r"[0-9]+(?:\.[0-9]+)?(?:ms|s|Mi|Gi|m)\Z|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?\Z"
)
_RESERVED = re.compile(r"(?i:true|false|yes|no|on|off|y|n|null|~|\.nan|[-+]?\.inf|\.)\Z")


@dataclass(frozen=True, slots=True)
class Noted:
    """A value with the comment printed above its key."""

    text: str
    value: Tree


def note(text: str, value: Tree) -> Noted:
    """``value`` with a comment; white space in ``text`` is folded."""
    return Noted(" ".join(text.split()), value)


def plain(tree: Tree) -> Plain:
    """The tree without its comments."""
    match tree:
        case Noted(value=value):
            return plain(value)
        case Mapping():
            return {key: plain(value) for key, value in tree.items()}
        case str() | int() | float() | None:
            return tree
        case _:
            return [plain(item) for item in tree]


def render(tree: Tree, head: str = "") -> str:
    """One YAML document, with ``head`` (paragraphs split by blank lines) as its opening comment."""
    lines: list[str] = []
    for paragraph in head.strip().split("\n\n"):
        if lines:
            lines.append("#")
        lines += _comment(" ".join(paragraph.split()), "")
    lines = [*lines, ""] if any(lines) else []
    _block(tree, "", lines)
    return "\n".join(lines) + "\n"


def render_all(trees: Sequence[Tree], head: str = "") -> str:
    """Several documents in one file."""
    return "---\n".join(render(tree, head if not index else "") for index, tree in enumerate(trees))


def _comment(text: str, indent: str) -> list[str]:
    if not text:
        return []
    return [f"{indent}# {line}" for line in textwrap.wrap(text, WIDTH - len(indent) - 2)]


def _block(tree: Tree, indent: str, lines: list[str]) -> None:
    if isinstance(tree, Noted):
        lines += _comment(tree.text, indent)
        tree = tree.value
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            _entry(f"{scalar(key)}:", value, indent, lines)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for item in tree:
            _item(item, indent, lines)
    else:
        lines.append(indent + scalar(tree))


def _entry(label: str, value: Tree, indent: str, lines: list[str]) -> None:
    if isinstance(value, Noted):
        lines += _comment(value.text, indent)
        value = value.value
    inline = _inline(value)
    if inline is not None:
        lines.append(f"{indent}{label} {inline}")
        return
    if isinstance(value, str):
        lines.append(f"{indent}{label} |{'' if value.endswith(chr(10)) else '-'}")
        lines.extend(f"{indent}  {line}".rstrip() for line in value.splitlines())
        return
    lines.append(f"{indent}{label}")
    _block(value, indent + ("" if _is_list(value) else "  "), lines)


def _item(item: Tree, indent: str, lines: list[str]) -> None:
    if isinstance(item, Noted):
        lines += _comment(item.text, indent)
        item = item.value
    inline = _inline(item)
    if inline is not None:
        lines.append(f"{indent}- {inline}")
        return
    inner: list[str] = []
    _block(item, indent + "  ", inner)
    first = next(index for index, line in enumerate(inner) if not line.lstrip().startswith("#"))
    for line in inner[:first]:
        lines.append(f"{indent}{line.strip()}")
    lines.append(f"{indent}- {inner[first].strip()}")
    lines += inner[first + 1 :]


def _inline(value: Tree) -> str | None:
    """The value on the key's own line, or None when it needs a block."""
    if isinstance(value, str) and "\n" in value:
        return None
    if isinstance(value, str | int | float) or value is None:
        return scalar(value)
    if not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    if _is_list(value) and all(isinstance(item, str | int) for item in _items(value)):
        text = "[" + ", ".join(_flow(item) for item in _items(value)) + "]"
        return text if len(text) <= 60 else None
    return None


def _items(value: Tree) -> Sequence[Tree]:
    assert isinstance(value, Sequence)
    return value


def _is_list(value: Tree) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _flow(value: Tree) -> str:
    text = scalar(value)
    return (
        json.dumps(value, ensure_ascii=False) if isinstance(value, str) and set(text) & set(",[]{}") else text
    )


def scalar(value: Tree) -> str:
    """A YAML scalar; strings are quoted unless they cannot be read as anything else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    assert isinstance(value, str)
    if (_BARE.match(value) and not _RESERVED.match(value)) or _PLAIN_NUMBERISH.match(value):
        return value
    if re.match(r"[A-Za-z][A-Za-z0-9+]*:(//)?[A-Za-z0-9_./:%-]*[A-Za-z0-9_/]\Z", value) and ": " not in value:
        return value
    if '"' in value and "'" not in value and value.isprintable() and "\\" not in value:
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)
