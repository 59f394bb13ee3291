"""Statuses, streams and everything a server or a gateway answers that is not ours to change."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.gateway.wire import HttpRequest, HttpResponse

from .client import events, joined
from .tools import TOOLS, raw
from .upstream import Call
from .world import Setup, World, legacy_only, modern_only, narrowly, widely

REAL = {str(one["name"]) for one in TOOLS} - {"search_tools"}


def answering(world: World, response: HttpResponse) -> None:
    """Let the server of a world give one fixed answer from now on."""
    framed = response.headers
    if not world.setup.variant.trailers and ("content-type", "text/event-stream") not in framed:
        framed = (*framed, ("content-length", str(len(response.body))))
    fixed = HttpResponse(response.status, framed, response.chunks, world.setup.variant.trailers)

    def handle(request: HttpRequest) -> HttpResponse:
        world.server.calls.append(Call(request, "", None, {}))
        return fixed

    world.server._handle = handle  # type: ignore[method-assign]


ERRORS = {
    "unauthorized": HttpResponse(401, (("www-authenticate", 'Bearer scope="a"'),), (b"no",)),
    "insufficient-scope": HttpResponse(
        403,
        (("www-authenticate", 'Bearer error="insufficient_scope"'), ("content-type", "application/json")),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"scope"}}',),
    ),
    "dead-session": HttpResponse(
        404,
        (("content-type", "application/json"),),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}',),
    ),
    "wrong-version": HttpResponse(
        400,
        (("content-type", "application/json"),),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"v","data":{"supported":["x"]}}}',),
    ),
    "empty": HttpResponse(400, ()),
    "text": HttpResponse(400, (("content-type", "text/plain"),), (b"Bad prefix",)),
    "method-not-found": HttpResponse(
        404,
        (("content-type", "application/json"),),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}',),
    ),
    "unavailable": HttpResponse(503, (("retry-after", "3"),), (b"upstream connect error",)),
    "accepted": HttpResponse(202, ()),
    "redirect": HttpResponse(307, (("location", "/mcp/"),)),
}
SENDS = {
    "open": ("server/discover", {}),
    "list": ("tools/list", {}),
    "cold-search": ("tools/call", {"name": "search_tools", "arguments": {"queries": ["a"]}}),
    "cold-call": ("tools/call", {"name": "call_read_tool", "arguments": {"name": "a"}}),
    "direct": ("tools/call", {"name": "files__read_file", "arguments": {}}),
}


@narrowly
@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize("error", ERRORS)
async def test_an_http_error_passes_as_it_came(setup: Setup, send: str, error: str) -> None:
    world = setup.world()
    client = await world.opened()
    response = ERRORS[error]
    answering(world, response)
    method, params = SENDS[send]
    if send == "open" and not setup.modern:
        method, params = "initialize", {"protocolVersion": setup.revision}
    reply = await client.send(method, params)
    assert (reply.status, reply.http.body) == (response.status, response.body)
    for header in response.headers:
        assert header in reply.http.headers


@widely
async def test_a_rewritten_call_keeps_a_refusal(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    answering(world, ERRORS["insufficient-scope"])
    reply = await client.call("call_destructive_tool", {"name": "mail__send"})
    assert (reply.status, reply.http.body) == (403, ERRORS["insufficient-scope"].body)
    assert reply.http.header("www-authenticate") == 'Bearer error="insufficient_scope"'


@widely
async def test_an_errors_body_with_another_id_gets_the_clients(setup: Setup) -> None:
    world = setup.world(quirk="list-fails")
    client = await world.opened()
    reply = await client.send("tools/list", id=b'"a"')
    assert (reply.message["id"], reply.error["code"]) == (b'"a"', -32603)


@legacy_only
async def test_a_servers_request_with_our_id_is_not_the_answer(setup: Setup) -> None:
    world = setup.world(sse=True)
    client = await world.opened()
    for reply in (await client.list(), await client.search("email"), await client.open()):
        if reply.outcome.local:
            continue
        assert [json.loads(one).get("method") for one in reply.others] == ["notifications/progress", "ping"]
        assert "result" in reply.message


@widely
async def test_event_ids_comments_and_priming_stay(setup: Setup) -> None:
    world = setup.world(sse=True)
    client = await world.opened()
    reply = await client.list()
    body = reply.http.body
    assert body.startswith(b"id: 0\nretry: 500\ndata:\n\n: ping\n\n")
    assert body.count(b"id: ") == body.count(b"\ndata:")
    last = body.rstrip().split(b"\n")[-3:]
    assert any(line.startswith(b"id: ") for line in last)
    assert reply.http.header("x-accel-buffering") == "no"
    assert reply.http.header("content-type") == "text/event-stream"


@legacy_only
async def test_a_resumed_stream_does_not_leak_the_list(setup: Setup) -> None:
    world = setup.world(sse=True)
    client = await world.opened()
    await client.list()
    call = world.server.calls[-1]
    replayed = world.server._list(call, world.server.tools)
    world.server._handle = lambda request: replayed  # type: ignore[method-assign]
    reply = await client.get("GET", ("last-event-id", "1"))
    if setup.withholds:
        # A live stream is not withheld; see docs/protocol-limits.md.
        assert reply.http.body == replayed.body
        return
    text = reply.http.body.decode()
    assert not [name for name in REAL if name in text]
    assert "search_tools" in text
    assert reply.message["id"] == call.id


@legacy_only
async def test_a_plain_get_stream_passes(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    reply = await client.get()
    assert events(reply.http.body) == [b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}']


@widely
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "HEAD", "PUT"])
async def test_other_verbs_pass(setup: Setup, method: str) -> None:
    world = setup.world()
    client = await world.opened()
    reply = await client.get(method)
    request = reply.outcome.upstream
    assert request is not None
    direct = world.server(request)
    assert (reply.status, reply.http.body) == (direct.status, direct.body)


@widely
async def test_a_compressed_answer_is_read_and_sent_plain(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    genuine = world.server._handle

    def compressed(request: HttpRequest) -> HttpResponse:
        assert request.header("accept-encoding") is None
        response = genuine(request)
        headers = tuple(header for header in response.headers if header[0] != "content-length")
        body = gzip.compress(response.body)
        return HttpResponse(200, (*headers, ("content-encoding", "gzip")), (body,), response.trailers)

    world.server._handle = compressed  # type: ignore[method-assign]
    reply = await client.list()
    assert reply.http.header("content-encoding") is None
    assert "search_tools" in reply.names


@legacy_only
async def test_answers_of_the_client_pass(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    for body in (
        b'{"jsonrpc":"2.0","id":3,"result":{"action":"accept","content":{"tools/list":1}}}',
        b'{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","method":"tools/list"}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"call_read_tool"}}',
    ):
        reply = await client.post(body)
        assert reply.status == 202
        assert world.server.calls[-1].request.body == body


@widely
async def test_a_cancellation_passes_with_the_id_the_server_knows(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    arguments = {"name": "mail__send", "arguments": {}}
    await client.call("call_destructive_tool", arguments, b'"long-7"')
    assert world.server.calls[-1].id == b'"long-7"'
    body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long-7"}}'
    more = (("mcp-protocol-version", setup.revision),) if setup.modern else ()
    await client.post(body, more)
    assert world.server.calls[-1].request.body == body


UNREADABLE = [
    b"",
    b"{",
    b'{"jsonrpc":"2.0","id":1,"method":"resources/list"',
    b"nonsense",
    b'"text"',
    b"5",
    b"null",
    b"\xff\xfe",
    b'{"method":5}',
    b"{}",
    b'{"id":1}',
]


@widely
@pytest.mark.parametrize("body", UNREADABLE)
async def test_what_is_no_message_passes(setup: Setup, body: bytes) -> None:
    world = setup.world()
    client = await world.opened()
    reply = await client.post(body)
    assert reply.outcome.upstream is not None
    assert reply.outcome.upstream.body == body


LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"%s}'
HALF = b',"params":{"x":"\\ud800"}'
LENIENT = {
    "escaped": (LIST % b",").replace(b"tools", b"\\u0074ools"),
    "cut off": (LIST % b"")[:-1],
    "trailing comma": LIST % b",",
    "trailing bytes": LIST % b"" + b"]",
    "single quotes": (LIST % b"").replace(b'"', b"'"),
    "byte order mark": b"\xef\xbb\xbf" + LIST % b"",
    "utf-16": (LIST % b"").decode().encode("utf-16"),
    "utf-16 without a mark": (LIST % b"").decode().encode("utf-16-le"),
    "not utf-8": LIST % b',"x":"\xff"',
    "not a number": LIST % b',"x":NaN',
    "comment": b"/**/" + LIST % b"",
    "other case": (LIST % b"").replace(b"method", b"Method"),
    "folded case": (LIST % b"").replace(b'"id"', b'"param\xc5\xbf":{},"id"'),
    "batch": b"[1," + LIST % b"" + b"]",
    "batch that cannot be read": b"[" + LIST % b"" + b',{"x":"\xff"}]',
    "compressed": gzip.compress(LIST % b""),
}
"""Bodies that are no exact JSON message, and that some server or gateway reads as one."""


@widely
@pytest.mark.parametrize("kind", LENIENT)
async def test_what_only_lenient_parsers_read_is_refused(setup: Setup, kind: str) -> None:
    world = setup.world({"calls": {"direct": "deny"}})
    client = await world.opened()
    extra = (("content-encoding", "gzip"),) if kind == "compressed" else ()
    reply = await client.post(LENIENT[kind], extra)
    assert reply.outcome.local
    assert reply.status == (415 if kind == "compressed" else 400)


@widely
async def test_half_a_surrogate_pair_hides_nothing(setup: Setup) -> None:
    """Valid JSON that parsers disagree about: the list becomes the six all the same."""
    world = setup.world()
    client = await world.warm()
    listed = await client.post(LIST % HALF, client.message_headers("tools/list", {}))
    assert not [name for name in REAL if name in listed.http.body.decode()]


@widely
async def test_a_deeply_nested_message_is_an_answer(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":' + b"[" * 9000 + b"]" * 9000 + b"}}"
    if setup.variant.config.request_chunks(deep)[0] != deep:
        pytest.skip("about the whole message: other scenarios show that pieces make no difference")
    reply = await client.post(deep)
    assert reply.status in (200, 400)
    assert not [name for name in REAL if name in reply.http.body.decode()]


@legacy_only
async def test_no_batch_hides_a_list_or_a_call(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    for inner in (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_read_tool"}}',
    ):
        reply = await client.post(b"[" + inner + b',{"jsonrpc":"2.0","id":2,"method":"ping"}]')
        assert reply.status == 400
    assert world.server.calls == []


@widely
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"Tools/List"}',
        b'{"jsonrpc":"2.0","id":1,"method":" tools/call ","params":{"name":"files__read_file"}}',
        b'[[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"files__read_file"}}]]',
        b'[{"jsonrpc":"2.0","id":1,"method":"TOOLS/LIST"}]',
    ],
)
async def test_what_only_lenient_servers_take_for_a_list_or_a_call_is_refused(
    setup: Setup, body: bytes
) -> None:
    world = setup.world()
    client = await world.opened()
    world.server.calls.clear()
    assert (await client.post(body)).status == 400
    assert world.server.calls == []


@widely
async def test_a_batch_without_our_methods_is_the_servers_business(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    body = b'[{"jsonrpc":"2.0","method":"notifications/progress"}]'
    reply = await client.post(body)
    assert reply.outcome.upstream is not None
    assert reply.outcome.upstream.body == body


@modern_only
async def test_listen_streams_pass(setup: Setup) -> None:
    world = setup.world()
    client = await world.opened()
    stream = (
        b'data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}\n\n',
        b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n',
    )
    genuine = world.server._handle

    def listening(request: HttpRequest) -> HttpResponse:
        genuine(request)
        return HttpResponse(200, (("content-type", "text/event-stream"),), stream, world.server.trailers)

    world.server._handle = listening  # type: ignore[method-assign]
    params = {"notifications": {"toolsListChanged": True}, "_meta": client.meta()}
    body = joined({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params})
    reply = await client.post(body, client.message_headers("subscriptions/listen", params))
    assert reply.http.body == b"".join(stream)


@widely
async def test_a_large_list_is_read_and_answers_stay_small(setup: Setup) -> None:
    padding = {"description": "Compute something " + "x" * 3000}
    many = raw(tuple({**TOOLS[2], "name": f"big__tool_{n}", **padding} for n in range(120)))
    world = setup.world(tools=many)
    if setup.variant.config.response_chunks is not None:
        pytest.skip("about the whole message: other scenarios show that pieces make no difference")
    client = await world.opened()
    found = await client.search("compute something", limit=25)
    assert len(found.http.body) < 768 * 1024
    described = await client.call("describe_tool", {"names": [f"big__tool_{n}" for n in range(10)]})
    assert len(described.http.body) < 768 * 1024


@widely
async def test_a_list_over_the_limit_is_an_answer_without_the_list(setup: Setup) -> None:
    pieces = setup.variant.config.response_chunks is not None
    world = setup.world({"limits": {"response_body": 500}}, sse=setup.sse and pieces)
    client = await world.opened()
    for reply in (await client.list(), await client.search("email")):
        assert not [name for name in REAL if name in reply.http.body.decode()]
        assert reply.message["id"] == b"1"


@modern_only
async def test_a_discovery_keeps_its_life_and_scope(setup: Setup) -> None:
    reply = await setup.world().client().open()
    assert (reply.result["ttlMs"], reply.result["cacheScope"]) == (1000, "public")
    assert reply.result["supportedVersions"] == [setup.revision]


@widely
async def test_a_failed_handshake_gets_no_guidance(setup: Setup) -> None:
    world = setup.world()
    answering(world, ERRORS["method-not-found"])
    client = world.client()
    method = "server/discover" if setup.modern else "initialize"
    reply = await client.send(method, {"protocolVersion": setup.revision})
    assert (reply.status, reply.http.body) == (404, ERRORS["method-not-found"].body)


@legacy_only
async def test_a_dead_session_is_told_by_the_server(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    world.server.open_sessions.clear()
    calls = [await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})]
    cold = world.client()
    cold.opened, cold.session, cold.headers = True, "gone", (("authorization", "Bearer new"),)
    calls += [await cold.list(), await cold.search("email")]
    for reply in calls:
        assert reply.status == 404
        assert b"Session not found" in reply.http.body
    ended = await client.get("DELETE")
    assert ended.status == 204


@widely
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_change_without_a_result_says_whether_it_may_be_repeated(setup: Setup, status: int) -> None:
    world = setup.world()
    client = await world.warm()
    answering(world, HttpResponse(status, (), (b"upstream connect error",)))
    reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})
    assert reply.is_error
    assert "idempotent" in reply.text
    direct = await client.call("mail__send", {})
    assert (direct.status, direct.http.body) == (status, b"upstream connect error")


@widely
async def test_a_change_on_a_watched_stream_ages_the_list(setup: Setup) -> None:
    world = setup.world({"catalog": {"watch": True}})
    client = await world.warm()
    stream = (b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n', b": ping\n\n")
    genuine = world.server._handle
    answering(world, HttpResponse(200, (("content-type", "text/event-stream"),), stream))
    if setup.modern:
        params = {"notifications": {"toolsListChanged": True}, "_meta": client.meta()}
        body = joined({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params})
        reply = await client.post(body, client.message_headers("subscriptions/listen", params))
    else:
        reply = await client.get()
    assert reply.http.body == b"".join(stream)
    if not setup.variant.config.response_chunks:
        assert [piece for _, piece in reply.outcome.deliveries] == list(stream)
    world.server._handle = genuine  # type: ignore[method-assign]
    assert (await client.search("email")).outcome.local is setup.withholds


@legacy_only
async def test_a_change_told_on_a_calls_own_stream_ages_the_list(setup: Setup) -> None:
    world = setup.world()
    client = await world.warm()
    genuine = world.server._handle
    stream = (
        b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n',
        b'data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n',
    )
    answering(world, HttpResponse(200, (("content-type", "text/event-stream"),), stream))
    reply = await client.call("call_destructive_tool", {"name": "mail__send", "arguments": {}})
    assert reply.http.body == b"".join(stream)
    world.server._handle = genuine  # type: ignore[method-assign]
    assert (await client.search("email")).outcome.local is setup.withholds
