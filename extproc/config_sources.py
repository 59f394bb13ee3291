"""Settings from defaults, a YAML file, the environment and flags, with errors one can act on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_origin

import yaml

from extproc.config_checks import SECTIONS, Given, Tree, build, field_of, kind, unknown
from extproc.config_consistency import Check
from extproc.settings import Settings

PREFIX = "TOOLSEARCH_"
CONFIG_VARIABLE = "TOOLSEARCH_CONFIG"
"""Names the YAML file when there is no ``--config``."""
_NO_SETTINGS = (CONFIG_VARIABLE, "TOOLSEARCH_MODELS")
# What the kubelet puts into every container beside a Service named "toolsearch".
_SERVICE_LINK = re.compile(r"TOOLSEARCH_(?:PORT(?:_\d+_(?:TCP|UDP|SCTP).*)?|SERVICE_(?:HOST|PORT(?:_.*)?))\Z")

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Loaded:
    """``profiles`` holds the complete settings of every profile."""

    settings: Settings
    profiles: Mapping[str, Settings]


class SettingsError(Exception):
    """``problems``: one line each, with the key, what was given and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(
    file: Path | None = None,
    environ: Mapping[str, str] = _NOTHING,
    flags: Mapping[str, str] = _NOTHING,
    further: Iterable[Check] = (),
) -> Loaded:
    """Merge all sources: flags over environment over file over defaults.

    ``flags`` maps ``section.name`` to text.  A profile inherits every setting it does not name; lists and
    mappings are replaced, not merged.  ``further`` checks are asked beside the own ones.
    Raises :class:`SettingsError` with every problem found.
    """
    problems: list[str] = []
    if file is None and environ.get(CONFIG_VARIABLE):
        file = Path(environ[CONFIG_VARIABLE])
    profiles: dict[str, Tree] = {}
    given = _from_file(file, profiles, problems) if file is not None else {}
    given |= _from_environment(environ, problems)
    given |= _from_flags(flags, problems)
    base: Tree = {}
    for path, each in given.items():
        if (problem := unknown(path, each.source)) is not None:
            problems.append(problem)
        elif path[0] == "profiles":
            profiles.setdefault(path[1], {})[path[2:]] = each
        else:
            base[path] = each
    settings, found = build(base, {}, further=further)
    problems += found
    complete: dict[str, Settings] = {}
    for name, overlay in profiles.items():
        profile, found = build(base | overlay, overlay, f"profiles.{name}.", further)
        problems += found
        if profile is not None:
            complete[name] = profile
    if settings is None or problems:
        raise SettingsError(list(dict.fromkeys(problems)))
    return Loaded(settings, complete)


# The file -------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice instead of keeping the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, "the same key twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _from_file(file: Path, profiles: dict[str, Tree], problems: list[str]) -> Tree:
    document = _document(file, problems)
    found: Tree = {}
    for section, members in document.items():
        if section == "profiles" and isinstance(members, dict):
            for name, overlay in members.items():
                # A profile without overrides still is a name that routes may use.
                profiles.setdefault(str(name), {})
                _sections(("profiles", str(name)), overlay, str(file), found, problems)
        elif section in Settings.model_fields:
            _members((str(section),), members, str(file), found, problems)
        else:
            found[(str(section),)] = Given(members, str(file))
    return found


def _document(file: Path, problems: list[str]) -> dict[Any, Any]:
    try:
        document = yaml.load(file.read_text("utf-8"), _Loader)
    except OSError as error:
        problems.append(f"{file}: {error.strerror or 'cannot be read'}")
    except UnicodeDecodeError:
        problems.append(f"{file}: not UTF-8 text")
    except yaml.MarkedYAMLError as error:
        # Only the place: a snippet of the file could show a secret.
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        twice = error.problem == "the same key twice"
        problems.append(f"{file}: {'the same key twice' if twice else 'not valid YAML'}{place}")
    except (yaml.YAMLError, ValueError, RecursionError):
        problems.append(f"{file}: not valid YAML")
    else:
        if isinstance(document, dict):
            return document
        if document is not None:
            problems.append(f"{file}: has to be a mapping of sections: {', '.join(Settings.model_fields)}")
    return {}


def _sections(path: tuple[str, ...], members: object, source: str, found: Tree, problems: list[str]) -> None:
    if isinstance(members, dict):
        for name, member in members.items():
            inner = (*path, str(name))
            if name in SECTIONS:
                _members(inner, member, source, found, problems)
            else:
                found[inner] = Given(member, source)
    elif members is not None:
        problems.append(_not_a_mapping(path, members, source))


def _members(path: tuple[str, ...], members: object, source: str, found: Tree, problems: list[str]) -> None:
    if isinstance(members, dict):
        for name, member in members.items():
            found[(*path, str(name))] = Given(member, source)
    elif members is not None:
        problems.append(_not_a_mapping(path, members, source))


def _not_a_mapping(path: tuple[str, ...], value: object, source: str) -> str:
    return f"{'.'.join(path)}: given {kind(value)} (from {source}); allowed: a mapping"


# Text -----------------------------------------------------------------------------------------------------


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> Tree:
    found: Tree = {}
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and variable not in _NO_SETTINGS and not _SERVICE_LINK.match(variable):
            path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
            found[path] = Given(_parse(path, text, variable, problems), variable)
    return found


def _from_flags(flags: Mapping[str, str], problems: list[str]) -> Tree:
    found: Tree = {}
    for name, text in flags.items():
        path = tuple(name.split("."))
        found[path] = Given(_parse(path, text, f"--{name}", problems), f"--{name}")
    return found


def _parse(path: tuple[str, ...], text: str, source: str, problems: list[str]) -> Any:
    """Lists as ``a,b`` or JSON, mappings as ``key=value,key=value`` or JSON, everything else as it is."""
    field = field_of(path)
    container = get_origin(field.annotation) if field is not None else None
    if container not in (tuple, dict):
        return text
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            problems.append(f"{'.'.join(path)}: not valid JSON (from {source})")
            return [] if container is tuple else {}
    items = [item.strip() for item in text.split(",") if item.strip()]
    if container is tuple:
        return items
    pairs = [item.partition("=") for item in items]
    return {name.strip(): value.strip() for name, _, value in pairs}
