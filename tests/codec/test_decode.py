from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.codec import ATTRIBUTES_NAMESPACE, First, Malformed, decode, decode_first
from extproc.codec.wire_pb2 import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingMode,
    ProcessingRequest,
    ProtocolConfiguration,
)
from extproc.exchange.messages import (
    BodyArrived,
    BodyMode,
    Dialect,
    HeadersArrived,
    Opening,
    Side,
    TrailersArrived,
)


def headers(*values: HeaderValue, end: bool = False) -> HttpHeaders:
    return HttpHeaders(headers=HeaderMap(headers=values), end_of_stream=end)


def raw(key: str, value: bytes) -> HeaderValue:
    return HeaderValue(key=key, raw_value=value)


def first(**members: Any) -> First:
    members.setdefault("request_headers", headers(raw(":path", b"/mcp")))
    decoded = decode_first(ProcessingRequest(**members).SerializeToString())
    assert isinstance(decoded, First)
    return decoded


def test_header_values_keep_every_byte_and_names_are_lower_case() -> None:
    every = bytes(range(256))
    data = ProcessingRequest(request_headers=headers(raw("X-Bytes", every), end=True)).SerializeToString()
    event = decode(data)
    assert event == HeadersArrived(Side.REQUEST, (("x-bytes", every.decode("latin-1")),), True)
    assert isinstance(event, HeadersArrived)
    assert event.headers[0][1].encode("latin-1") == every


def test_value_counts_where_raw_value_is_empty_byte_for_byte() -> None:
    data = ProcessingRequest(
        response_headers=headers(
            HeaderValue(key=":status", value="200"), HeaderValue(key="x-name", value="naïve"), raw("x", b"")
        )
    ).SerializeToString()
    assert decode(data) == HeadersArrived(
        Side.RESPONSE, ((":status", "200"), ("x-name", "naïve".encode().decode("latin-1")), ("x", ""))
    )


def test_repeated_headers_stay_apart_and_in_order() -> None:
    data = ProcessingRequest(request_headers=headers(raw("a", b"1"), raw("b", b"2"), raw("a", b"3")))
    event = decode(data.SerializeToString())
    assert event == HeadersArrived(Side.REQUEST, (("a", "1"), ("b", "2"), ("a", "3")))


@pytest.mark.parametrize(
    ("member", "event"),
    [
        ({"request_body": HttpBody(body=b"x", end_of_stream=True)}, BodyArrived(Side.REQUEST, b"x", True)),
        ({"response_body": HttpBody(body=b"\xff\x00")}, BodyArrived(Side.RESPONSE, b"\xff\x00", False)),
        ({"request_body": HttpBody(end_of_stream=True)}, BodyArrived(Side.REQUEST, b"", True)),
        ({"request_trailers": HttpTrailers()}, TrailersArrived(Side.REQUEST)),
        (
            {"response_trailers": HttpTrailers(trailers=HeaderMap(headers=[raw("Grpc-Status", b"0")]))},
            TrailersArrived(Side.RESPONSE, (("grpc-status", "0"),)),
        ),
    ],
)
def test_each_kind_of_message(member: dict[str, Any], event: object) -> None:
    assert decode(ProcessingRequest(**member).SerializeToString()) == event


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ProcessingMode.NONE, BodyMode.NONE),
        (ProcessingMode.STREAMED, BodyMode.STREAMED),
        (ProcessingMode.BUFFERED, BodyMode.BUFFERED),
        (ProcessingMode.BUFFERED_PARTIAL, BodyMode.BUFFERED_PARTIAL),
        (ProcessingMode.FULL_DUPLEX_STREAMED, BodyMode.FULL_DUPLEX),
    ],
)
def test_body_modes_come_from_the_protocol_configuration(mode: Any, expected: BodyMode) -> None:
    config = ProtocolConfiguration(request_body_mode=mode, response_body_mode=ProcessingMode.NONE)
    opening = first(protocol_config=config).opening
    assert (opening.request_mode, opening.response_mode) == (expected, BodyMode.NONE)


def test_without_a_protocol_configuration_the_modes_are_the_recommended_ones() -> None:
    assert first().opening == Opening(BodyMode.BUFFERED, BodyMode.NONE, Dialect.ENVOY, {}, "")


@pytest.mark.parametrize(
    ("header", "dialect"),
    [
        (HeaderValue(key=":method", raw_value=b"POST"), Dialect.ENVOY),
        (HeaderValue(key=":method", value="POST"), Dialect.AGENTGATEWAY),
        # Some peers fill both: the raw one decides.
        (HeaderValue(key=":method", value="POST", raw_value=b"POST"), Dialect.ENVOY),
        (HeaderValue(key="accept", value="a/b"), Dialect.ENVOY),
    ],
)
def test_pseudo_headers_tell_the_dialect(header: HeaderValue, dialect: Dialect) -> None:
    assert first(request_headers=headers(header)).opening.dialect is dialect


def test_the_first_message_may_be_a_body() -> None:
    data = ProcessingRequest(request_body=HttpBody(body=b"{}", end_of_stream=True)).SerializeToString()
    decoded = decode_first(data, "team")
    assert isinstance(decoded, First)
    assert decoded.event == BodyArrived(Side.REQUEST, b"{}", True)
    assert decoded.opening.profile == "team"


def test_attributes_are_flattened_to_text() -> None:
    message = ProcessingRequest(request_headers=headers())
    message.attributes[ATTRIBUTES_NAMESPACE].update(
        {
            "sub": "user-1",
            "level": 42,
            "share": 0.25,
            "admin": True,
            "guest": False,
            "nothing": None,
            "roles": ["a", 2, None, {"x": [True]}],
            "jwt": {"realm": {"id": "r"}},
        }
    )
    message.attributes["some.other.filter"].update({"sub": "somebody else"})
    decoded = decode_first(message.SerializeToString())
    assert isinstance(decoded, First)
    assert decoded.opening.attributes == {
        "sub": "user-1",
        "level": "42",
        "share": "0.25",
        "admin": "true",
        "guest": "false",
        "roles": '["a","2",null,{"x":["true"]}]',
        "jwt.realm.id": "r",
    }


def test_verified_metadata_is_an_attribute_under_its_namespace() -> None:
    message = ProcessingRequest(request_headers=headers())
    metadata = message.metadata_context.filter_metadata["envoy.filters.http.jwt_authn"]
    metadata.update({"payload": {"sub": "user-1", "iat": 1_700_000_000}})
    decoded = decode_first(message.SerializeToString())
    assert isinstance(decoded, First)
    assert decoded.opening.attributes == {
        "metadata:envoy.filters.http.jwt_authn:payload.sub": "user-1",
        "metadata:envoy.filters.http.jwt_authn:payload.iat": "1700000000",
    }


def test_a_claim_cannot_pose_as_another_one() -> None:
    message = ProcessingRequest(request_headers=headers())
    metadata = message.metadata_context.filter_metadata["jwt"]
    metadata.update({"payload.sub": "victim", "payload": {"sub": "attacker"}, "iss": "i"})
    decoded = decode_first(message.SerializeToString())
    assert isinstance(decoded, First)
    assert decoded.opening.attributes == {"metadata:jwt:iss": "i"}


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (ProcessingRequest(), "neither"),
        (ProcessingRequest(request_headers=headers(), observability_mode=True), "observability"),
        (
            ProcessingRequest(
                request_headers=headers(),
                protocol_config=ProtocolConfiguration(request_body_mode=ProcessingMode.GRPC),
            ),
            "body mode",
        ),
    ],
)
def test_what_no_event_can_be_made_of_is_a_value(message: ProcessingRequest, word: str) -> None:
    decoded = decode_first(message.SerializeToString())
    assert isinstance(decoded, Malformed)
    assert word in decoded.reason


def test_a_body_mode_of_the_future_is_malformed() -> None:
    future = bytes.fromhex("1200" + "5a02" + "0809")
    assert isinstance(decode_first(future), Malformed)


def test_unknown_fields_are_skipped() -> None:
    data = ProcessingRequest(request_body=HttpBody(body=b"x")).SerializeToString()
    assert decode(data + bytes.fromhex("fa3f03616263")) == BodyArrived(Side.REQUEST, b"x", False)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_malformed(data: bytes) -> None:
    for decoded in (decode(data), decode_first(data)):
        assert isinstance(decoded, Malformed | First | HeadersArrived | BodyArrived | TrailersArrived)
    if isinstance(decode(data), Malformed):
        assert isinstance(decode_first(data), Malformed)


def test_deep_metadata_does_not_exhaust_the_stack() -> None:
    message = ProcessingRequest(request_headers=headers())
    struct = message.metadata_context.filter_metadata["n"]
    for _ in range(30):
        struct = struct.fields["a"].struct_value
    struct.fields["b"].string_value = "x"
    decoded = decode_first(message.SerializeToString())
    assert isinstance(decoded, First)
    assert [*decoded.opening.attributes.values()] == ["x"]
