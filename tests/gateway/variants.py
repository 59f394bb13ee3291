"""The gateway configurations every scenario runs over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.exchange.messages import BodyMode, Headers
from extproc.settings import Server

from .chunking import odd, one_byte, whole
from .config import Config
from .rules import AGENTGATEWAY, ENVOY


@dataclass(frozen=True, slots=True)
class Variant:
    """``server`` is the processor's own setting; ``trailers`` come with every request and response."""

    name: str
    config: Config
    server: Server = field(default_factory=Server)
    trailers: Headers = ()

    @property
    def duplex(self) -> bool:
        return self.config.request_body is BodyMode.FULL_DUPLEX


TRAILERS = (("x-checksum", "abc"),)
_BUFFERED = Config()
_DUPLEX = Config(
    request_body=BodyMode.FULL_DUPLEX,
    response_body=BodyMode.FULL_DUPLEX,
    request_trailers=True,
    response_trailers=True,
)
_WITH_TRAILERS = _BUFFERED.named(request_trailers=True, response_trailers=True)

_ENVOY = [
    Variant("envoy-buffered", _BUFFERED),
    Variant("envoy-buffered-odd", _BUFFERED.named(response_chunks=odd)),
    Variant("envoy-buffered-bytes", _BUFFERED.named(response_chunks=one_byte, empty_end=False)),
    Variant("envoy-override-buffered", _BUFFERED, Server(response_mode="buffered")),
    Variant("envoy-response-buffered", _BUFFERED.named(response_body=BodyMode.BUFFERED)),
    Variant("envoy-response-streamed", _BUFFERED.named(response_body=BodyMode.STREAMED, response_chunks=odd)),
    Variant("envoy-never-closes", _BUFFERED, Server(early_close="never")),
    Variant("envoy-trailers-skipped", _BUFFERED, trailers=TRAILERS),
    Variant("envoy-trailers", _WITH_TRAILERS, trailers=TRAILERS),
    Variant("envoy-trailers-end", _WITH_TRAILERS.named(trailers_end=True), trailers=TRAILERS),
    Variant("envoy-trailers-buffered", _WITH_TRAILERS, Server(response_mode="buffered"), TRAILERS),
]
_AGENTGATEWAY = [
    Variant("agentgateway-one-message", _BUFFERED.named(dialect=AGENTGATEWAY)),
    Variant("agentgateway-two-messages", _BUFFERED.named(dialect=AGENTGATEWAY, empty_end=True)),
    Variant(
        "agentgateway-response-buffered",
        _BUFFERED.named(dialect=AGENTGATEWAY, response_body=BodyMode.BUFFERED),
    ),
]
_FULL_DUPLEX = [
    Variant(
        f"{dialect.name.lower()}-duplex-{name}{'-trailers' if trailers else ''}",
        _DUPLEX.named(
            dialect=dialect,
            request_chunks=cut,
            response_chunks=cut,
            empty_end=name != "whole" and not trailers,
        ),
        trailers=trailers,
    )
    for dialect in (ENVOY, AGENTGATEWAY)
    for name, cut in (("whole", whole), ("bytes", one_byte), ("odd", odd))
    for trailers in ((), TRAILERS)
]
VARIANTS: Mapping[str, Variant] = {v.name: v for v in (*_ENVOY, *_AGENTGATEWAY, *_FULL_DUPLEX)}
