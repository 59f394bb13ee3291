"""What tells two callers apart: attributes, credential headers, sessions, and where they ask."""

from __future__ import annotations

import pytest

from extproc.catalog.caller import CallerKey, caller_key, credentials
from extproc.exchange.messages import Headers
from extproc.settings import Caller

BOTH = Caller(attributes=("sub", "tenant"))
TOKEN: Headers = (("authorization", "Bearer a"),)
PLACE = ("", "gateway.test", "/mcp")


def key(
    headers: Headers = (),
    attributes: dict[str, str] | None = None,
    *,
    settings: Caller = BOTH,
    session: str | None = None,
    place: tuple[str, str, str] = PLACE,
    modern: bool = False,
) -> CallerKey | None:
    given = credentials(settings, headers, attributes or {})
    return caller_key(settings, b"secret", place, given, session, modern=modern)


def test_with_both_configured_an_attribute_stands_for_the_token() -> None:
    ann = key(TOKEN, {"sub": "ann"})
    assert key((("authorization", "Bearer refreshed"),), {"sub": "ann"}) == ann
    assert key((), {"sub": "ann"}) == ann
    assert key(TOKEN, {"sub": "bob"}) != ann
    assert key(TOKEN, {"sub": "ann", "tenant": "x"}) != ann
    assert key(TOKEN, {"other": "ann"}) == key(TOKEN) != ann


def test_without_an_attribute_the_headers_count() -> None:
    assert key(TOKEN) != key((("authorization", "Bearer b"),))
    assert key((*TOKEN, ("x-api-key", "k"))) == key((("x-api-key", "k"), *TOKEN)) != key(TOKEN)
    assert key((("authorization", ""),)) is None


@pytest.mark.parametrize(
    "place",
    [
        ("other", "gateway.test", "/mcp"),
        ("", "other.test", "/mcp"),
        ("", "gateway.test", "/mcp/other"),
        ("g", "ateway.test", "/mcp"),
    ],
)
def test_where_a_caller_asks_belongs_to_the_key(place: tuple[str, str, str]) -> None:
    assert key(TOKEN, place=place) != key(TOKEN)
    assert key(session="s", place=place) != key(session="s")


def test_neither_values_nor_kinds_run_into_each_other() -> None:
    keys = [
        key(TOKEN),
        key(TOKEN, modern=True),
        key((), {"sub": "Bearer a"}),
        key(session="Bearer a"),
        key((("x-api-key", "Bearer a"),)),
        key((), settings=Caller(anonymous="shared")),
        key((("authorization", "Bearer a13:authorization"),)),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key() is None


def test_every_text_has_a_key_of_its_own() -> None:
    texts = ["\udc80", "\udc81", "\\udc80", "é", "e\u0301", "a', 'b", "\0", "x" * 70_000, "x" * 70_001]
    keys = [key((), {"sub": text}) for text in texts]
    assert None not in keys
    assert len(set(keys)) == len(texts)
    assert keys == [key((), {"sub": text}) for text in texts]
