"""Tools and catalogues as immutable values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Generic, Literal, Protocol, TypeVar


class Digested(Protocol):
    @property
    def digest(self) -> bytes: ...


T = TypeVar("T", bound=Digested)


class ToolClass(StrEnum):
    """Which ``call_*`` tool may run a tool."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


@dataclass(frozen=True, slots=True)
class Annotations:
    """Tool annotations with the specification's defaults (2025-03-26 schema, ``ToolAnnotations``)."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True

    @property
    def tool_class(self) -> ToolClass:
        if self.read_only:
            return ToolClass.READ
        return ToolClass.DESTRUCTIVE if self.destructive else ToolClass.WRITE


@dataclass(frozen=True, slots=True)
class Tool:
    """One upstream tool.

    ``raw`` is the complete definition as listed, ``input_schema`` the raw slice of its ``inputSchema``
    (``{"type":"object"}`` where missing).  ``tool_class`` has the operator's overrides applied.
    ``digest`` identifies the raw definition and class (16 bytes).
    """

    name: str
    title: str
    description: str
    raw: bytes
    input_schema: bytes
    annotations: Annotations
    tool_class: ToolClass
    digest: bytes
    task_support: Literal["forbidden", "optional", "required"] = "forbidden"
    app: bool = False
    """True when the tool carries an MCP Apps user interface (``_meta.ui.resourceUri``)."""


@dataclass(frozen=True)
class Catalogue:
    """The tools one caller is shown, sorted by name; equal digests mean equal catalogues."""

    tools: tuple[Tool, ...]
    complete: bool = True
    """False while further pages are known to exist and have not been read."""
    digest: bytes = field(default=b"")

    @classmethod
    def of(cls, tools: Iterable[Tool], *, complete: bool = True) -> Catalogue:
        """Sort by name, drop later duplicates of a name, and compute the digest."""
        unique: dict[str, Tool] = {}
        for tool in tools:
            unique.setdefault(tool.name, tool)
        ordered = tuple(unique[name] for name in sorted(unique))
        digest = blake2b(
            b"".join(tool.digest for tool in ordered), digest_size=16, key=b"c" if complete else b"p"
        )
        return cls(ordered, complete, digest.digest())

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in self.tools}

    def get(self, name: str) -> Tool | None:
        return self.by_name.get(name)

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)


@dataclass(frozen=True, slots=True, eq=False)
class ByDigest(Generic[T]):
    """A tool or catalogue as a cache key: its digest says everything about it, and is quick to compare."""

    value: T

    def __hash__(self) -> int:
        return hash(self.value.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByDigest) and other.value.digest == self.value.digest
