"""What a forwarded request wants from its answer: one frozen value for each kind of rewrite."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Tool, ToolClass
from extproc.mcp import slices
from extproc.rewriter import rpc
from extproc.rewriter.answers import no_result
from extproc.rewriter.arguments import CallArguments, DescribeArguments, SearchArguments
from extproc.rewriter.meta_tools import Meta

_LARGEST_ERROR = 256 * 1024
"""Answers to calls above this are results, in bytes."""
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


class _Whole(msgspec.Struct, frozen=True):
    """Read whole, and never let through unread."""

    @property
    def live(self) -> bool:
        return False

    @property
    def gives_up(self) -> int | None:
        return None

    @property
    def repeatable(self) -> bool:
        return False

    def instead(self, status: int) -> bytes | None:
        return None


class _Live(_Whole, frozen=True):
    """Flows while it is read."""

    @property
    def live(self) -> bool:
        return True


class Guide(_Whole, frozen=True):
    """Put guidance in front of ``instructions``."""

    rpc: rpc.Rpc
    caller: CallerContext

    def reads(self, status: int, media_type: str) -> bool:
        return status == 200 and media_type in _READABLE

    def wants(self, data: bytes) -> bool:
        return is_answer(data)

    def failure(self) -> bytes:
        return rpc.error_body(self.rpc.id, rpc.INTERNAL_ERROR, "The server's answer could not be read")


class _Listing(_Whole, frozen=True):
    rpc: rpc.Rpc
    caller: CallerContext

    @property
    def repeatable(self) -> bool:
        return True

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


class List(_Listing, frozen=True):
    """Learn the list, answer the six."""

    def failure(self) -> bytes:
        return rpc.error_body(self.rpc.id, rpc.INTERNAL_ERROR, "The server's tool list could not be read")


class Search(_Listing, frozen=True):
    """Learn the list, then search in it."""

    arguments: SearchArguments

    def failure(self) -> bytes:
        return _list_failure(self.rpc)


class Describe(_Listing, frozen=True):
    """Learn the list, then describe from it."""

    arguments: DescribeArguments

    def failure(self) -> bytes:
        return _list_failure(self.rpc)


class AskAgain(_Listing, frozen=True):
    """Learn the list, check the call against it, then ask for it once more."""

    meta: Meta
    arguments: CallArguments

    def failure(self) -> bytes:
        return _list_failure(self.rpc)


def says_changed(data: bytes) -> bool:
    """Whether event data is ``notifications/tools/list_changed``."""
    if b"tools/list_changed" not in data:
        return False
    found = slices.members_or_none(data)
    return found is not None and slices.string(found.get("method")) == "notifications/tools/list_changed"


class Watch(_Live, frozen=True):
    """Look at how a rewritten call ends; everything before that flows."""

    rpc: rpc.Rpc
    caller: CallerContext
    tool: Tool

    @property
    def gives_up(self) -> int | None:
        return _LARGEST_ERROR

    def instead(self, status: int) -> bytes | None:
        """A call that changes things and got no result must not look like one that can simply be repeated."""
        if status not in (502, 503, 504) or self.tool.tool_class is ToolClass.READ:
            return None
        return rpc.tool_error(self.rpc, no_result(self.tool, status))

    def reads(self, status: int, media_type: str) -> bool:
        if status == 200:
            return media_type in _READABLE
        return status in (400, 404) and media_type == "application/json"

    def wants(self, data: bytes) -> bool:
        """Only what may be an error: a long result is not even looked into."""
        if says_changed(data):
            return True
        return self.may_err(data) and is_answer(data)

    def may_err(self, data: bytes) -> bool:
        """False for most results, without a look inside."""
        return len(data) <= _LARGEST_ERROR and (b'"error"' in data or b'"isError"' in data)

    def failure(self) -> bytes:
        return rpc.error_body(self.rpc.id, rpc.INTERNAL_ERROR, "The server's answer could not be read")


class Listen(_Live, frozen=True):
    """A stream on which the server may say that its tools changed; nothing on it is ever changed."""

    caller: CallerContext

    def reads(self, status: int, media_type: str) -> bool:
        return status == 200 and media_type == "text/event-stream"

    def wants(self, data: bytes) -> bool:
        return says_changed(data)

    def failure(self) -> bytes:
        return b""


class Replay(_Live, frozen=True):
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


Plan: TypeAlias = Guide | List | Search | Describe | AskAgain | Watch | Listen | Replay


def _list_failure(call: rpc.Rpc) -> bytes:
    return rpc.tool_error(call, "The tool list could not be read from the server. Try again later.")
