"""YAML and JSON with the line of every value, read without trusting the file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

MAX_BYTES = 64 * 1024 * 1024
MAX_NODES = 2_000_000
"""Values after aliases are followed."""
MAX_DEPTH = 100
LINES_UP_TO = 2 * 1024 * 1024
"""Bytes of JSON up to which lines are found; a larger one is read ten times as fast, as one line."""

Steps: TypeAlias = tuple["str | int", ...]


class Unreadable(Exception):
    """The input cannot be checked; the text says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its line (from 1).  Mappings and sequences hold nodes."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class At:
    """A place in a document: the value there, or None where there is none.

    Lines of absent values are those of the nearest value that exists above them.
    """

    source: str
    node: Node | None
    line: int
    path: Steps = ()

    def __getitem__(self, key: str | int) -> At:
        """The member ``key``; snake_case also finds camelCase, as in protobuf's JSON."""
        inner = self.node.value if self.node else None
        if isinstance(inner, Mapping) and isinstance(key, str):
            for name in (key, camel(key)):
                if name in inner:
                    return At(self.source, inner[name], inner[name].line, (*self.path, name))
        elif isinstance(inner, list) and isinstance(key, int) and key < len(inner):
            return At(self.source, inner[key], inner[key].line, (*self.path, key))
        return At(self.source, None, self.line, (*self.path, key))

    def at(self, *keys: str | int) -> At:
        here = self
        for key in keys:
            here = here[key]
        return here

    @property
    def exists(self) -> bool:
        return self.node is not None and self.node.value is not None

    @property
    def present(self) -> bool:
        """Whether the key is there, though its value may be null."""
        return self.node is not None

    @property
    def scalar(self) -> Any:
        """The scalar here; None where there is none."""
        value = self.node.value if self.node else None
        return None if isinstance(value, Mapping | list) else value

    @property
    def text(self) -> str:
        value = self.scalar
        return value if isinstance(value, str) else "" if value is None else str(value)

    @property
    def truth(self) -> bool:
        value = self.scalar
        return value is True or (isinstance(value, str) and value.lower() == "true")

    def items(self) -> Iterator[At]:
        """Members of a sequence."""
        if self.node and isinstance(self.node.value, list):
            for index in range(len(self.node.value)):
                yield self[index]

    def members(self) -> Iterator[tuple[str, At]]:
        """Members of a mapping under the names the file gives them."""
        if self.node and isinstance(self.node.value, Mapping):
            for name, node in self.node.value.items():
                yield name, At(self.source, node, node.line, (*self.path, name))

    def walk(self) -> Iterator[At]:
        """This place and everything below it."""
        stack = [self]
        while stack:
            here = stack.pop()
            yield here
            below = [*here.items(), *(child for _, child in here.members())]
            stack.extend(reversed(below))


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read.  ``duplicates`` are keys that stand twice in one mapping."""

    name: str
    documents: tuple[At, ...]
    duplicates: tuple[At, ...]


def read_file(path: Path) -> Source:
    """Raises Unreadable."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise Unreadable(f"{path} is a folder; name the files in it")
        if size > MAX_BYTES:
            raise Unreadable(f"{path} has {size:,} bytes; no more than {MAX_BYTES:,} are read")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from None
    return parse(data, str(path))


def parse(data: bytes, source: str) -> Source:
    """The documents in ``data``, JSON or YAML, empty ones left out.  Raises Unreadable."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"{source} has more than {MAX_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{source} is not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise Unreadable(f"{source} is a binary file")
    if not text.strip():
        raise Unreadable(f"{source} is empty")
    if text.lstrip()[0] in "{[":
        # JSON may be indented by tabs, which YAML forbids; inside JSON's strings a tab cannot stand.
        text = text.replace("\t", " ")
        if len(data) > LINES_UP_TO:
            return _one_line(text, source)
    loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents: list[At] = []
    duplicates: list[At] = []
    try:
        reader = loader(text)
        try:
            while reader.check_node():
                builder = _Builder(source, reader)
                node = builder.build(reader.get_node())
                duplicates += builder.duplicates
                if node.value is not None:
                    documents.append(At(source, node, node.line))
        finally:
            reader.dispose()
    except yaml.YAMLError as error:
        raise Unreadable(f"{source}{_where(error)}: not YAML or JSON: {_problem(error)}") from None
    except RecursionError:
        raise Unreadable(f"{source}: nested too deep") from None
    if not documents:
        raise Unreadable(f"{source} holds no document")
    return Source(source, tuple(documents), tuple(duplicates))


def _one_line(text: str, source: str) -> Source:
    count = 0

    def build(value: Any, depth: int = 0) -> Node:
        nonlocal count
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise Unreadable(
                f"{source}: more than {MAX_NODES:,} values, or nested deeper than {MAX_DEPTH} levels"
            )
        if isinstance(value, dict):
            return Node({key: build(item, depth + 1) for key, item in value.items()}, 1)
        if isinstance(value, list):
            return Node([build(item, depth + 1) for item in value], 1)
        return Node(value if not isinstance(value, float) or math.isfinite(value) else str(value), 1)

    try:
        root = build(json.loads(text))
    except ValueError as error:
        raise Unreadable(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise Unreadable(f"{source}: nested too deep") from None
    return Source(source, (At(source, root, 1),), ())


class _Builder:
    def __init__(self, source: str, loader: Any) -> None:
        self._source = source
        self._loader = loader
        self._count = 0
        self.duplicates: list[At] = []

    def build(self, node: yaml.Node, depth: int = 0) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise Unreadable(f"{self._source}: more than {MAX_NODES:,} values once aliases are followed")
        if depth > MAX_DEPTH:
            raise Unreadable(f"{self._source}: nested deeper than {MAX_DEPTH} levels, or an alias of itself")
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return Node(self._mapping(node, depth), line)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.build(item, depth + 1) for item in node.value], line)
        return Node(self._scalar(node), line)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Node]:
        merged: dict[str, Node] = {}
        own: dict[str, Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise Unreadable(f"{self._source}:{key.start_mark.line + 1}: a key that is not text")
            built = self.build(value, depth + 1)
            if key.tag == "tag:yaml.org,2002:merge":
                sources: Sequence[Node] = built.value if isinstance(built.value, list) else [built]
                for each in sources:
                    if isinstance(each.value, Mapping):
                        merged = {**each.value, **merged}
                continue
            # The key's line is what an editor should jump to.
            name, line = str(key.value), key.start_mark.line + 1
            if name in own:
                self.duplicates.append(At(self._source, None, line, (name,)))
            own[name] = Node(built.value, line)
        return {**merged, **own}

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            value = self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError):
            return str(node.value)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        return str(node.value)


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark else ""


def _problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or "cannot be parsed").splitlines()[0]
