"""Settings from defaults, a YAML file, the environment and flags, with errors one can act on."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from extproc.server.address import BadAddress, parse_address, parse_tcp
from extproc.settings import Settings

PREFIX = "TOOLSEARCH_"
CONFIG_VARIABLE = "TOOLSEARCH_CONFIG"
"""Names the YAML file when there is no ``--config``."""

PROCESS_WIDE = ("server", "telemetry")
"""Sections that a profile cannot change, apart from :data:`PROFILE_SERVER_KEYS`."""
PROFILE_SERVER_KEYS = ("deadline", "early_close", "response_mode")
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
_PRIVATE_KEYS = ("catalog.url", "catalog.store", "instructions.text")
_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class Loaded:
    """``profiles`` holds the complete settings of every profile."""

    settings: Settings
    profiles: Mapping[str, Settings]


class SettingsError(Exception):
    """``problems``: one line each, with the key, what was given, what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Given:
    """A value and where it came from."""

    value: Any
    source: str


_Tree = dict[tuple[str, ...], _Given]


def load(
    file: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, str] = MappingProxyType({}),
) -> Loaded:
    """Merge all sources, flags over environment over file over defaults.

    ``flags`` maps ``section.name`` to text.  Raises :class:`SettingsError` with every problem found.
    """
    problems: list[str] = []
    given: _Tree = {}
    if file is None and environ.get(CONFIG_VARIABLE):
        file = Path(environ[CONFIG_VARIABLE])
    if file is not None:
        given |= _from_file(file, problems)
    given |= _from_environment(environ, problems)
    given |= _from_flags(flags, problems)
    checked = {path: each for path, each in given.items() if _known(path, each, problems)}
    base = {path: each for path, each in checked.items() if path[0] != "profiles"}
    settings = _build(base, "", problems)
    profiles: dict[str, Settings] = {}
    for name in sorted({path[1] for path in checked if path[0] == "profiles"}):
        overlay = {
            path[2:]: each for path, each in checked.items() if path[:2] == ("profiles", name) and path[2:]
        }
        profile = _build(
            base | overlay, f"profiles.{name}.", [] if settings is None and not overlay else problems, overlay
        )
        if profile is not None:
            profiles[name] = profile
    if settings is None or problems:
        raise SettingsError(list(dict.fromkeys(problems)))
    return Loaded(settings, profiles)


def leaves() -> Iterator[tuple[str, FieldInfo]]:
    """``section.name`` and the field of every setting but profiles."""
    for section, model in _sections().items():
        for name, field in model.model_fields.items():
            yield f"{section}.{name}", field


def _sections() -> dict[str, type[BaseModel]]:
    return {
        name: field.annotation
        for name, field in Settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }


# Sources --------------------------------------------------------------------------------------------------


def _from_file(file: Path, problems: list[str]) -> _Tree:
    try:
        document = yaml.load(file.read_text("utf-8"), _Loader)
    except OSError as error:
        problems.append(f"{file}: {error.strerror or 'cannot be read'}")
        return {}
    except UnicodeDecodeError:
        problems.append(f"{file}: not UTF-8 text")
        return {}
    except yaml.MarkedYAMLError as error:
        # Only the place: a snippet of the file could show a secret.
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problems.append(f"{file}: not valid YAML{place}: {error.problem}")
        return {}
    except yaml.YAMLError:
        problems.append(f"{file}: not valid YAML")
        return {}
    if document is None:
        return {}
    if not isinstance(document, dict):
        problems.append(f"{file}: has to be a mapping of sections ({', '.join(Settings.model_fields)})")
        return {}
    found: _Tree = {}
    for section, members in document.items():
        _spread((str(section),), members, str(file), found, problems)
    return found


def _spread(path: tuple[str, ...], members: object, source: str, found: _Tree, problems: list[str]) -> None:
    depth = 4 if path[0] == "profiles" else 2
    if len(path) == depth or path[0] not in Settings.model_fields:
        found[path] = _Given(members, source)
    elif members is None:
        if path[0] == "profiles" and len(path) == 2:
            found[path] = _Given({}, source)
    elif isinstance(members, dict):
        if path[0] == "profiles" and len(path) == 2 and not members:
            found[path] = _Given({}, source)
        for name, member in members.items():
            _spread((*path, str(name)), member, source, found, problems)
    else:
        problems.append(f"{'.'.join(path)}: given {_kind(members)} (from {source}); allowed: a mapping")


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> _Tree:
    found: _Tree = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE:
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        found[path] = _Given(_parse(path, text, variable, problems), variable)
    return found


def _from_flags(flags: Mapping[str, str], problems: list[str]) -> _Tree:
    found: _Tree = {}
    for name, text in flags.items():
        path = tuple(name.split("."))
        found[path] = _Given(_parse(path, text, f"--{name}", problems), f"--{name}")
    return found


def _parse(path: tuple[str, ...], text: str, source: str, problems: list[str]) -> Any:
    """Text of a flag or variable for the type of its setting: lists as ``a,b`` or JSON, maps as ``k=v,k=v`` or JSON."""
    field = _field(path)
    container = get_origin(field.annotation) if field is not None else None
    if container is tuple:
        if text.lstrip().startswith("["):
            return _json(path, text, source, problems)
        return [item.strip() for item in text.split(",") if item.strip()]
    if container is dict:
        if text.lstrip().startswith("{"):
            return _json(path, text, source, problems)
        pairs = [item.partition("=") for item in text.split(",") if item.strip()]
        return {name.strip(): value.strip() for name, _, value in pairs}
    return text


def _json(path: tuple[str, ...], text: str, source: str, problems: list[str]) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        problems.append(f"{'.'.join(path)}: not valid JSON (from {source}): {str(error).partition(':')[0]}")
        return text


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice instead of keeping the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(None, None, "the same key twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


# Checks ---------------------------------------------------------------------------------------------------


def _field(path: tuple[str, ...]) -> FieldInfo | None:
    section, name = (
        (path[2:] if path[0] == "profiles" and len(path) == 4 else path)[:2]
        if len(path) in (2, 4)
        else ("", "")
    )
    model = _sections().get(section)
    return model.model_fields.get(name) if model is not None else None


def _known(path: tuple[str, ...], given: _Given, problems: list[str]) -> bool:
    prefix = ""
    inner = path
    if path[0] == "profiles":
        if len(path) == 2 and given.value == {}:
            return True
        prefix, inner = ".".join(path[:2]) + ".", path[2:]
    sections = _sections()
    label = ".".join(path)
    if not inner or inner[0] not in sections:
        allowed = [*sections] if prefix else [*Settings.model_fields]
        _unknown(label, prefix, inner[0] if inner else "", allowed, "section", given.source, problems)
        return False
    names = [*sections[inner[0]].model_fields]
    if len(inner) != 2 or inner[1] not in names:
        rest = "__".join(inner[1:])
        _unknown(label, f"{prefix}{inner[0]}.", rest, names, "setting", given.source, problems)
        return False
    key = ".".join(inner)
    if prefix and _process_wide(key):
        problems.append(
            f"{label}: holds for the whole process and cannot be set in a profile (from {given.source})"
        )
        return False
    return True


def _process_wide(key: str) -> bool:
    section, name = key.split(".")
    if section == "server":
        return name not in PROFILE_SERVER_KEYS
    return section == "telemetry" or key in _PROCESS_WIDE_KEYS


def _unknown(
    label: str, prefix: str, name: str, allowed: list[str], what: str, source: str, problems: list[str]
) -> None:
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"did you mean {prefix}{near[0]}? " if near else ""
    everywhere = [key for key, _ in leaves() if key.endswith(f".{name}")]
    if not near and everywhere:
        hint = f"did you mean {everywhere[0]}? "
    problems.append(f"{label}: unknown {what} (from {source}); {hint}allowed: {', '.join(allowed)}")


def _build(given: _Tree, prefix: str, problems: list[str], overlay: _Tree | None = None) -> Settings | None:
    tree: dict[str, dict[str, Any]] = {}
    sound = True
    for path, each in given.items():
        if len(path) != 2:
            continue
        if _unnatural(path, each.value):
            problems.append(_complaint(path, each, prefix if overlay is None or path in overlay else ""))
            sound = False
            continue
        tree.setdefault(path[0], {})[path[1]] = each.value
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        for path in dict.fromkeys(tuple(str(part) for part in each["loc"][:2]) for each in error.errors()):
            problems.append(
                _complaint(path, given[path], prefix if overlay is None or path in overlay else "")
            )
        return None
    for path, text in _inconsistent(settings):
        source = f" (from {given[path].source})" if path in given else ""
        problems.append(f"{prefix}{'.'.join(path)}{source}: {text}")
        sound = False
    return settings if sound else None


def _unnatural(path: tuple[str, ...], value: object) -> bool:
    # The lax conversions that help with text from the environment would let these through.
    field = _field(path)
    if field is None or field.annotation in (bool, str):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return True
    if (
        isinstance(value, str)
        and field.annotation is float
        and value.strip().lower().lstrip("+-") in ("inf", "infinity", "nan")
    ):
        return True
    return isinstance(value, bool)


def _complaint(path: tuple[str, ...], given: _Given, prefix: str) -> str:
    field = _field(path)
    allowed = describe(field) if field is not None else "?"
    return f"{prefix}{'.'.join(path)}: given {_shown(path, field, given.value)} (from {given.source}); allowed: {allowed}"


def _shown(path: tuple[str, ...], field: FieldInfo | None, value: object) -> str:
    secret = field is not None and field.annotation is SecretStr
    if secret or ".".join(path) in _PRIVATE_KEYS or isinstance(value, dict | list):
        return f"{_kind(value)}{' that is not shown' if secret else ''}"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _kind(value: object) -> str:
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
            return "a date or another kind of value"


def describe(field: FieldInfo) -> str:
    """What a setting may be, in words: ``whole number, at least 1``."""
    annotation = field.annotation
    bounds = {}
    for item in field.metadata:
        for name in ("ge", "gt", "le", "lt"):
            if getattr(item, name, None) is not None:
                bounds[name] = getattr(item, name)
        if getattr(item, "pattern", None) is not None:
            return f"text like {field.default!r}"
    text = _describe_type(annotation)
    if "ge" in bounds:
        text += f", at least {bounds['ge']}"
    if "le" in bounds:
        text += f", at most {bounds['le']}"
    return text


def _describe_type(annotation: Any) -> str:
    if annotation is bool:
        return "true or false"
    if annotation is int:
        return "whole number"
    if annotation is float:
        return "number"
    if annotation is str:
        return "text"
    if annotation is SecretStr:
        return "text (kept secret)"
    if get_origin(annotation) is tuple:
        return "list of texts"
    if get_origin(annotation) is dict:
        return f"mapping of texts to {_describe_type(annotation.__args__[1])}"
    choices = getattr(annotation, "__args__", ())
    return ("one of " + ", ".join(map(str, choices))) if choices else "?"


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
            yield (
                ("server", "admin"),
                f"{error}; empty switches it off".replace(
                    " or, for listening to the gateway, unix:/PATH", ""
                ),
            )
    if bool(server.tls_cert) != bool(server.tls_key):
        yield (
            ("server", "tls_cert" if server.tls_cert else "tls_key"),
            "server.tls_cert and server.tls_key go together",
        )
    if server.tls_client_ca and not server.tls_cert:
        yield ("server", "tls_client_ca"), "needs server.tls_cert and server.tls_key"
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        path = getattr(server, name)
        if path and not Path(path).is_file():
            yield ("server", name), "no such file"
    url = settings.catalog.url
    if url and not re.match(r"https?://[^/\s]+", url):
        yield ("catalog", "url"), "has to be an http:// or https:// URL"
    if settings.catalog.store and not re.match(r"(rediss?|unix)://", settings.catalog.store):
        yield ("catalog", "store"), "has to be a redis://, rediss:// or unix:// URL"
    if settings.search.limit > settings.search.max_limit:
        yield ("search", "limit"), f"is above search.max_limit ({settings.search.max_limit})"
