"""mcpAuthentication: the token is verified and taken off the request; expressions keep what it said."""

from __future__ import annotations

import json
from collections.abc import Mapping

import jwt

from tests.agentgateway.stand_in.config import Authentication
from tests.fixture_server.wire import Request, Responder

METADATA = "/.well-known/oauth-protected-resource"


def identify(policy: Authentication, request: Request) -> dict[str, str] | None:
    """Expression to value; None for whoever has no good token.  Takes the token off the request."""
    scheme, _, token = (request.header("authorization") or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    keys = jwt.PyJWKSet.from_json(policy.keys.read_text("utf-8"))
    try:
        key = keys[jwt.get_unverified_header(token)["kid"]]
        claims: Mapping[str, object] = jwt.decode(
            token, key.key, ["ES256"], audience=policy.audiences, issuer=policy.issuer
        )
    except (jwt.InvalidTokenError, KeyError):
        return None
    request.headers[:] = [item for item in request.headers if item[0] != "authorization"]
    return {"jwt.sub": str(claims["sub"]), "jwt.rawToken.unredacted()": token}


async def challenge(policy: Authentication, request: Request, responder: Responder) -> None:
    host = request.header("host") or ""
    where = f"http://{host}{METADATA}{request.path}"
    headers = [("www-authenticate", f'Bearer resource_metadata="{where}"'), ("content-type", "text/plain")]
    await responder.send(401, b"no token", headers)


async def metadata(policy: Authentication, responder: Responder) -> None:
    said = {"resource": policy.resource, "authorization_servers": [policy.issuer]}
    await responder.send(200, json.dumps(said).encode(), [("content-type", "application/json")])
