"""A quick yes for the schemas most tools have.

``accepts`` compiles a schema made of the everyday keywords into closures that say whether a value is surely
valid. It never says no: whatever is not surely valid is left to the full validator, which also words the
errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Accepts: TypeAlias = Callable[[Any], bool]

_IGNORED = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "format",
        "x-mcp-header",
    }
    | {"$comment", "contentEncoding", "contentMediaType"}
)
_HANDLED = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "minimum",
        "maximum",
        "minLength",
    }
    | {"maxLength", "minItems", "maxItems", "anyOf"}
)
_MAX_DEPTH = 12

_TYPES: dict[str, Accepts] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict,
}
_EXACT: dict[Accepts, type] = {
    _TYPES[name]: kind
    for name, kind in (
        ("string", str),
        ("integer", int),
        ("boolean", bool),
        ("array", list),
        ("object", dict),
    )
}
_OF_OBJECTS = frozenset({"properties", "additionalProperties", "required"})


def accepts(schema: object, depth: int = 0) -> Accepts | None:
    """A test that is true only for valid values, or None for a schema with other keywords or shapes."""
    if schema is True:
        return lambda value: True
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    words = schema.keys() - _IGNORED
    if not words <= _HANDLED:
        return None
    tests: list[Accepts] = []
    if words & _OF_OBJECTS:
        test = _object(schema, depth)
        if test is None:
            return None
        tests.append(test)
        words -= _OF_OBJECTS if schema.get("type") != "object" else _OF_OBJECTS | {"type"}
    for word in words:
        test = _KEYWORDS[word](schema, depth) if word in _KEYWORDS else None
        if test is None:
            return None
        tests.append(test)
    return _all(tests)


def _all(tests: list[Accepts]) -> Accepts:
    if not tests:
        return lambda value: True
    if len(tests) == 1:
        return tests[0]
    first, *rest = tests
    if len(rest) == 1:
        second = rest[0]
        return lambda value: first(value) and second(value)

    def check(value: Any) -> bool:
        # A loop, here and below: a generator costs more than the tests it runs.
        for test in tests:
            if not test(value):
                return False
        return True

    return check


def _any(tests: list[Accepts]) -> Accepts:
    def check(value: Any) -> bool:
        for test in tests:
            if test(value):
                return True
        return False

    return check


def _type(schema: dict[str, Any], depth: int) -> Accepts | None:
    wanted = schema["type"]
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n in _TYPES for n in names):
        return None
    if len(names) == 1:
        return _TYPES[names[0]]
    return _any([_TYPES[name] for name in names])


def _object(schema: dict[str, Any], depth: int) -> Accepts | None:
    """The keywords of ``_OF_OBJECTS`` in one pass, and ``type`` where it is ``object``."""
    properties, names = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    tests: dict[str, Accepts] = {}
    for name, child in properties.items():
        test = accepts(child, depth + 1)
        if test is None:
            return None
        tests[name] = test
    extra = schema.get("additionalProperties", True)
    rest = None if extra is False else accepts(extra, depth + 1)
    if extra is not False and rest is None:
        return None
    # Most members have a type and nothing else: comparing it costs less than calling a test.
    exact = {name: _EXACT[test] for name, test in tests.items() if test in _EXACT}
    required = frozenset(names)
    others = schema.get("type") != "object"

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return others
        if not required <= value.keys():
            return False
        for name, item in value.items():
            if type(item) is exact.get(name):
                continue
            test = tests.get(name, rest)
            if test is None or not test(item):
                return False
        return True

    return check


def _items(schema: dict[str, Any], depth: int) -> Accepts | None:
    test = accepts(schema["items"], depth + 1)
    if test is None:
        return None

    def check(value: Any) -> bool:
        if type(value) is list:
            for item in value:
                if not test(item):
                    return False
        return True

    return check


def _enum(schema: dict[str, Any], depth: int) -> Accepts | None:
    """Only for texts: 1, 1.0 and true are too easily taken for each other."""
    values = schema["enum"]
    if not isinstance(values, list) or not all(type(value) is str for value in values):
        return None
    allowed = frozenset(values)
    return lambda value: type(value) is str and value in allowed


def _bound(word: str, kinds: tuple[type, ...], size: Callable[[Any], Any], least: bool) -> Any:
    def compile_bound(schema: dict[str, Any], depth: int) -> Accepts | None:
        limit = schema[word]
        if type(limit) not in (int, float):
            return None
        if least:
            return lambda value: type(value) not in kinds or size(value) >= limit
        return lambda value: type(value) not in kinds or size(value) <= limit

    return compile_bound


def _any_of(schema: dict[str, Any], depth: int) -> Accepts | None:
    choices = schema["anyOf"]
    if not isinstance(choices, list) or not choices:
        return None
    tests = [accepts(choice, depth + 1) for choice in choices]
    known = [test for test in tests if test is not None]
    if len(known) != len(tests):
        return None
    return _any(known)


_NUMBERS = (int, float)
_KEYWORDS: dict[str, Callable[[dict[str, Any], int], Accepts | None]] = {
    "type": _type,
    "items": _items,
    "enum": _enum,
    "anyOf": _any_of,
    "minimum": _bound("minimum", _NUMBERS, lambda value: value, True),
    "maximum": _bound("maximum", _NUMBERS, lambda value: value, False),
    "minLength": _bound("minLength", (str,), len, True),
    "maxLength": _bound("maxLength", (str,), len, False),
    "minItems": _bound("minItems", (list,), len, True),
    "maxItems": _bound("maxItems", (list,), len, False),
}
