"""``eval`` and ``search`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extproc.cli import main

TOOLS = [
    {
        "name": "shop__refund_order",
        "description": "Return money for an order.",
        "inputSchema": {"type": "object"},
    },
    {"name": "shop__list_orders", "description": "List orders of a customer."},
    {"name": "mail__send", "description": "Send an e-mail."},
]
NEEDS = [
    {
        "query": "return the money for an order",
        "relevant": ["shop__refund_order"],
        "lang": "en",
        "kind": "plain",
    },
    {"query": "send an email", "relevant": ["mail__send"], "lang": "en", "kind": "short", "split": "test"},
    {"query": "xyzzy", "relevant": ["shop__list_orders"]},
]
KEYS = ["n", "recall@1", "recall@5", "recall@10", "hit@1", "hit@5", "mrr@10", "ndcg@10", "p50_ms", "build_ms"]


def lines(path: Path, entries: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(json.dumps(entry) for entry in entries) + "\n\n", "utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    tools = lines(tmp_path / "tools.jsonl", TOOLS)  # type: ignore[arg-type]
    needs = lines(tmp_path / "needs.jsonl", NEEDS)  # type: ignore[arg-type]
    return ["--catalog", str(tools), "--queries", str(needs), "--embedder", "none"]


def test_eval_prints_the_agreed_object(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS
    assert found["n"] == 3
    assert found["recall@1"] == pytest.approx(2 / 3, abs=1e-6)
    assert found["mrr@10"] == pytest.approx(2 / 3, abs=1e-6)


def test_eval_prints_tables_by_kind_and_language_and_the_misses(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", *files, "--misses"]) == 0
    out = capsys.readouterr().out
    for word in ("all", "kind", "plain", "short", "language", "en", "xyzzy", "wanted shop__list_orders"):
        assert word in out
    assert "wanted mail__send" not in out


def test_eval_of_one_split(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", *files, "--json", "--split", "test"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 1
    assert main(["eval", *files, "--split", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"query": "x"}', "needs.jsonl:1: 'relevant' must be a list"),
        ('{"relevant": ["a"]}', "needs.jsonl:1: 'query' must be a string"),
        ('{"query": "x", "relevant": []}', "at least one"),
        ("[1, 2]", "needs.jsonl:1: a JSON object is needed"),
        ('\n{"query": ', "needs.jsonl:2: not JSON"),
        ("", "no queries"),
        ('{"query": "x", "relevant": ["gone"]}', "not in the catalogue: gone"),
    ],
)
def test_bad_query_files_are_named_by_line(
    files: list[str], text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files[3]).write_text(text, "utf-8")
    assert main(["eval", *files]) == 2
    assert said in capsys.readouterr().err


def test_missing_files_and_bad_weights(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--catalog", "/no/such/file", *files[2:]]) == 2
    assert "/no/such/file" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["eval", *files, "--lexical-weight", "2"])
    assert ended.value.code == 2
    assert "0 to 1" in capsys.readouterr().err


def test_search_prints_a_ranking(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    search = ["search", *files[:2], "--embedder", "none"]
    assert main([*search, "refund an order", "--explain"]) == 0
    out = capsys.readouterr().out
    assert out.index("shop__refund_order") < out.index("shop__list_orders")
    assert "words: refund" in out
    assert "name " in out
    assert main([*search, "order", "--server", "mail"]) == 1
    assert "nothing matched" in capsys.readouterr().out
    assert main([*search, "order", "--server", "bank"]) == 2
    assert "mail, shop" in capsys.readouterr().err
    assert main([*search, "order", "-k", "0"]) == 2


def test_a_saved_tools_list_answer_is_a_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, whole in enumerate(
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}, {"tools": TOOLS}, TOOLS)
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(whole, indent=1), "utf-8")
        assert main(["search", "--catalog", str(path), "--embedder", "none", "refund"]) == 0
        assert "shop__refund_order" in capsys.readouterr().out


def test_lines_that_are_no_tools_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lines(tmp_path / "tools.jsonl", [*TOOLS, {"description": "no name"}])  # type: ignore[list-item]
    assert main(["search", "--catalog", str(path), "--embedder", "none", "refund"]) == 0
    assert "1 entries are no usable tools" in capsys.readouterr().err


def test_an_unknown_embedder_is_refused(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", *files[:2], "--embedder", "no-such-model", "x"]) == 2
    assert "no-such-model" in capsys.readouterr().err


def test_a_url_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--url", "localhost:1", "--embedder", "none", "x"]) == 1
    assert "http://" in capsys.readouterr().err
