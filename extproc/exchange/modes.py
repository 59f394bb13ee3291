"""What each body mode allows, as data.  The comments name the gateway's behaviour behind a rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from extproc.exchange.messages import BodyMode, Dialect, Headers

WITH_MESSAGES = frozenset(("POST", "PUT", "PATCH"))
"""Methods whose bodies are read: MCP has POST alone, lenient servers may take the others for it."""
CHUNK = 62_000
"""Largest chunk sent in full duplex, in bytes: known servers keep below a 64 KiB gRPC frame."""


@dataclass(frozen=True, slots=True)
class RequestRule:
    """``refusal`` is what to change where request bodies cannot be rewritten; empty where they can."""

    holds_headers: bool = False
    refusal: str = ""


def mend(name: str, value: str) -> str:
    """The line to write, in either gateway's words; ``name`` and ``value`` are Envoy's."""
    head, *rest = name.split("_")
    camel = head + "".join(part.capitalize() for part in rest)
    return (
        f"In Envoy's processing_mode set {name}: {value}, in agentgateway's processingOptions "
        f"{camel}: {value.lower()} ({value.capitalize()} on Kubernetes)"
    )


def _refused(mode: str, why: str) -> RequestRule:
    return RequestRule(refusal=f"request_body_mode is {mode}: {why}. {mend('request_body_mode', 'BUFFERED')}")


REQUEST_RULES: dict[BodyMode, RequestRule] = {
    # One message after the headers were answered; the only mode in which a body answer may change headers.
    BodyMode.BUFFERED: RequestRule(),
    # The headers answer may wait for the whole body, so names known only from the body still reach headers.
    BodyMode.FULL_DUPLEX: RequestRule(holds_headers=True),
    BodyMode.NONE: _refused("NONE", "the processor has to read requests"),
    # Header mutations in STREAMED body answers are dropped by the gateway.
    BodyMode.STREAMED: _refused("STREAMED", "headers have to change with the body"),
    # A body over the limit arrives as its first part only.
    BodyMode.BUFFERED_PARTIAL: _refused("BUFFERED_PARTIAL", "half a message cannot be rewritten"),
}


EarlyClose: TypeAlias = Literal["auto", "always", "never"]
ResponseMode: TypeAlias = Literal["auto", "buffered", "streamed"]


@lru_cache(maxsize=256)
def response_rules(
    request: BodyMode,
    response: BodyMode,
    dialect: Dialect,
    early_close: EarlyClose,
    response_mode: ResponseMode,
) -> tuple[bool, BodyMode]:
    """Whether the gRPC stream may end before the response phase, and the body mode a response is read in.

    The first three are the gateway's, the others the settings of those names.
    """
    closes = _may_close_early(request, response, dialect, early_close)
    return closes, _reading(response, dialect, response_mode)


def _may_close_early(
    request: BodyMode, response: BodyMode, dialect: Dialect, early_close: EarlyClose
) -> bool:
    # Envoy carries on alone; agentgateway answers 500 when a response phase was due. In full duplex data
    # would be lost.
    if BodyMode.FULL_DUPLEX in (request, response):
        return False
    if early_close == "auto":
        return dialect is Dialect.ENVOY
    return early_close == "always"


def _reading(response: BodyMode, dialect: Dialect, response_mode: ResponseMode) -> BodyMode:
    if response is not BodyMode.NONE:
        return response
    if response_mode != "auto":
        return BodyMode.STREAMED if response_mode == "streamed" else BodyMode.BUFFERED
    # STREAMED knows no buffer limit and lets events through one by one; agentgateway does not implement it.
    return BodyMode.STREAMED if dialect is Dialect.ENVOY else BodyMode.BUFFERED


def carries_message(headers: Headers) -> bool:
    """Whether a request with these headers may carry an MCP message in its body.

    The content type is no reason not to look: servers are known to read JSON under any name, gRPC's included.
    """
    for name, value in headers:
        if name == ":method" and value in WITH_MESSAGES:
            return True
    return False
