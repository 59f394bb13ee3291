"""What the rewriter asks of the shell, beside the decisions of the exchange."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from extproc.catalog.model import Tool
from extproc.catalog.parse import Page
from extproc.exchange.messages import Headers, Reply, RequestDecision, ResponseDecision
from extproc.rewriter.plans import AskAgain, Describe, List, Search
from extproc.rewriter.rpc import Rpc


class NeedCatalogue(msgspec.Struct, frozen=True):
    """This request cannot be decided without the caller's catalogue: fetch it, then decide again."""


class Learned(msgspec.Struct, frozen=True):
    """A page was read: commit it and get its index, then :func:`~extproc.rewriter.response.finish`."""

    page: Page
    plan: List | Search | Describe | AskAgain
    result: bytes


class Doubted(msgspec.Struct, frozen=True):
    """Answer, and have the list read again soon: the caller asked for something that may well be there.

    A gateway that joins servers leaves one out of a list while it is down, and nothing in the list tells.
    """

    reply: Reply


class Heavy(msgspec.Struct, frozen=True):
    """The arguments take too long to check between two other requests: decide again in a thread."""


class ReadCall(msgspec.Struct, frozen=True):
    """One entry of ``call_read_tools``.  ``headers`` are the ``Mcp-Param-*`` it needs in modern revisions."""

    tool: Tool
    arguments: bytes
    headers: Headers = ()

    def __repr__(self) -> str:
        return f"ReadCall({self.tool.name!r})"


class CallMany(msgspec.Struct, frozen=True):
    """Make these read-only calls at once, then :func:`extproc.rewriter.batch.merge` their results."""

    rpc: Rpc
    calls: tuple[ReadCall, ...]


OnRequest: TypeAlias = RequestDecision | NeedCatalogue | CallMany | Heavy | Doubted


class Outdated(msgspec.Struct, frozen=True):
    """The answer becomes ``body``, and shows that the caller's catalogue is out of date."""

    body: bytes


class Changed(msgspec.Struct, frozen=True):
    """The message goes on as it came, and says that the caller's tools changed."""


OnResponse: TypeAlias = ResponseDecision | Learned | Outdated | Changed
