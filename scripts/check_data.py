"""Check the project's own data set: the fixture catalogue and the needs that are searched in it.

    python scripts/check_data.py [--data tests/data] [--quiet]

Prints counts (tools by server, needs by kind, language and split) and one line for each problem.
Exit code 0 when there is none, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError

Json = dict[str, Any]

KINDS = ("plain", "synonym", "typo", "short", "question", "two-tools", "exact-name")
FOREIGN = re.compile(r"[äöüßąčęėįšųūžñ\u3040-\u30ff\u4e00-\u9fff\u0430-\u044f]")
LANGUAGES = ("en", "lt", "de", "fr", "es", "pl", "ru", "ja", "zh")
MINIMUM = {"tools": 500, "servers": 30, "needs": 420, "per kind": 40, "per language": 20}
MOST_RELEVANT = 6
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
OUTSIDE = re.compile(r"https?://([^/\s\"'>|)\]]+)")
ALLOWED_HOSTS = re.compile(r"(^|\.)example(\.(org|com|net))?$|^json-schema\.org$|^www\.w3\.org$")

SPLIT_SALT = "10423:"
"""Chosen among many numbers only for halves of nearly equal size in every kind and language."""


def split_of(query: str) -> str:
    """``dev`` or ``test``, by the query's text alone, so that adding needs moves none."""
    return "dev" if sha256((SPLIT_SALT + query).encode()).digest()[0] & 1 else "test"


def read(path: Path) -> Iterator[tuple[int, Json]]:
    """Line number and object of each line; raises ``ValueError`` naming the line that is no JSON object."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path.name}:{number}: not JSON: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"{path.name}:{number}: not an object")
        yield number, value


def nodes(schema: Any, depth: int = 0) -> Iterator[tuple[Json, int]]:
    """Every schema inside a schema (itself first) with its depth; maps of named schemas are no schemas."""
    if isinstance(schema, dict):
        yield schema, depth
        for key, value in schema.items():
            named = key in ("properties", "patternProperties", "$defs", "definitions") and isinstance(
                value, dict
            )
            yield from nodes(list(value.values()) if named else value, depth + 1)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value, depth + 1)


def keyword(name: str, *values: Any) -> Callable[[Json], bool]:
    """Does the input schema use this keyword (with one of these values, when any are given)?"""

    def test(tool: Json) -> bool:
        return any(name in n and (not values or n[name] in values) for n, _ in nodes(tool["inputSchema"]))

    return test


def properties(tool: Json) -> Json:
    found = tool["inputSchema"].get("properties", {})
    return found if isinstance(found, dict) else {}


def hint(tool: Json, name: str) -> Any:
    return tool.get("annotations", {}).get(name)


def recursive(tool: Json) -> bool:
    schema = tool["inputSchema"]
    for key in ("$defs", "definitions"):
        for name, body in schema.get(key, {}).items():
            if any(n.get("$ref") == f"#/{key}/{name}" for n, _ in nodes(body)):
                return True
    return False


def header_depths(tool: Json) -> set[int]:
    """Levels of ``properties`` at which an ``x-mcp-header`` sits (1 = top level)."""

    def walk(schema: Json, level: int) -> Iterator[int]:
        for sub in schema.get("properties", {}).values():
            if "x-mcp-header" in sub:
                yield level
            yield from walk(sub, level + 1)

    return set(walk(tool["inputSchema"], 1))


def non_ascii(text: str) -> bool:
    return not text.isascii()


SHAPES: dict[str, Callable[[Json], bool]] = {
    "description missing": lambda t: "description" not in t,
    "description empty": lambda t: t.get("description") == "",
    "description of one word": lambda t: len(t.get("description", "").split()) == 1,
    "description over 1,000 characters": lambda t: len(t.get("description", "")) > 1000,
    "description not English": lambda t: bool(FOREIGN.search(t.get("description", ""))),
    "name in snake_case": lambda t: bool(re.search(r"__[a-z]+(_[a-z]+)+$", t["name"])),
    "name in camelCase": lambda t: bool(re.search(r"__[a-z]+([A-Z][a-z]+)+$", t["name"])),
    "name in kebab-case": lambda t: bool(re.search(r"__[a-z]+(-[a-z]+)+$", t["name"])),
    "name with dots": lambda t: "." in t["name"],
    "name not ASCII": lambda t: non_ascii(t["name"]),
    "title": lambda t: "title" in t,
    "annotations.title": lambda t: "title" in t.get("annotations", {}),
    "annotations absent": lambda t: "annotations" not in t,
    "annotations empty": lambda t: t.get("annotations") == {},
    "annotations title only": lambda t: list(t.get("annotations", {})) == ["title"],
    "annotations partial": lambda t: 0 < sum(h in t.get("annotations", {}) for h in HINTS) < 4,
    "annotations full": lambda t: all(h in t.get("annotations", {}) for h in HINTS),
    "read only and destructive": lambda t: hint(t, "readOnlyHint") is hint(t, "destructiveHint") is True,
    "hint of type string": lambda t: any(isinstance(hint(t, h), str) for h in HINTS),
    "hint of type number": lambda t: any(type(hint(t, h)) is int for h in HINTS),
    "hint null": lambda t: any(h in t.get("annotations", {}) and hint(t, h) is None for h in HINTS),
    "class read": lambda t: hint(t, "readOnlyHint") is True,
    "class write": lambda t: hint(t, "readOnlyHint") is not True and hint(t, "destructiveHint") is False,
    "class destructive": lambda t: hint(t, "readOnlyHint") is not True and hint(t, "destructiveHint") is True,
    "outputSchema": lambda t: "outputSchema" in t,
    "_meta": lambda t: "_meta" in t and "ui" not in t["_meta"],
    "_meta.ui.resourceUri": lambda t: "resourceUri" in t.get("_meta", {}).get("ui", {}),
    "icons": lambda t: bool(t.get("icons")),
    "taskSupport optional": lambda t: t.get("execution", {}).get("taskSupport") == "optional",
    "taskSupport required": lambda t: t.get("execution", {}).get("taskSupport") == "required",
    "taskSupport forbidden": lambda t: t.get("execution", {}).get("taskSupport") == "forbidden",
    "x-mcp-header at the top": lambda t: 1 in header_depths(t),
    "x-mcp-header nested": lambda t: any(level > 1 for level in header_depths(t)),
    "schema without properties": lambda t: "properties" not in t["inputSchema"],
    "schema with empty properties": lambda t: t["inputSchema"].get("properties") == {},
    "schema of 30 parameters": lambda t: len(properties(t)) >= 30,
    "schema deep": lambda t: max(depth for _, depth in nodes(t["inputSchema"])) >= 10,
    "nested object": lambda t: any("properties" in p for p in properties(t).values()),
    "array of objects": lambda t: any("properties" in p.get("items", {}) for p in properties(t).values()),
    "oneOf at the root": lambda t: "oneOf" in t["inputSchema"],
    "anyOf at the root": lambda t: "anyOf" in t["inputSchema"],
    "allOf": keyword("allOf"),
    "oneOf": lambda t: any("oneOf" in n for p in properties(t).values() for n, _ in nodes(p)),
    "not": keyword("not"),
    "if and then": keyword("then"),
    "enum": keyword("enum"),
    "const": keyword("const"),
    "default": keyword("default"),
    "format": keyword("format"),
    "pattern": keyword("pattern"),
    "patternProperties": keyword("patternProperties"),
    "propertyNames": keyword("propertyNames"),
    "prefixItems": keyword("prefixItems"),
    "dependentRequired": keyword("dependentRequired"),
    "contentEncoding": keyword("contentEncoding"),
    "additionalProperties false": keyword("additionalProperties", False),
    "additionalProperties true": keyword("additionalProperties", True),
    "additionalProperties schema": lambda t: any(
        isinstance(n.get("additionalProperties"), dict) for n, _ in nodes(t["inputSchema"])
    ),
    "nullable type list": lambda t: any(
        isinstance(n.get("type"), list) and "null" in n["type"] for n, _ in nodes(t["inputSchema"])
    ),
    "property without a type": lambda t: any(n == {} for n, d in nodes(t["inputSchema"]) if d > 1),
    "$defs": lambda t: "$defs" in t["inputSchema"],
    "definitions": lambda t: "definitions" in t["inputSchema"],
    "$ref": keyword("$ref"),
    "recursive $ref": recursive,
    "$schema draft-07": lambda t: "draft-07" in t["inputSchema"].get("$schema", ""),
    "$schema 2020-12": lambda t: "2020-12" in t["inputSchema"].get("$schema", ""),
    "$schema absent": lambda t: "$schema" not in t["inputSchema"],
    "generated titles": lambda t: any("title" in p for p in properties(t).values()),
    "property named title": lambda t: "title" in properties(t),
    "property named description": lambda t: "description" in properties(t),
    "property named name": lambda t: "name" in properties(t),
    "property named arguments": lambda t: "arguments" in properties(t),
    "property not ASCII": lambda t: any(non_ascii(p) for p in properties(t)),
}
"""What must occur in the catalogue at least once, because it occurs in the wild."""


def check_tools(tools: Sequence[Json]) -> Iterator[str]:
    names = Counter(t.get("name") for t in tools)
    yield from (f"name used {n} times: {name}" for name, n in names.items() if n > 1)
    servers = {str(name).split("__")[0] for name in names}
    if len(tools) < MINIMUM["tools"] or len(servers) < MINIMUM["servers"]:
        yield f"only {len(tools)} tools of {len(servers)} servers"
    for tool in tools:
        name, schema = tool.get("name", ""), tool.get("inputSchema")
        if not re.fullmatch(r"[a-z][a-z0-9-]*__[^\s_/]([^\s/]*[^\s_/])?", name) or len(name) > 128:
            yield f"{name}: not of the form server__tool"
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"{name}: inputSchema is not an object schema"
            continue
        for part in ("inputSchema", "outputSchema"):
            body = tool.get(part, {})
            dialect = Draft7Validator if "draft-07" in body.get("$schema", "") else Draft202012Validator
            try:
                dialect.check_schema(body)
            except SchemaError as error:
                yield f"{name}: {part}: {error.message}"
            refs = {n["$ref"] for n, _ in nodes(body) if isinstance(n.get("$ref"), str)}
            for ref in refs:
                key, _, entry = ref.removeprefix("#/").partition("/")
                if entry not in body.get(key, {}):
                    yield f"{name}: {part}: {ref} points nowhere"
        for required in schema.get("required", ()):
            if required not in schema.get("properties", {}):
                yield f"{name}: required property {required} is not described"
        for host in OUTSIDE.findall(json.dumps(tool, ensure_ascii=False)):
            if not ALLOWED_HOSTS.search(host):
                yield f"{name}: address of a real host: {host}"
    yield from (f"shape not found: {shape}" for shape, test in SHAPES.items() if not any(map(test, tools)))


def check_needs(needs: Sequence[Json], known: set[str]) -> Iterator[str]:
    if len(needs) < MINIMUM["needs"]:
        yield f"only {len(needs)} needs"
    seen = Counter(str(n.get("query")).casefold() for n in needs)
    yield from (f"need written {n} times: {query}" for query, n in seen.items() if n > 1)
    halves: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for need in needs:
        if set(need) != {"query", "relevant", "lang", "kind", "split"}:
            yield f"wrong members {sorted(need)}"
            continue
        query, relevant, kind, lang = need["query"], need["relevant"], need["kind"], need["lang"]
        halves[kind, lang][need["split"]] += 1
        if not query.strip() or kind not in KINDS or lang not in LANGUAGES:
            yield f"{query!r}: empty, or unknown kind {kind} or language {lang}"
        yield from (f"{query!r}: no tool named {name}" for name in relevant if name not in known)
        least = 2 if kind == "two-tools" else 1
        if not least <= len(set(relevant)) == len(relevant) <= MOST_RELEVANT:
            yield f"{query!r}: {len(relevant)} relevant tools, or one of them twice"
        own = [name.split("__", 1)[-1] for name in relevant]
        if kind == "exact-name" and not any(name in query for name in own):
            yield f"{query!r}: holds no tool's name"
        if kind == "short" and len(query.split()) > 2:
            yield f"{query!r}: more than two words"
        if need["split"] != split_of(query):
            yield f"{query!r}: split must be {split_of(query)}"
    kinds, languages = Counter(n.get("kind") for n in needs), Counter(n.get("lang") for n in needs)
    yield from (f"only {kinds[k]} needs of kind {k}" for k in KINDS if kinds[k] < MINIMUM["per kind"])
    few = (lang for lang in LANGUAGES if languages[lang] < MINIMUM["per language"])
    yield from (f"only {languages[lang]} needs in {lang}" for lang in few)
    for (kind, lang), half in halves.items():
        if not 0.3 <= half["dev"] / half.total() <= 0.7:
            yield f"{kind} {lang}: {half['dev']} dev and {half['test']} test needs, too far from halves"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "tests" / "data")
    parser.add_argument("--quiet", action="store_true", help="print problems only")
    options = parser.parse_args(arguments)
    try:
        tools = [tool for _, tool in read(options.data / "catalogue.jsonl")]
        needs = [need for _, need in read(options.data / "needs.jsonl")]
    except (OSError, ValueError) as error:
        print(f"cannot read the data: {error}", file=sys.stderr)
        return 1
    problems = [*check_tools(tools), *check_needs(needs, {str(t.get("name")) for t in tools})]
    if not options.quiet:
        print(f"tools {len(tools)}:", dict(Counter(str(t.get("name")).split("__")[0] for t in tools)))
        for member in ("kind", "lang", "split"):
            print(f"needs {len(needs)} by {member}:", dict(Counter(n.get(member) for n in needs)))
        print("shapes:", {shape: sum(map(test, tools)) for shape, test in SHAPES.items()})
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
