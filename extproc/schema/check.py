"""The verdict on one call's arguments, in words a model can act on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from threading import Lock
from typing import Any, TypeAlias

import msgspec

from extproc.schema.compiled import (
    Compiled,
    OutOfSteps,
    UnknownMembers,
    Unusable,
    compile_schema,
    errors,
    is_sound,
)
from extproc.schema.fast import Accepts

STEPS_AT_ONCE = 1_000
"""Keyword checks that may run between two other requests: a few milliseconds."""
STEPS_ASIDE = 30_000
"""Keyword checks in a thread; a call that needs more goes on unchecked."""
MAX_ERRORS = 5
_QUICK = 64 * 1024
_decode = json.JSONDecoder().decode
_quick_decode = msgspec.json.Decoder().decode
_SHOWN = 80
_MEMBERS = 20


class Valid(msgspec.Struct, frozen=True):
    skipped: int = 0
    """Patterns that linear time cannot do and that were not run."""


class Invalid(msgspec.Struct, frozen=True):
    """``problems``: one line each, with the place, what was given and what is allowed."""

    problems: tuple[str, ...]
    skipped: int = 0


class Unchecked(msgspec.Struct, frozen=True):
    """The call goes on; ``reason`` is a short code for a metric."""

    reason: str


class Heavy(msgspec.Struct, frozen=True):
    """More steps than may run at once: check again aside."""


_VALID = Valid()
Verdict: TypeAlias = Valid | Invalid | Unchecked | Heavy


class Checker:
    """Compiled schemas by digest, shared by all threads; the oldest leave when there are ``schemas``."""

    def __init__(self, depth: int, nodes: int, schemas: int = 4096) -> None:
        self._depth = depth
        self._nodes = nodes
        self._lock = Lock()
        self._most = schemas
        self._compiled: dict[bytes, Compiled | Unusable] = {}

    def check(self, schema: bytes, digest: bytes, arguments: bytes, *, aside: bool = False) -> Verdict:
        """``aside`` is true in a thread of its own, where more steps may be taken."""
        compiled = self._compiled.get(digest) or self._compile(schema, digest)
        if isinstance(compiled, Unusable):
            return Unchecked(compiled.reason)
        if compiled.surely is not None and len(arguments) <= _QUICK and _fits(compiled.surely, arguments):
            return _VALID
        try:
            value = _decode(arguments.decode())
        except (ValueError, RecursionError):
            return Unchecked("arguments")
        try:
            found, skipped = errors(compiled, value, STEPS_ASIDE if aside else STEPS_AT_ONCE, MAX_ERRORS)
        except OutOfSteps:
            return Unchecked("steps") if aside else Heavy()
        except Unusable as unusable:
            return Unchecked(unusable.reason)
        if not found:
            return Valid(skipped)
        if not aside and len(schema) > 20_000:
            return Heavy()
        if not is_sound(compiled):
            return Unchecked("broken")
        return Invalid(tuple(describe(error) for error in found), skipped)

    def _compile(self, schema: bytes, digest: bytes) -> Compiled | Unusable:
        compiled: Compiled | Unusable
        try:
            compiled = compile_schema(schema, self._depth, self._nodes)
        except Unusable as unusable:
            compiled = unusable
        with self._lock:
            while len(self._compiled) >= self._most:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[digest] = compiled
        return compiled


def _fits(surely: Accepts, arguments: bytes) -> bool:
    """False also for what this parser, the quickest, does not take: half surrogates, NaN, 1e400."""
    try:
        return surely(_quick_decode(arguments))
    except (ValueError, RecursionError):
        return False


def describe(error: Any) -> str:
    """One line for one error of jsonschema."""
    place = _place(error.absolute_path)
    rule = error.validator_value
    match error.validator:
        case "required":
            missing = [name for name in rule if name not in error.instance]
            return f"{place}: required member missing: {_names(missing)}"
        case "additionalProperties" if isinstance(error, UnknownMembers):
            known = list(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
            return f"{place}: unknown member {_names(error.extra)}; allowed: {_names(known) or 'none'}"
        case "type":
            allowed = " or ".join(rule) if isinstance(rule, list) else str(rule)
            return f"{place}: {_shown(error.instance)} given, {allowed} allowed"
        case "enum":
            return f"{place}: {_shown(error.instance)} given, allowed: {_names(rule, quoted=True)}"
        case "const":
            return f"{place}: {_shown(error.instance)} given, allowed: {_shown(rule)}"
        case "anyOf" | "oneOf":
            return f"{place}: {_shown(error.instance)} given, {_alternatives(error)}"
        case "pattern" | "format":
            return f"{place}: {_shown(error.instance)} given, allowed: text that matches {_shown(rule)}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
            return f"{place}: {_shown(error.instance)} given, allowed: {error.validator} {_shown(rule)}"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
            return f"{place}: {len(error.instance)} long, allowed: {error.validator} {_shown(rule)}"
        case _:
            return f"{place}: {_shown(error.instance)} given, not allowed by {error.validator}"


def _alternatives(error: Any) -> str:
    kinds = [kind for schema in error.validator_value if isinstance(kind := schema.get("type"), str)]
    if len(kinds) == len(error.validator_value):
        return f"allowed: one of {len(kinds)} forms ({', '.join(dict.fromkeys(kinds))})"
    return f"allowed: one of {len(error.validator_value)} forms in the schema"


def _place(path: Sequence[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{_short(step)}" for step in path)
    return "arguments" + "".join(steps)


def _names(names: Sequence[object], *, quoted: bool = False) -> str:
    shown = [_shown(name) if quoted else _short(str(name)) for name in names[:_MEMBERS]]
    return ", ".join(shown) + (f" and {len(names) - _MEMBERS} more" if len(names) > _MEMBERS else "")


def _shown(value: object) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
