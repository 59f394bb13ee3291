"""What a forwarded request wants from its answer: one frozen value for each kind of rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from extproc.catalog.caller import CallerContext
from extproc.mcp import slices
from extproc.rewriter import rpc
from extproc.rewriter.arguments import DescribeArguments, SearchArguments

_READABLE = ("application/json", "text/event-stream", "")


def is_answer(data: bytes) -> bool:
    """Whether event data is a JSON-RPC response; a server's own request has a ``method``, whatever its id."""
    if data.lstrip()[:1] == b"[":
        return True
    try:
        found = slices.members(data)
    except ValueError:
        return False
    return "method" not in found and ("result" in found or "error" in found)


@dataclass(frozen=True)
class Guide:
    """Put guidance in front of ``instructions``."""

    rpc: rpc.Rpc
    caller: CallerContext

    def reads(self, status: int, media_type: str) -> bool:
        return status == 200 and media_type in _READABLE

    def wants(self, data: bytes) -> bool:
        return is_answer(data)

    def failure(self) -> bytes:
        return rpc.error_body(self.rpc.id, rpc.INTERNAL_ERROR, "The server's answer could not be read")


@dataclass(frozen=True)
class _Listing:
    rpc: rpc.Rpc
    caller: CallerContext

    def reads(self, status: int, media_type: str) -> bool:
        """Errors are read too when their id has to be put back; 401 and 403 never are."""
        if status == 200:
            return media_type in _READABLE
        return (
            status not in (401, 403)
            and media_type == "application/json"
            and self.rpc.upstream_id != self.rpc.id
        )

    def wants(self, data: bytes) -> bool:
        return is_answer(data)


@dataclass(frozen=True)
class List(_Listing):
    """Learn the list, answer the six."""

    def failure(self) -> bytes:
        return rpc.error_body(self.rpc.id, rpc.INTERNAL_ERROR, "The server's tool list could not be read")


@dataclass(frozen=True)
class Search(_Listing):
    """Learn the list, then search in it."""

    arguments: SearchArguments

    def failure(self) -> bytes:
        return _list_failure(self.rpc)


@dataclass(frozen=True)
class Describe(_Listing):
    """Learn the list, then describe from it."""

    arguments: DescribeArguments

    def failure(self) -> bytes:
        return _list_failure(self.rpc)


@dataclass(frozen=True)
class AskAgain(_Listing):
    """Learn the list, then ask for the same call once more."""

    def failure(self) -> bytes:
        return _list_failure(self.rpc)


@dataclass(frozen=True)
class Replay:
    """A resumed stream: answers of earlier requests may be replayed on it."""

    revision: str
    caller: CallerContext

    def reads(self, status: int, media_type: str) -> bool:
        return status == 200 and media_type == "text/event-stream"

    def wants(self, data: bytes) -> bool:
        """Only lists: an answer of another kind has nothing to hide."""
        if b'"tools"' not in data or not is_answer(data):
            return False
        try:
            result = slices.members(data).get("result", b"")
            return slices.is_object(result) and slices.members(result).get("tools", b"")[:1] == b"["
        except ValueError:
            return True

    def failure(self) -> bytes:
        return rpc.error_body(b"null", rpc.INTERNAL_ERROR, "A replayed answer could not be read")


Plan: TypeAlias = Guide | List | Search | Describe | AskAgain | Replay


def _list_failure(call: rpc.Rpc) -> bytes:
    return rpc.tool_error(call, "The tool list could not be read from the server. Try again later.")
