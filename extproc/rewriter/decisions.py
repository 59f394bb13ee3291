"""What the rewriter asks of the shell, beside the decisions of the exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from extproc.catalog.model import Tool
from extproc.catalog.parse import Page
from extproc.exchange.messages import Headers, Reply, RequestDecision, ResponseDecision
from extproc.rewriter.plans import AskAgain, Describe, List, Search
from extproc.rewriter.rpc import Rpc


@dataclass(frozen=True, slots=True)
class NeedCatalogue:
    """This request cannot be decided without the caller's catalogue: fetch it, then decide again."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A page was read: commit it and get its index, then :func:`~extproc.rewriter.response.finish`."""

    page: Page
    plan: List | Search | Describe | AskAgain
    result: bytes


@dataclass(frozen=True, slots=True)
class Doubted:
    """Answer, and have the list read again soon: the caller asked for something that may well be there.

    A gateway that joins servers leaves one out of a list while it is down, and nothing in the list tells.
    """

    reply: Reply


@dataclass(frozen=True, slots=True)
class Heavy:
    """The arguments take too long to check between two other requests: decide again in a thread."""


@dataclass(frozen=True, slots=True)
class ReadCall:
    """One entry of ``call_read_tools``.  ``headers`` are the ``Mcp-Param-*`` it needs in modern revisions."""

    tool: Tool
    arguments: bytes = field(repr=False)
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class CallMany:
    """Make these read-only calls at once, then :func:`extproc.rewriter.batch.merge` their results."""

    rpc: Rpc
    calls: tuple[ReadCall, ...]


OnRequest: TypeAlias = RequestDecision | NeedCatalogue | CallMany | Heavy | Doubted


@dataclass(frozen=True, slots=True)
class Outdated:
    """The answer becomes ``body``, and shows that the caller's catalogue is out of date."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Changed:
    """The message goes on as it came, and says that the caller's tools changed."""


OnResponse: TypeAlias = ResponseDecision | Learned | Outdated | Changed
