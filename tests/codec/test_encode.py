from __future__ import annotations

import pytest

from extproc.codec import Sendable, encode
from extproc.codec.wire_pb2 import HeaderValueOption, ProcessingMode, ProcessingResponse
from extproc.exchange.messages import (
    AnswerBody,
    AnswerHeaders,
    AnswerTrailers,
    BodyMode,
    Immediate,
    ModeOverride,
    Side,
    StreamBody,
)
from tests.codec.independent import RESPONSE

SIDES = [(Side.REQUEST, "request"), (Side.RESPONSE, "response")]


def sent(command: Sendable) -> ProcessingResponse:
    return ProcessingResponse.FromString(encode(command))


@pytest.mark.parametrize(("side", "name"), SIDES)
def test_answers_are_of_the_kind_and_side_of_the_message(side: Side, name: str) -> None:
    assert sent(AnswerHeaders(side)).WhichOneof("response") == f"{name}_headers"
    assert sent(AnswerHeaders(side, remove=("a",))).WhichOneof("response") == f"{name}_headers"
    assert sent(AnswerBody(side)).WhichOneof("response") == f"{name}_body"
    assert sent(AnswerBody(side, b"x")).WhichOneof("response") == f"{name}_body"
    assert sent(StreamBody(side, b"x")).WhichOneof("response") == f"{name}_body"
    assert sent(AnswerTrailers(side)).WhichOneof("response") == f"{name}_trailers"


def test_an_answer_without_changes_carries_nothing() -> None:
    assert encode(AnswerHeaders(Side.REQUEST)) == b"\x0a\x00"
    assert encode(AnswerBody(Side.RESPONSE)) == b"\x22\x00"
    assert encode(AnswerTrailers(Side.RESPONSE)) == b"\x32\x00"


def test_sets_overwrite_and_travel_raw() -> None:
    every = bytes(range(256)).decode("latin-1")
    mutation = sent(
        AnswerHeaders(Side.REQUEST, (("x-all", every), ("x-empty", "")), ("accept-encoding", "x-old"))
    ).request_headers.response.header_mutation
    first, second = mutation.set_headers
    assert (first.header.key, first.header.raw_value, first.header.value) == ("x-all", bytes(range(256)), "")
    assert {each.append_action for each in mutation.set_headers} == {
        HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    }
    assert (first.keep_empty_value, second.keep_empty_value) == (False, True)
    assert [*mutation.remove_headers] == ["accept-encoding", "x-old"]


def test_only_what_may_be_repeated_says_so() -> None:
    for command in (
        AnswerBody(Side.REQUEST, b"x", repeatable=True),
        AnswerBody(Side.REQUEST, repeatable=True),
        AnswerHeaders(Side.REQUEST, (("a", "b"),), repeatable=True),
        AnswerHeaders(Side.REQUEST, repeatable=True),
    ):
        assert dict(sent(command).dynamic_metadata["toolsearch"]) == {"repeatable": True}
    for command in (AnswerBody(Side.REQUEST, b"x"), AnswerHeaders(Side.REQUEST, (("a", "b"),))):
        assert not sent(command).HasField("dynamic_metadata")


def test_a_mode_override_states_both_bodies_and_leaves_the_headers_alone() -> None:
    mode = sent(
        AnswerHeaders(Side.REQUEST, mode=ModeOverride(BodyMode.BUFFERED, BodyMode.FULL_DUPLEX))
    ).mode_override
    assert mode.request_body_mode == ProcessingMode.BUFFERED
    assert mode.response_body_mode == ProcessingMode.FULL_DUPLEX_STREAMED
    assert mode.request_header_mode == mode.response_header_mode == ProcessingMode.DEFAULT
    assert not sent(AnswerHeaders(Side.REQUEST, remove=("a",))).HasField("mode_override")


def test_an_override_to_none_is_still_there() -> None:
    answer = sent(AnswerHeaders(Side.RESPONSE, mode=ModeOverride(BodyMode.NONE, BodyMode.NONE)))
    assert answer.HasField("mode_override")


def test_bodies_are_kept_replaced_or_cleared() -> None:
    kept = sent(AnswerBody(Side.REQUEST, None, (("a", "b"),))).request_body.response
    assert not kept.HasField("body_mutation")
    assert kept.header_mutation.set_headers[0].header.raw_value == b"b"
    replaced = sent(AnswerBody(Side.RESPONSE, b"\x00new")).response_body.response
    assert replaced.body_mutation.body == b"\x00new"
    cleared = sent(AnswerBody(Side.RESPONSE, b"")).response_body.response.body_mutation
    assert cleared.WhichOneof("mutation") == "clear_body"
    assert cleared.clear_body is True


@pytest.mark.parametrize(("chunk", "end"), [(b"part", False), (b"", True), (b"x" * 62_000, True)])
def test_streamed_chunks(chunk: bytes, end: bool) -> None:
    mutation = sent(StreamBody(Side.RESPONSE, chunk, end)).response_body.response.body_mutation
    assert mutation.WhichOneof("mutation") == "streamed_response"
    assert (mutation.streamed_response.body, mutation.streamed_response.end_of_stream) == (chunk, end)


def test_an_immediate_answer() -> None:
    command = Immediate(404, (("content-type", "application/json"),), b'{"a":1}', "why")
    answer = sent(command).immediate_response
    assert (answer.status.code, answer.body, answer.details) == (404, b'{"a":1}', "why")
    assert answer.headers.set_headers[0].header.key == "content-type"
    assert RESPONSE.parse(encode(command)).immediate_response.status.code == 404


def test_a_value_that_is_no_header_text_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode(AnswerHeaders(Side.REQUEST, (("mcp-name", "工具"),)))
