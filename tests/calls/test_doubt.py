"""A name that is missing from a list of some age may be back: the list is read again."""

from __future__ import annotations

import pytest

from extproc.catalog.caller import CallerContext
from extproc.catalog.model import Catalogue
from extproc.exchange.messages import Opening, Reply, Request
from extproc.rewriter import request, routes
from extproc.rewriter.decisions import Doubted
from extproc.search import ToolIndex
from extproc.settings import Settings
from extproc.store import Warm

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b}}'


def decision(tool: bytes, arguments: bytes, age: float) -> object:
    route = routes.route(Request(((":method", "POST"),), CALL % (tool, arguments), Opening()))
    assert isinstance(route, routes.CallsTool | routes.CallsMeta)
    empty = Catalogue.of([])
    caller = CallerContext(b"k" * 16, None, "2025-06-18")
    known = request.Known(caller, Warm(empty, ToolIndex.build(empty), age), Settings())
    return request.decide(route, known)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (b"call_read_tool", b'{"name":"time__now","arguments":{}}'),
        (b"call_destructive_tool", b'{"name":"time__now"}'),
        (b"describe_tool", b'{"names":["time__now"]}'),
    ],
)
def test_an_old_list_is_doubted_and_a_new_one_believed(tool: bytes, arguments: bytes) -> None:
    old = decision(tool, arguments, age=60)
    assert isinstance(old, Doubted)
    assert b"time__now" in old.reply.body
    assert isinstance(decision(tool, arguments, age=1), Reply)


def test_calling_one_of_the_six_through_another_says_nothing_about_the_list() -> None:
    assert isinstance(decision(b"call_read_tool", b'{"name":"call_write_tool"}', age=60), Reply)
