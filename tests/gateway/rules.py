"""What real ext_proc clients do with each mistake, as one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from extproc.exchange.messages import Dialect

ENVOY, AGENTGATEWAY = Dialect.ENVOY, Dialect.AGENTGATEWAY


class Effect(Enum):
    """``REFUSED`` fails the exchange (500, 504 or a hang); ``DROPPED`` ignores the part without a word."""

    REFUSED = auto()
    DROPPED = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    text: str
    effects: Mapping[Dialect, Effect]


class Refusal(Exception):
    """A real gateway would fail this exchange.  ``rule`` names the row of the table."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"{rule.name}: {detail} ({rule.text})")
        self.rule = rule.name


_REFUSED = {ENVOY: Effect.REFUSED, AGENTGATEWAY: Effect.REFUSED}
_DROPPED = {ENVOY: Effect.DROPPED, AGENTGATEWAY: Effect.DROPPED}
_ENVOY_REFUSES = {ENVOY: Effect.REFUSED}
_ENVOY_DROPS = {ENVOY: Effect.DROPPED}
_AGENTGATEWAY_REFUSES = {AGENTGATEWAY: Effect.REFUSED}
_AGENTGATEWAY_DROPS = {AGENTGATEWAY: Effect.DROPPED}

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("answer-kind", "an answer must be of the kind of the message that waits", _REFUSED),
        Rule("answer-side", "an answer must be for the side that is being processed", _REFUSED),
        Rule("answer-twice", "a message has one answer", _REFUSED),
        Rule("answer-early", "a body in two messages is answered once, at its end", _REFUSED),
        Rule("answer-missing", "every message is answered (Envoy 504, agentgateway hangs)", _REFUSED),
        Rule("answer-unasked", "nothing is answered in a phase that was not sent", _REFUSED),
        Rule("after-end", "nothing follows an immediate response or a closed stream", _REFUSED),
        Rule("broken-stream", "a stream that ends with an error fails closed", _REFUSED),
        Rule("content-length", "a replaced buffered body needs the right or no content-length", _REFUSED),
        Rule("stale-length", "a streamed body needs the right or no content-length", _REFUSED),
        Rule("headers-outside-buffered", "a body answer may change headers in BUFFERED only", _DROPPED),
        Rule("headers-skipped", "with the header phase SKIP a body answer changes no header", _ENVOY_DROPS),
        Rule("mode-in-body", "mode_override counts in a headers answer only", _DROPPED),
        Rule("mode-not-allowed", "mode_override needs allow_mode_override", _DROPPED),
        Rule("mode-in-full-duplex", "mode_override cannot leave full duplex", _DROPPED),
        Rule("mode-streamed", "STREAMED is not implemented", _AGENTGATEWAY_DROPS),
        Rule("config-streamed", "STREAMED is not implemented", _AGENTGATEWAY_REFUSES),
        Rule("config-trailers", "full duplex needs trailers SEND", _ENVOY_REFUSES),
        Rule("body-before-headers", "streamed body answers come after the headers answer", _REFUSED),
        Rule("end-missing", "in full duplex the last chunk says end_of_stream", _REFUSED),
        Rule("body-after-end", "nothing follows the chunk that said end_of_stream", _REFUSED),
        Rule("chunk-limit", "a streamed body answer holds at most 62,000 bytes", _REFUSED),
        Rule("plain-body-in-full-duplex", "full duplex takes streamed_response only", _REFUSED),
        Rule("streamed-in-buffered", "streamed_response belongs to full duplex", _ENVOY_REFUSES),
        Rule("early-close", "closing while a response phase is due is a 500", _AGENTGATEWAY_REFUSES),
        Rule("early-close-full-duplex", "closing inside full duplex loses data", _REFUSED),
        Rule("empty-value", "a header set to an empty value is skipped", _AGENTGATEWAY_DROPS),
        Rule("forbidden-header", "host, :authority, :method, :scheme and x-envoy-* stay", _ENVOY_REFUSES),
        Rule("remove-pseudo", "pseudo headers cannot be removed", _REFUSED),
        Rule("header-syntax", "names are lower-case tokens; values have no control characters", _REFUSED),
        Rule("status-zero", "an immediate response needs a status", _REFUSED),
        Rule("immediate-utf8", "an immediate body must be UTF-8", _AGENTGATEWAY_REFUSES),
        Rule("immediate-late", "a response that has begun cannot be replaced", _REFUSED),
        Rule("unsupported-field", "fields of the API that the gateway does not read", _AGENTGATEWAY_DROPS),
        Rule("trailer-mutation", "trailers go on as they came", _AGENTGATEWAY_DROPS),
    )
}
