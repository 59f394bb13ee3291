"""What settings may be, and the sentences that say so."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from extproc.addresses import BadAddress, parse_address, parse_tcp
from extproc.settings import Settings
from extproc.store.opening import StoreSettingsError, check_store

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
)
# Text that may carry a password: never shown back.
_PRIVATE_KEYS = ("catalog.url", "catalog.store")
_URL = re.compile(r"https?://[^/\s]+")
_SHOWN_CHARS = 40


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


def build(given: Tree, own: Tree, prefix: str = "") -> tuple[Settings | None, list[str]]:
    """Settings of ``given``, or None and what is wrong with it.

    Problems of members of ``own`` are reported under ``prefix``: a profile's overlay on what it inherits.
    """
    problems: list[str] = []
    tree: dict[str, dict[str, Any]] = {}
    for path, each in given.items():
        if _unnatural(path, each.value):
            problems.append(_complaint(path, each, prefix if path in own else ""))
        else:
            tree.setdefault(path[0], {})[path[1]] = each.value
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        for path in dict.fromkeys(tuple(map(str, each["loc"][:2])) for each in error.errors()):
            problems.append(_complaint(path, given[path], prefix if path in own else ""))
        return None, problems
    for path, text in _inconsistent(settings):
        source = f" (from {given[path].source})" if path in given else ""
        problems.append(f"{prefix if path in own else ''}{'.'.join(path)}{source}: {text}")
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
    elsewhere = [key for key, _ in leaves() if key.endswith(f".{name}")]
    if elsewhere:
        return f"did you mean {elsewhere[0]}? "
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
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


def _inconsistent(settings: Settings) -> Iterator[tuple[tuple[str, str], str]]:
    """What the types alone cannot say."""
    server = settings.server
    try:
        parse_address(server.listen)
    except BadAddress as error:
        yield ("server", "listen"), str(error)
    if server.admin:
        try:
            parse_tcp(server.admin)
        except BadAddress as error:
            yield ("server", "admin"), f"{error}; empty switches it off"
    if bool(server.tls_cert) != bool(server.tls_key):
        name = "tls_cert" if server.tls_cert else "tls_key"
        yield ("server", name), "server.tls_cert and server.tls_key go together"
    if server.tls_client_ca and not server.tls_cert:
        yield ("server", "tls_client_ca"), "needs server.tls_cert and server.tls_key"
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        file = getattr(server, name)
        if file and not Path(file).is_file():
            yield ("server", name), "no such file"
    catalog = settings.catalog
    if catalog.url and not _URL.match(catalog.url):
        yield ("catalog", "url"), "has to be an http:// or https:// URL"
    for name, url in catalog.targets.items():
        if not _URL.match(url):
            yield ("catalog", "targets"), f"{name[:_SHOWN_CHARS]}: has to be an http:// or https:// URL"
    if catalog.token_attribute and "authorization" not in map(str.lower, settings.caller.headers):
        yield (
            ("catalog", "token_attribute"),
            "is sent as authorization, which caller.headers has to name so that it tells callers apart",
        )
    try:
        check_store(settings)
    except StoreSettingsError as error:
        setting, _, text = str(error).partition(": ")
        section, _, name = setting.partition(".")
        yield (section, name), text
    if settings.search.limit > settings.search.max_limit:
        yield ("search", "limit"), f"is above search.max_limit ({settings.search.max_limit})"
