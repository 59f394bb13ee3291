"""Input schemas made safe to run: no network, linear-time patterns, bounded size and steps.

jsonschema's own classes compile patterns with :mod:`re`, which can take exponential time, and pick another
class wherever a subschema says ``$schema``; both are closed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from threading import local
from typing import Any

import re2
from jsonschema import exceptions, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from extproc.schema.fast import Accepts, accepts

_DIALECTS = {
    "http://json-schema.org/draft-04/schema": validators.Draft4Validator,
    "http://json-schema.org/draft-06/schema": validators.Draft6Validator,
    "http://json-schema.org/draft-07/schema": validators.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": validators.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": validators.Draft202012Validator,
}
_SCHEMA_WORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA_WORDS = frozenset({"const", "enum", "default", "examples", "example"})
_MAX_UNIQUE = 50_000
# Resolving a reference takes about ten times as long as another keyword.
_COST = {"$ref": 10, "$dynamicRef": 10, "$recursiveRef": 10}
_running = local()


class OutOfSteps(Exception):
    """The validation takes more steps than it was given."""


class Unusable(Exception):
    """The schema cannot be used; ``reason`` is a short code for a metric."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownMembers(exceptions.ValidationError):
    """Members that ``additionalProperties: false`` forbids."""

    def __init__(self, extra: list[str]) -> None:
        super().__init__("unknown members")
        self.extra = extra


@dataclass(frozen=True)
class Compiled:
    """A schema ready to run; safe to share between threads."""

    validator: Any = field(repr=False)
    stock: Any = field(repr=False)
    schema: dict[str, Any] = field(repr=False)
    surely: Accepts | None = field(repr=False)
    """True only for valid values; None for a schema with uncommon keywords."""


def compile_schema(raw: bytes, depth: int, nodes: int) -> Compiled:
    """Raises :class:`Unusable` for a schema that is broken, too large or out of bounds."""
    try:
        schema = json.loads(raw)
    except (ValueError, RecursionError):
        raise Unusable("broken") from None
    if not isinstance(schema, dict):
        raise Unusable("broken")
    dialect = schema.get("$schema")
    if dialect is not None and (not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS):
        raise Unusable("dialect")
    stock = _DIALECTS[(dialect or "https://json-schema.org/draft/2020-12/schema").rstrip("#")]
    bare = {key: value for key, value in schema.items() if key != "$schema"}
    _Walk(depth, nodes).schema(bare, 0)
    cls = _safe_class(stock)
    return Compiled(cls(bare, registry=Registry()), stock, bare, accepts(bare))


def errors(compiled: Compiled, value: object, steps: int, most: int) -> tuple[list[Any], int]:
    """The first ``most`` errors, and how many patterns could not be run.

    Raises :class:`OutOfSteps`, or :class:`Unusable` when the schema turns out to be broken or refers outside.
    """
    _running.left = steps
    _running.skipped = 0
    found: list[Any] = []
    try:
        for error in compiled.validator.iter_errors(value):
            found.append(error)
            if len(found) >= most:
                break
    except OutOfSteps:
        raise
    except RecursionError:
        raise Unusable("recursive") from None
    except Unresolvable:
        raise Unusable("reference") from None
    except Exception:
        raise Unusable("broken") from None
    return found, _running.skipped


def is_sound(compiled: Compiled) -> bool:
    """Whether the schema is valid by its own dialect; asked only before a call is refused for its sake."""
    try:
        compiled.stock.check_schema(compiled.schema, format_checker=None)
    except Exception:
        return False
    return True


class _Walk:
    """Bounds on the shape, before anything runs."""

    def __init__(self, depth: int, nodes: int) -> None:
        self._depth = depth
        self._nodes = nodes

    def schema(self, node: object, depth: int) -> None:
        self._nodes -= 1
        if depth > self._depth or self._nodes < 0:
            raise Unusable("too_large")
        if isinstance(node, list):
            for item in node:
                self.schema(item, depth + 1)
        if not isinstance(node, dict):
            return
        if "$schema" in node:
            raise Unusable("dialect")
        for key, value in node.items():
            if key in _DATA_WORDS:
                continue
            if key in _SCHEMA_WORDS and isinstance(value, dict):
                for child in value.values():
                    self.schema(child, depth + 1)
            else:
                self.schema(value, depth + 1)


@lru_cache(maxsize=len(_DIALECTS))
def _safe_class(stock: Any) -> Any:
    keywords = {name: _counted(function, _COST.get(name, 1)) for name, function in stock.VALIDATORS.items()}
    replaced = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    keywords |= {name: _counted(function) for name, function in replaced.items() if name in keywords}
    # Both consult patternProperties with the standard library's matcher.
    for name in ("unevaluatedProperties", "unevaluatedItems"):
        keywords.pop(name, None)
    return validators.create(
        meta_schema=stock.META_SCHEMA,
        validators=keywords,
        type_checker=stock.TYPE_CHECKER,
        id_of=stock.ID_OF,
        applicable_validators=_applicable(stock),
    )


def _applicable(stock: Any) -> Any:
    """Before 2019-09 ``$ref`` hides its siblings."""
    if stock in (validators.Draft201909Validator, validators.Draft202012Validator):
        return lambda schema: schema.items()

    def only_ref(schema: dict[str, Any]) -> Any:
        return [("$ref", schema["$ref"])] if "$ref" in schema else schema.items()

    return only_ref


def _counted(function: Any, cost: int = 1) -> Any:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _running.left -= cost
        if _running.left < 0:
            raise OutOfSteps
        yield from function(validator, value, instance, schema) or ()

    return counted


@lru_cache(maxsize=4096)
def _compiled_pattern(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _found(pattern: object, text: str) -> bool | None:
    """Whether the pattern is found; None for one that linear time cannot do."""
    compiled = _compiled_pattern(pattern) if isinstance(pattern, str) and len(pattern) <= 10_000 else None
    if compiled is None:
        _running.skipped += 1
        return None
    try:
        return compiled.search(text) is not None
    except (UnicodeError, re2.error):
        _running.skipped += 1
        return None


def _pattern(validator: Any, pattern: object, instance: object, schema: object) -> Iterator[Any]:
    if isinstance(instance, str) and _found(pattern, instance) is False:
        yield exceptions.ValidationError(f"does not match {pattern}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: object) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    # A pattern that cannot be run may well cover the name, so it counts as covering it.
    extra = [
        name
        for name in instance
        if name not in known and not any(_found(pattern, name) in (True, None) for pattern in patterns)
    ]
    if rule is False:
        if extra:
            yield UnknownMembers(extra)
    else:
        for name in extra:
            yield from validator.descend(instance[name], rule, path=name)


def _unique_items(validator: Any, wanted: object, instance: Any, schema: object) -> Iterator[Any]:
    if wanted is not True or not isinstance(instance, list) or len(instance) > _MAX_UNIQUE:
        return
    seen: set[str] = set()
    for item in instance:
        key = json.dumps(_canonical(item), sort_keys=True)
        if key in seen:
            yield exceptions.ValidationError("holds an item twice")
            return
        seen.add(key)


def _canonical(value: Any) -> Any:
    """Numbers of equal value look the same; a boolean is no number."""
    match value:
        case bool():
            return value
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_canonical(item) for item in value]
        case dict():
            return {key: _canonical(item) for key, item in value.items()}
        case _:
            return value
