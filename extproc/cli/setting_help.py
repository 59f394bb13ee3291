"""The help of every setting's flag, from what the settings say of themselves."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise

from pydantic.fields import FieldInfo

from extproc import settings
from extproc.config_checks import SECTIONS, describe


def help_text(key: str, field: FieldInfo, said: dict[str, str]) -> str:
    """What ``section.name`` is for, what it may be, and its default."""
    default = shown_default(field)
    rule = describe(field) + (f"; default: {default}" if default else "")
    return f"{said[key]} ({rule})" if key in said else rule


def remarks() -> dict[str, str]:
    """What the settings' own docstrings say, by ``section.name``, without markup and on one line."""
    found = {}
    names = {model.__name__: section for section, model in SECTIONS.items()}
    for node in ast.parse(inspect.getsource(settings)).body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            for field, text in pairwise(node.body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                        plain = " ".join(words.split()).replace("``", "")
                        found[f"{names[node.name]}.{name}"] = plain
    return found


def shown_default(field: FieldInfo) -> str:
    """The default in the words of a flag; empty where there is none to speak of."""
    match field.get_default(call_default_factory=True):
        case bool() as value:
            return str(value).lower()
        case tuple() | list() as values:
            return ",".join(map(str, values))
        case str() | int() | float() as value:
            return str(value)
        case _:
            return ""
