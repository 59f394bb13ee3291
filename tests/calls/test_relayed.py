"""An upstream's refusal of a side request as the answer to the client's own."""

from __future__ import annotations

import json

import pytest

from extproc.rewriter import rpc

CALL = rpc.Rpc(b'"mine"', "tools/call", {}, {}, "2025-11-25")
CHALLENGE = ("www-authenticate", 'Bearer error="invalid_token",  scope=""')
JSON = ("content-type", "application/json")


def test_our_id_becomes_the_clients_and_the_rest_keeps_its_bytes() -> None:
    body = b'{"jsonrpc":"2.0","id":4503599627370497,"error":{"code":-32600, "message":"no \\u00e9"}}'
    reply = rpc.relayed(CALL, 403, (JSON, CHALLENGE), body)
    assert reply.body == body.replace(b"4503599627370497", b'"mine"')
    assert (reply.status, reply.headers) == (403, (JSON, CHALLENGE))


@pytest.mark.parametrize(
    "body", [b"", b"denied", b'{"id":null,"error":{}}', b'{"error":"x"}', b"[1]", b"\xff"]
)
def test_a_body_without_an_id_stays_as_it_is(body: bytes) -> None:
    assert rpc.relayed(CALL, 401, (CHALLENGE,), body).body == body


def test_headers_of_the_other_message_go() -> None:
    others = ("content-length", "9"), ("transfer-encoding", "chunked"), ("content-encoding", "gzip")
    reply = rpc.relayed(
        CALL, 401, (*others, CHALLENGE, ("connection", "close"), CHALLENGE), json.dumps(1).encode()
    )
    assert reply.headers == (CHALLENGE, CHALLENGE)
