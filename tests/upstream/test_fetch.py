from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from extproc.rewriter.meta_tools import listed
from extproc.settings import Tools
from extproc.upstream import Failed, Fetched, Reason, Unauthorized, UpstreamClient

from .conftest import LEGACY, MODERN, caller
from .servers import (
    STREAM_END,
    STREAM_HEAD,
    Hangup,
    McpServer,
    Request,
    Write,
    answer,
    chunk,
    event,
    serving,
    tool,
    until,
)

Make = Callable[..., UpstreamClient]


def names(outcome: object) -> list[str]:
    assert isinstance(outcome, Fetched), outcome
    return [tool.name for tool in outcome.catalogue]


def reply(request: Request, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": [tool("a")], **result}}


# What goes out --------------------------------------------------------------------------------------------


async def test_a_modern_request_stands_alone(make_client: Make) -> None:
    async with serving(McpServer()) as server:
        assert names(await make_client(server.url).fetch(caller(MODERN, session="s1"))) == ["a", "b", "c"]
    (sent,) = server.requests
    assert sent.header("mcp-protocol-version") == MODERN
    assert sent.header("mcp-method") == "tools/list"
    assert sent.header("mcp-name") is None
    assert sent.header("mcp-session-id") is None
    assert sent.header("accept") == "application/json, text/event-stream"
    meta = sent.json["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert 2**52 < sent.json["id"] < 2**53


async def test_only_credentials_and_configured_headers_go_out_exactly_as_they_came(make_client: Make) -> None:
    headers = (
        ("cookie", "k=\xe9\xff"),
        ("x-tenant", "t 1"),
        ("x-secret", "no"),
        ("mcp-session-id", "no"),
        ("content-length", "9"),
        ("host", "evil"),
        (":path", "/evil"),
    )
    async with serving(McpServer()) as server:
        client = make_client(server.url, catalog={"headers": ["X-Tenant", "host", "mcp-session-id"]})
        assert names(await client.fetch(caller(headers=headers)))
    (sent,) = server.requests
    assert ("cookie", "k=\xe9\xff") in sent.headers
    assert sent.header("x-tenant") == "t 1"
    assert sent.header("x-secret") is None
    assert sent.header("mcp-session-id") is None
    assert [value for name, value in sent.headers if name == "host"] == [server.url.split("/")[2]]
    assert sent.path == "/mcp/all"


async def test_the_environment_and_earlier_answers_add_nothing(
    make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    async def cookie(request: Request, write: Write) -> None:
        await write(answer(reply(request), set_cookie="sid=ann; Path=/"))

    async with serving(cookie) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(name="ann")))
        assert names(await client.fetch(caller(name="bob")))
    assert server.requests[1].header("cookie") is None
    assert server.requests[1].header("authorization") == "Bearer bob"


async def test_a_live_legacy_session_is_used_and_left_alone(make_client: Make) -> None:
    mcp = McpServer(sessions={"live": True})
    async with serving(mcp) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(LEGACY, session="live"))) == ["a", "b", "c"]
        await client.aclose()
    assert server.methods() == ["tools/list"]
    assert server.requests[0].header("mcp-session-id") == "live"
    assert server.requests[0].header("mcp-protocol-version") == LEGACY
    assert "params" not in server.requests[0].json
    assert mcp.deleted == []


async def test_an_own_session_is_opened_pooled_and_ended(make_client: Make) -> None:
    mcp = McpServer()
    async with serving(mcp) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(LEGACY)))
        assert names(await client.fetch(caller(LEGACY)))
        assert client.sessions == 1
        await client.aclose()
    assert server.methods() == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/list",
        "DELETE",
    ]
    assert server.requests[0].header("mcp-protocol-version") is None
    assert server.requests[0].json["params"]["capabilities"] == {}
    assert server.requests[0].json["params"]["protocolVersion"] == LEGACY
    assert "id" not in server.requests[1].json
    ids = [request.json["id"] for request in server.requests if request.body and "id" in request.json]
    assert len(set(ids)) == len(ids)
    assert mcp.deleted == ["own-0"]


@pytest.mark.parametrize("session", ["gone", None])
async def test_a_dead_session_is_replaced(make_client: Make, session: str | None) -> None:
    mcp = McpServer()
    async with serving(mcp) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(LEGACY, session=session)))
        mcp.sessions.clear()
        assert names(await client.fetch(caller(LEGACY, session=session)))
    assert server.methods().count("initialize") == 2


async def test_sessions_are_bounded_and_the_oldest_is_ended(make_client: Make) -> None:
    mcp = McpServer()
    async with serving(mcp) as server:
        client = make_client(server.url, catalog={"max_sessions": 2})
        for name in ("a", "b", "c"):
            assert names(await client.fetch(caller(LEGACY, name=name)))
        assert client.sessions == 2
        await until(lambda: mcp.deleted)
    assert mcp.deleted == ["own-0"]


async def test_a_caller_without_a_key_leaves_no_session_behind(make_client: Make) -> None:
    mcp = McpServer()
    async with serving(mcp) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(LEGACY, key=None)))
        assert client.sessions == 0
        await until(lambda: mcp.deleted)
    assert mcp.deleted == ["own-0"]


async def test_another_token_gets_another_session(make_client: Make) -> None:
    async with serving(McpServer()) as server:
        client = make_client(server.url)
        same_key = b"k" * 16
        await client.fetch(caller(LEGACY, name="old", key=same_key))
        await client.fetch(caller(LEGACY, name="new", key=same_key))
    assert server.methods().count("initialize") == 2


async def test_a_server_without_sessions_is_asked_without_one(make_client: Make) -> None:
    async with serving(McpServer(needs_session=False)) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(LEGACY)))
        await client.aclose()
    assert server.methods() == ["initialize", "notifications/initialized", "tools/list"]


async def test_connections_are_reused_for_json_and_for_streams(make_client: Make) -> None:
    mcp = McpServer()
    async with serving(mcp) as server:
        client = make_client(server.url)
        for sse in (False, True):
            mcp.sse = sse
            for _ in range(10):
                assert names(await client.fetch(caller()))
        assert names(await client.fetch(caller(LEGACY)))
        assert server.connections == 1


@pytest.mark.parametrize("later", [False, True])
async def test_an_answer_nobody_asked_for_is_not_taken_for_the_next(make_client: Make, later: bool) -> None:
    async def twice(request: Request, write: Write) -> None:
        following = {"jsonrpc": "2.0", "id": request.json["id"] + 1, "result": {"tools": [tool("planted")]}}
        if later:
            await write(answer(reply(request)))
            await asyncio.sleep(0.01)
            await write(answer(following))
        else:
            await write(answer(reply(request)) + answer(following))

    async with serving(twice) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller(name="ann"))) == ["a"]
        await asyncio.sleep(0.05)
        assert names(await client.fetch(caller(name="bob"))) == ["a"]
        assert server.connections == 2


# What comes back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sse", [False, True])
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_all_pages_are_read(make_client: Make, sse: bool, revision: str) -> None:
    mcp = McpServer(tools=[f"t{n:03}" for n in range(95)], page_size=10, sse=sse)
    async with serving(mcp) as server:
        outcome = await make_client(server.url).fetch(caller(revision))
    assert names(outcome) == mcp.tools
    assert isinstance(outcome, Fetched)
    assert outcome.catalogue.complete
    assert outcome.cut is None


async def test_the_shortest_life_of_all_pages_counts(make_client: Make) -> None:
    lives = iter([60_000, 20_000, 40_000])

    async def pages(request: Request, write: Write) -> None:
        cursor = int(request.json["params"].get("cursor", "0"))
        more = {"nextCursor": str(cursor + 1)} if cursor < 2 else {}
        await write(answer(reply(request, ttlMs=next(lives), **more)))

    async with serving(pages) as server:
        outcome = await make_client(server.url).fetch(caller())
    assert isinstance(outcome, Fetched)
    assert outcome.ttl == 20


async def test_an_empty_cursor_is_a_cursor_and_null_is_none(make_client: Make) -> None:
    async def pages(request: Request, write: Write) -> None:
        first = "cursor" not in request.json["params"]
        result = {"tools": [tool("a" if first else "b")], "nextCursor": "" if first else None}
        await write(answer({"jsonrpc": "2.0", "id": request.json["id"], "result": result}))

    async with serving(pages) as server:
        assert names(await make_client(server.url).fetch(caller())) == ["a", "b"]
    assert server.requests[1].json["params"]["cursor"] == ""


async def test_a_name_listed_twice_counts_once(make_client: Make) -> None:
    mcp = McpServer(tools=["a", "b", "a", "c"], page_size=2)
    async with serving(mcp) as server:
        assert names(await make_client(server.url).fetch(caller())) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("cursor", "cut"),
    [(lambda n: "same", Reason.CURSOR_CYCLE), (lambda n: str(n), Reason.TOO_MANY_PAGES)],
    ids=["cycle", "endless"],
)
async def test_pages_that_never_end_are_stopped_and_what_was_read_is_kept(
    make_client: Make, cursor: Callable[[int], str], cut: Reason
) -> None:
    async def pages(request: Request, write: Write) -> None:
        await write(answer(reply(request, nextCursor=cursor(len(server.requests)))))

    async with serving(pages) as server:
        outcome = await make_client(server.url, catalog={"max_pages": 7}).fetch(caller())
    assert names(outcome) == ["a"]
    assert isinstance(outcome, Fetched)
    assert outcome.cut is cut
    assert not outcome.catalogue.complete
    assert len(server.requests) <= 7


async def test_more_tools_than_allowed_are_cut(make_client: Make) -> None:
    mcp = McpServer(tools=[f"t{n:02}" for n in range(30)], page_size=10)
    async with serving(mcp) as server:
        outcome = await make_client(server.url, limits={"tools": 15}).fetch(caller())
    assert isinstance(outcome, Fetched)
    assert len(outcome.catalogue) == 15
    assert outcome.cut is Reason.TOO_MANY_TOOLS
    assert not outcome.catalogue.complete


async def test_an_expired_cursor_starts_again_once(make_client: Make) -> None:
    mcp = McpServer(tools=[f"t{n}" for n in range(6)], page_size=2)
    expired = {"left": 1}

    async def before(request: Request, write: Write) -> bool:
        if request.json["params"].get("cursor") == "4" and expired["left"]:
            expired["left"] -= 1
            error = {"code": -32602, "message": "expired"}
            await write(answer({"jsonrpc": "2.0", "id": request.json["id"], "error": error}, 400))
            return True
        return False

    mcp.before = before
    async with serving(mcp) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller())) == mcp.tools
        expired["left"] = 2
        assert await client.fetch(caller()) == Failed(Reason.RPC_ERROR, "-32602")


async def test_a_failing_page_is_a_failure_as_a_whole(make_client: Make) -> None:
    mcp = McpServer(tools=[f"t{n}" for n in range(6)], page_size=2)

    async def before(request: Request, write: Write) -> bool:
        if request.json["params"].get("cursor") == "2":
            await write(answer(b"oops", 500, "text/plain"))
            return True
        return False

    mcp.before = before
    async with serving(mcp) as server:
        assert await make_client(server.url).fetch(caller()) == Failed(Reason.STATUS, "500")


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_keeps_status_challenge_and_body(
    make_client: Make, status: int, revision: str
) -> None:
    async def refuse(request: Request, write: Write) -> None:
        error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}'
        await write(answer(error, status, www_authenticate='Bearer scope="a b"'))

    async with serving(refuse) as server:
        outcome = await make_client(server.url).fetch(caller(revision))
    assert isinstance(outcome, Unauthorized)
    assert outcome.status == status
    assert ("www-authenticate", 'Bearer scope="a b"') in outcome.headers
    assert outcome.body.startswith(b'{"jsonrpc"')
    assert "scope" not in repr(outcome)


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 10_000])
async def test_the_answer_is_found_among_other_messages_of_a_stream(make_client: Make, cut: int) -> None:
    async def stream(request: Request, write: Write) -> None:
        message = request.json
        if message.get("id") == 5:
            await write(answer(b"", 202))
            return
        frames = (
            b"id: 1\ndata:\n\n: ping\n\n"
            + b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
            + b'data: {"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{}}\r\n\r\n'
            + b'data: {"jsonrpc":"2.0","id":6,"method":"ping"}\n\n'
            + b'data: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"wrong"}]}}\n\n'
            + b'data: {"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"wrong"}]}}\n\n'
            % (message["id"] + 1)
            + b'data: {"jsonrpc":"2.0",\ndata: "id":%d,"result":{"tools":[]}}\n\n' % message["id"]
        )
        pieces = (chunk(frames[start : start + cut]) for start in range(0, len(frames), cut))
        await write(STREAM_HEAD + b"".join(pieces) + STREAM_END)

    mcp = McpServer(sessions={"live": True})

    async def before(request: Request, write: Write) -> bool:
        if request.body and request.rpc_method == "tools/list":
            await stream(request, write)
            return True
        return False

    mcp.before = before
    async with serving(mcp) as server:
        assert names(await make_client(server.url).fetch(caller(LEGACY, session="live"))) == []
    replies = {request.json["id"]: request.json for request in server.requests[1:]}
    assert replies[5]["error"]["code"] == -32601
    assert replies[6]["result"] == {}
    assert all(request.header("mcp-session-id") == "live" for request in server.requests)


async def _status(request: Request, write: Write) -> None:
    await write(answer(b"busy", 503, "text/plain"))


async def _hangup(request: Request, write: Write) -> None:
    raise Hangup


async def _half(request: Request, write: Write) -> None:
    await write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"a"')
    raise Hangup


async def _no_http(request: Request, write: Write) -> None:
    await write(b"\x00\x01 garbage\r\n\r\n")
    raise Hangup


async def _no_json(request: Request, write: Write) -> None:
    await write(answer(b'{"jsonrpc":'))


async def _html(request: Request, write: Write) -> None:
    await write(answer(b"<html>", 200, "text/html"))


async def _other_id(request: Request, write: Write) -> None:
    await write(answer({"jsonrpc": "2.0", "id": 0, "result": {"tools": []}}))


async def _string_id(request: Request, write: Write) -> None:
    await write(answer({"jsonrpc": "2.0", "id": str(request.json["id"]), "result": {"tools": []}}))


async def _no_tools(request: Request, write: Write) -> None:
    await write(answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": 1}}))


async def _filtered(request: Request, write: Write) -> None:
    tools = json.loads(listed(None, Tools(), 10))
    await write(answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": tools}}))


async def _accepted(request: Request, write: Write) -> None:
    await write(answer(b"", 202))


async def _batch(request: Request, write: Write) -> None:
    await write(answer([{"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": []}}]))


async def _silent_stream(request: Request, write: Write) -> None:
    await write(STREAM_HEAD + chunk(b": nothing\n\n") + STREAM_END)


async def _large(request: Request, write: Write) -> None:
    await write(answer(reply(request, padding="x" * 200_000)))


BOMB = gzip.compress(bytes(20_000_000), 9)


async def _bomb(request: Request, write: Write) -> None:
    await write(answer(BOMB, content_encoding="gzip"))


async def _broken_gzip(request: Request, write: Write) -> None:
    await write(answer(b"not gzip", content_encoding="gzip"))


async def _brotli(request: Request, write: Write) -> None:
    await write(answer(b"??", content_encoding="br"))


async def _endless_event(request: Request, write: Write) -> None:
    await write(STREAM_HEAD + chunk(b"data: "))
    while True:
        await write(chunk(b"x" * 50_000))


async def _endless_events(request: Request, write: Write) -> None:
    await write(STREAM_HEAD)
    while True:
        await write(event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
        await asyncio.sleep(0.001)


async def _hang(request: Request, write: Write) -> None:
    await asyncio.sleep(30)


async def _elsewhere(request: Request, write: Write) -> None:
    await write(answer(b"", 307, location="http://127.0.0.1:1/steal"))


async def _same_host_other_port(request: Request, write: Write) -> None:
    await write(answer(b"", 308, location="//127.0.0.1:9/mcp"))


async def _see_other(request: Request, write: Write) -> None:
    await write(answer(b"", 302, location="/login"))


async def _round(request: Request, write: Write) -> None:
    await write(answer(b"", 307, location=request.path))


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (_status, Reason.STATUS),
        (_hangup, Reason.RESET),
        (_half, Reason.RESET),
        (_no_http, Reason.RESET),
        (_no_json, Reason.MALFORMED),
        (_html, Reason.MALFORMED),
        (_other_id, Reason.MALFORMED),
        (_string_id, Reason.MALFORMED),
        (_no_tools, Reason.MALFORMED),
        (_filtered, Reason.FILTERED),
        (_accepted, Reason.MALFORMED),
        (_batch, Reason.MALFORMED),
        (_silent_stream, Reason.MALFORMED),
        (_large, Reason.TOO_LARGE),
        (_bomb, Reason.TOO_LARGE),
        (_broken_gzip, Reason.ENCODING),
        (_brotli, Reason.ENCODING),
        (_endless_event, Reason.TOO_LARGE),
        (_endless_events, Reason.TIMEOUT),
        (_hang, Reason.TIMEOUT),
        (_elsewhere, Reason.REDIRECT),
        (_same_host_other_port, Reason.REDIRECT),
        (_see_other, Reason.REDIRECT),
        (_round, Reason.REDIRECT),
    ],
)
async def test_whatever_comes_back_is_a_reason(make_client: Make, handler: Any, reason: Reason) -> None:
    async with serving(handler) as server:
        timeout = 0.3 if reason is Reason.TIMEOUT else 30
        client = make_client(server.url, catalog={"timeout": timeout}, limits={"response_body": 100_000})
        outcome = await client.fetch(caller())
    assert isinstance(outcome, Failed)
    assert outcome.reason is reason
    assert client.counts[reason.value] == 1


async def test_nobody_listening_and_no_route(make_client: Make) -> None:
    outcome = await make_client("http://127.0.0.1:1/mcp").fetch(caller())
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.CONNECT
    client = make_client("")
    assert not client.available
    assert await client.fetch(caller()) == Failed(Reason.NO_ROUTE)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_coding_nobody_asked_for_is_undone(make_client: Make, coding: str) -> None:
    pack: Callable[[bytes], bytes] = gzip.compress if coding == "gzip" else zlib.compress

    async def packed(request: Request, write: Write) -> None:
        many = [tool(f"t{n}") for n in range(2_000)]
        await write(answer(pack(json.dumps(reply(request, tools=many)).encode()), content_encoding=coding))

    async with serving(packed) as server:
        assert len(names(await make_client(server.url).fetch(caller()))) == 2_000
    assert server.requests[0].header("accept-encoding") == "identity"


async def test_a_redirect_within_the_origin_is_followed(make_client: Make) -> None:
    mcp = McpServer()

    async def before(request: Request, write: Write) -> bool:
        if request.path == "/mcp/all":
            await write(answer(b"", 307, location="/mcp/all/"))
            return True
        return False

    mcp.before = before
    async with serving(mcp) as server:
        assert names(await make_client(server.url).fetch(caller()))
    assert server.requests[1].header("authorization") == "Bearer ann"


async def test_a_kept_connection_that_died_costs_one_repeat(make_client: Make) -> None:
    mcp = McpServer()
    dead = {"next": False}

    async def before(request: Request, write: Write) -> bool:
        if dead.pop("next", False):
            raise Hangup
        return False

    mcp.before = before
    async with serving(mcp) as server:
        client = make_client(server.url)
        assert names(await client.fetch(caller()))
        dead["next"] = True
        assert names(await client.fetch(caller()))


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "gateway.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file


async def test_tls_is_checked_against_the_machines_authorities(
    make_client: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    async with serving(McpServer(), tls) as server:
        outcome = await make_client(server.url).fetch(caller())
        assert isinstance(outcome, Failed)
        assert outcome.reason is Reason.CONNECT
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert names(await make_client(server.url).fetch(caller())) == ["a", "b", "c"]


# Many at once ---------------------------------------------------------------------------------------------


async def test_many_cold_callers_on_a_slow_upstream_are_bounded(make_client: Make) -> None:
    mcp = McpServer(delay=0.02)
    async with serving(mcp) as server:
        client = make_client(server.url, catalog={"max_fetches": 16, "timeout": 30})
        outcomes = await asyncio.gather(*(client.fetch(caller(name=f"c{n}")) for n in range(200)))
    assert all(names(outcome) for outcome in outcomes)
    assert server.peak <= 16
    assert server.connections <= 16


async def test_waiting_for_a_place_ends_at_the_deadline(make_client: Make) -> None:
    async with serving(McpServer(delay=30)) as server:
        client = make_client(server.url, catalog={"max_fetches": 1})
        holding = asyncio.ensure_future(client.fetch(caller(), timeout=30))
        await until(lambda: server.requests)
        assert await client.fetch(caller(name="bob"), timeout=0.05) == Failed(Reason.BUSY)
        holding.cancel()
        assert await client.fetch(caller(name="eve"), timeout=0.05) == Failed(Reason.TIMEOUT)


async def test_a_failing_upstream_is_left_alone_then_tried_once(make_client: Make) -> None:
    now = {"t": 0.0}
    mcp = McpServer()

    async def before(request: Request, write: Write) -> bool:
        if broken:
            await write(answer(b"no", 502, "text/plain"))
        return broken

    broken = True
    mcp.before = before
    async with serving(mcp) as server:
        client = make_client(server.url, clock=lambda: now["t"])
        for _ in range(20):
            assert isinstance(await client.fetch(caller()), Failed)
        assert len(server.requests) == 5
        assert client.backing_off
        now["t"] += 1.0
        both = await asyncio.gather(client.fetch(caller()), client.fetch(caller()))
        assert [outcome.reason for outcome in both if isinstance(outcome, Failed)] == [
            Reason.STATUS,
            Reason.BACKING_OFF,
        ]
        now["t"] += 2.0
        broken = False
        assert names(await client.fetch(caller()))
        assert not client.backing_off


@pytest.mark.parametrize("status", [400, 401, 404, 429])
async def test_a_callers_own_trouble_does_not_close_the_route(make_client: Make, status: int) -> None:
    async def refuse(request: Request, write: Write) -> None:
        await write(answer(b"no", status, "text/plain"))

    async with serving(refuse) as server:
        client = make_client(server.url)
        for _ in range(10):
            await client.fetch(caller())
        assert not client.backing_off
