"""What settings may be, and the sentences that say so."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from extproc.config_consistency import Check, flaws
from extproc.settings import Settings

SECTIONS: Mapping[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}

_PER_PROFILE_SERVER_KEYS = ("server.deadline", "server.early_close", "server.response_mode")
_PROCESS_WIDE_KEYS = (
    "caller.key",
    "catalog.store",
    "catalog.store_key",
    "catalog.store_timeout",
    "limits.cache",
    "limits.callers",
    "limits.exchanges",
    "limits.buffered",
)
# Text that may carry a password: never shown back.
_PRIVATE_KEYS = ("catalog.url", "catalog.store")
_SHOWN_CHARS = 40
_NEAR = 0.65
"""Share of letters in common from which a name is offered for another: a typing error, not a chance."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value and where it came from."""

    value: Any
    source: str


Tree: TypeAlias = dict[tuple[str, ...], Given]
"""``(section, name)`` or ``("profiles", profile, section, name)`` to what was given."""


def leaves() -> Iterator[tuple[str, FieldInfo]]:
    """``section.name`` and the field of every setting but profiles."""
    for section, model in SECTIONS.items():
        for name, field in model.model_fields.items():
            yield f"{section}.{name}", field


def field_of(path: tuple[str, ...]) -> FieldInfo | None:
    """The field of a path in a :data:`Tree`, if there is one."""
    inner = path[2:] if path[0] == "profiles" else path
    if len(inner) != 2 or inner[0] not in SECTIONS:
        return None
    return SECTIONS[inner[0]].model_fields.get(inner[1])


def unknown(path: tuple[str, ...], source: str) -> str | None:
    """Why ``path`` names no setting that may be given there; None when it does."""
    label = ".".join(path)
    if path[0] == "profiles" and len(path) < 3:
        return f"{label}: given a value (from {source}); allowed: profiles.NAME.SECTION.SETTING"
    prefix, inner = ("", path) if path[0] != "profiles" else (".".join(path[:2]) + ".", path[2:])
    if not inner or inner[0] not in SECTIONS:
        allowed = [*SECTIONS] if prefix else [*Settings.model_fields]
        hint = _nearest(inner[0] if inner else "", allowed, prefix)
        return f"{label}: unknown section (from {source}); {hint}allowed: {', '.join(allowed)}"
    names = [*SECTIONS[inner[0]].model_fields]
    if len(inner) != 2 or inner[1] not in names:
        hint = _nearest("_".join(inner[1:]), names, f"{prefix}{inner[0]}.")
        return f"{label}: unknown setting (from {source}); {hint}allowed: {', '.join(names)}"
    if prefix and _process_wide(".".join(inner)):
        return f"{label}: holds for the whole process and cannot be set in a profile (from {source})"
    return None


def build(
    given: Tree, own: Tree, prefix: str = "", further: Iterable[Check] = ()
) -> tuple[Settings | None, list[str]]:
    """Settings of ``given``, or None and everything that is wrong with it; ``further`` checks look as well.

    Problems of members of ``own`` are reported under ``prefix``: a profile's overlay on what it inherits.
    """
    problems: list[str] = []
    tree: dict[str, dict[str, Any]] = {}
    wrong: set[tuple[str, ...]] = set()
    for path, each in given.items():
        if _unnatural(path, each.value):
            wrong.add(path)
        else:
            tree.setdefault(path[0], {})[path[1]] = each.value
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        wrong |= {tuple(map(str, each["loc"][:2])) for each in error.errors()}
        # What is valid is still checked for consistency, with defaults in the place of what is not.
        settings = Settings.model_validate(
            {
                section: {name: value for name, value in members.items() if (section, name) not in wrong}
                for section, members in tree.items()
            }
        )
    for path in given:
        if path in wrong:
            problems.append(_complaint(path, given[path], prefix if path in own else ""))
    doubtful = {".".join(path) for path in wrong}
    found = [flaw for check in further for flaw in check(settings) if not doubtful & {*flaw.settings}]
    for flaw in (*flaws(settings, doubtful), *found):
        section, _, name = flaw.settings[0].partition(".")
        path = (section, name)
        source = f" (from {given[path].source})" if path in given else ""
        problems.append(f"{prefix if path in own else ''}{flaw.settings[0]}{source}: {flaw.text}")
    return (None if problems else settings), problems


def kind(value: object) -> str:
    """What a value is, without the value."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "a date or the like"


def describe(field: FieldInfo) -> str:
    """What a setting may be, in words: ``whole number, at least 1``."""
    bounds = {"ge": "at least", "le": "at most"}
    text = _describe_type(field.annotation)
    for item in field.metadata:
        if getattr(item, "pattern", None) is not None:
            text += f" like {field.default}"
        for name, words in bounds.items():
            if getattr(item, name, None) is not None:
                text += f", {words} {getattr(item, name)}"
    return text


def _describe_type(annotation: Any) -> str:
    plain = {
        bool: "true or false",
        int: "whole number",
        float: "number",
        str: "text",
        SecretStr: "text (kept secret)",
    }
    if annotation in plain:
        return plain[annotation]
    arguments: Any = getattr(annotation, "__args__", ())
    if get_origin(annotation) is tuple:
        return "list of texts"
    if get_origin(annotation) is dict:
        return f"mapping of texts to {_describe_type(arguments[1])}"
    return "one of " + ", ".join(map(str, arguments))


def _nearest(name: str, allowed: list[str], prefix: str) -> str:
    keys = [key for key, _ in leaves()]
    elsewhere = [key for key in keys if key.endswith(f".{name}") or key.replace(".", "_") == name]
    if elsewhere:
        return f"did you mean {elsewhere[0]}? "
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=_NEAR)
    return f"did you mean {prefix}{near[0]}? " if near else ""


def _process_wide(key: str) -> bool:
    section = key.partition(".")[0]
    if section == "server":
        return key not in _PER_PROFILE_SERVER_KEYS
    return section == "telemetry" or key in _PROCESS_WIDE_KEYS


def _unnatural(path: tuple[str, ...], value: object) -> bool:
    # Text of flags and variables needs lax conversion, which would take these as well.
    field = field_of(path)
    if field is None or field.annotation not in (int, float):
        return False
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return False
    return isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value))


def _complaint(path: tuple[str, ...], given: Given, prefix: str) -> str:
    field = field_of(path)
    assert field is not None
    shown = _shown(".".join(path), field, given.value)
    return f"{prefix}{'.'.join(path)}: given {shown} (from {given.source}); allowed: {describe(field)}"


def _shown(key: str, field: FieldInfo, value: object) -> str:
    if field.annotation is SecretStr or key in _PRIVATE_KEYS:
        return f"{kind(value)} that is not shown"
    if value is None or isinstance(value, dict | list):
        return kind(value)
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
