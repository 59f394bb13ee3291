"""Who a request comes from, as far as the processor may know."""

from __future__ import annotations

import re
import secrets
import time
from functools import lru_cache

from msgspec.structs import replace

from extproc.catalog.caller import CallerContext, Place, caller_key, credentials, with_token
from extproc.exchange.messages import Headers, Request, Response
from extproc.mcp import headers, revisions
from extproc.profiles import Profile
from extproc.rewriter import plans

_PORT = re.compile(r":[0-9]+\Z")


class Identity:
    """Keys callers with ``caller.key``, or with a secret of this process's own where none is set."""

    def __init__(self, key: str) -> None:
        self._secret = key.encode()[:64] or secrets.token_bytes(32)

    def of(self, profile: Profile, message: Request, session: str | None, revision: str) -> CallerContext:
        """The caller of a request that belongs to ``session`` and speaks ``revision``."""
        settings, opening = profile.settings, message.opening
        given = message.headers
        if name := settings.catalog.token_attribute:
            given = with_token(given, opening.attributes, name)
        wanted = profile.passed_headers
        passed = tuple([header for header in given if header[0] in wanted])
        parts = credentials(settings.caller, passed, opening.attributes)
        modern = revisions.is_modern(revision)
        place = _place(opening.profile, message.headers)
        key = caller_key(settings.caller, self._secret, place, parts, session, modern=modern)
        return CallerContext(
            key=key,
            session=session,
            revision=revision,
            headers=passed,
            profile=opening.profile,
            place=place,
            asked=time.monotonic(),
            dialect=opening.dialect,
            named=bool(parts),
        )

    def opened(self, profile: Profile, plan: plans.Guide, message: Response) -> CallerContext:
        """The caller as its next requests will look: ``initialize`` is answered with its session."""
        caller = plan.caller
        session = headers.get(message.headers, "mcp-session-id") or caller.session
        key = caller.key
        if key is None and session is not None:
            key = caller_key(profile.settings.caller, self._secret, caller.place, [], session)
        return replace(caller, key=key, session=session, revision=plan.rpc.revision)


def _place(profile: str, given: Headers) -> Place:
    authority = path = ""
    for name, value in given:
        if name == ":authority":
            authority = value
        elif name == ":path":
            path = value
        elif path and authority:
            break
    return (profile, _host(authority), path)


@lru_cache(maxsize=1024)
def _host(authority: str) -> str:
    return _PORT.sub("", authority).lower()
