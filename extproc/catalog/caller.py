"""Who is asking: a keyed hash of credentials, never the credentials themselves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from extproc.exchange.messages import Dialect, Headers
from extproc.settings import Caller

_pack = msgspec.msgpack.Encoder().encode

CallerKey: TypeAlias = bytes
"""16 bytes of keyed BLAKE2b."""


Place: TypeAlias = tuple[str, str, str]
"""Profile, host without port, and ``:path`` of a request."""


class CallerContext(msgspec.Struct, frozen=True):
    """What a side fetch on behalf of one caller may use.

    ``key`` is None when nothing tells this caller from another: then nothing is cached.
    ``headers`` are the credential and pass-through headers exactly as they came; they never leave memory.
    """

    key: CallerKey | None
    session: str | None
    revision: str
    headers: Headers = ()
    profile: str = ""
    place: Place = ("", "", "")
    asked: float | None = None
    """When the request came, in seconds of the store's clock."""
    dialect: Dialect = Dialect.ENVOY
    named: bool = True
    """Whether a credential or a verified attribute came with the request."""

    def __repr__(self) -> str:
        key = None if self.key is None else self.key.hex()
        return f"CallerContext({key}, {self.revision!r}, profile={self.profile!r})"


@lru_cache(maxsize=64)
def _lowered(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


_NAMELESS = (
    "callers arrive with neither a credential nor a verified attribute, so no tool list is kept beyond a "
    "session. {} Where nobody has a credential, set caller.anonymous: shared"
)
_NAMELESS_MENDS = {
    Dialect.AGENTGATEWAY: "A JWT policy of agentgateway takes Authorization off: set requestAttributes: "
    "{sub: jwt.sub} in its extProc and caller.attributes: [sub] here.",
    Dialect.ENVOY: "Name the header that carries the credential in caller.headers, or pass a verified claim: "
    "request_attributes in Envoy's filter and caller.attributes here.",
}


def nameless(dialect: Dialect) -> str:
    """What to tell an operator whose callers carry no name."""
    return _NAMELESS.format(_NAMELESS_MENDS[dialect])


def with_token(headers: Headers, attributes: Mapping[str, str], name: str) -> Headers:
    """The request's headers, with the token that a gateway took off and passed on as attribute ``name``."""
    token = attributes.get(name) if name else None
    if not token or any(header == "authorization" for header, _ in headers):
        return headers
    return (*headers, ("authorization", f"Bearer {token}"))


def credentials(
    settings: Caller, headers: Headers, attributes: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """What says who a request comes from, as (kind, name, value); empty for a nameless caller.

    Verified attributes, when any configured one is present, stand in for the credential headers, so a
    refreshed token keeps its catalogue.
    """
    if settings.attributes:
        verified = [("a", name, attributes[name]) for name in settings.attributes if attributes.get(name)]
        if verified:
            return verified
    wanted = _lowered(settings.headers)
    given = [("h", name, value) for name, value in headers if name in wanted and value]
    if len(given) > 1:
        given.sort()
    return given


def caller_key(
    settings: Caller,
    secret: bytes,
    place: Place,
    given: list[tuple[str, str, str]],
    session: str | None,
    *,
    modern: bool = False,
) -> CallerKey | None:
    """The key of a caller with these :func:`credentials`, or None when nothing identifies the caller.

    A caller without any is keyed by its MCP session.  Where it asks belongs to the key, as one processor may
    stand in front of several servers.  The two eras of MCP have keys of their own: what is a
    usable tool in one may be an invalid one in the other.
    """
    parts = given
    if not parts:
        if settings.anonymous == "shared":
            parts = [("n", "", "")]
        elif session:
            parts = [("s", "", session)]
        else:
            return None
    pieces = (place, modern, parts)
    # Both forms keep the pieces apart, so that no two lists of them come to the same bytes.
    try:
        text = _pack(pieces)
    except UnicodeEncodeError:
        text = ascii(pieces).encode()
    return blake2b(text, digest_size=16, key=secret).digest()
