"""One result out of several."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.rewriter import batch, rpc
from extproc.rewriter.batch import Answered, Broken


def call(revision: str = "2025-06-18") -> rpc.Rpc:
    return rpc.Rpc(b'"x"', "tools/call", {}, {}, revision)


def result(*blocks: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"content": list(blocks), **more}).encode()


def merged(*entries: Any, tokens: int = 25_000, revision: str = "2025-06-18") -> dict[str, Any]:
    answer = json.loads(batch.merge(call(revision), entries, tokens))
    assert answer["id"] == "x"
    return answer["result"]


TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def test_blocks_keep_their_kind_and_order() -> None:
    found = merged(Answered("a", result(TEXT, IMAGE)), Answered("b", result(TEXT)))
    assert [block.get("text", block["type"]) for block in found["content"]] == [
        "Call 1 of 2, a: ok",
        "hello",
        "image",
        "Call 2 of 2, b: ok",
        "hello",
    ]
    assert "isError" not in found


def test_structured_content_is_kept_for_each_entry() -> None:
    found = merged(Answered("a", result(structuredContent={"n": 1.5})), Broken("b", "timeout"))
    assert found["structuredContent"]["results"] == [
        {"name": "a", "isError": False, "structuredContent": {"n": 1.5}},
        {"name": "b", "isError": True},
    ]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_older_revisions_get_no_structured_content(revision: str) -> None:
    assert "structuredContent" not in merged(Answered("a", result(structuredContent={})), revision=revision)


def test_an_error_stays_with_its_entry_and_is_one_only_when_all_are() -> None:
    failed = Answered("a", result(TEXT, isError=True))
    assert "isError" not in merged(failed, Answered("b", result(TEXT)))
    assert merged(failed, Broken("b", "gone"))["isError"] is True


def test_too_much_is_cut_entry_by_entry_with_a_note() -> None:
    long = {"type": "text", "text": "ė" * 4_000}
    found = merged(Answered("a", result(long)), Answered("b", result(TEXT)), tokens=500)
    texts = [block["text"] for block in found["content"]]
    assert "cut" in texts[1]
    assert texts[1].startswith("ė")
    assert texts[3] == "hello"
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 4 * 500 + 600


def test_what_a_short_entry_leaves_a_later_one_may_use() -> None:
    found = merged(
        Answered("a", result(TEXT)), Answered("b", result({"type": "text", "text": "x" * 1_500})), tokens=500
    )
    assert found["content"][3]["text"] == "x" * 1_500


@pytest.mark.parametrize("raw", [b"[]", b"null", b'{"content":7}', b"{"])
def test_results_that_cannot_be_read(raw: bytes) -> None:
    found = merged(Answered("a", raw), Answered("b", result(TEXT)))
    assert "could not be read" in found["content"][1]["text"]


def test_a_tool_that_asks_for_input_is_pointed_to_the_single_call() -> None:
    found = merged(
        Answered("a", result(resultType="input_required", inputRequests={})), revision="2026-07-28"
    )
    assert "call it alone" in found["content"][1]["text"]
    assert found["resultType"] == "complete"
