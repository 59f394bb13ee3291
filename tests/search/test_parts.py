"""Look-alikes, names, servers, fusion, segments and caches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from extproc.search import Caches, Engine, ToolIndex
from extproc.search.cache import ByteCache
from extproc.search.dense import (
    FUNCTION_WORD,
    UNKNOWN_WORD,
    QueryWords,
    ToolWords,
    WordVector,
    nearest_part,
    product,
)
from extproc.search.fusion import best, reciprocal_rank, z_score
from extproc.search.match import Matcher
from extproc.search.measure import interval, measure
from extproc.search.names import Names
from extproc.search.near import Near
from extproc.search.segments import MOST_SEGMENTS, MOST_WORDS, Reading, content_words, first_sentence
from extproc.search.servers import detect_separator, rows_of_server, server_names, split_name
from extproc.search.words import Analyzer
from tests.search.support import Pieces, office

scores = arrays(
    np.float32, st.integers(0, 40), elements=st.floats(-100, 100, width=32).map(lambda x: round(x, 1))
)


@pytest.mark.parametrize("typo", ["adress", "addres", "adddress", "addrss"])
def test_a_typo_finds_the_word(typo: str) -> None:
    near = Near({"address": 4, "dress": 5, "branch": 6, "convert": 7})
    assert near.find(typo, 0.6, lambda _: True)[0][0] == 4


def test_likeness_is_the_dice_coefficient_of_pairs() -> None:
    # night: ^n ni ig gh ht t$, nacht: ^n na ac ch ht t$; three of six are common.
    ((term, likeness),) = Near({"night": 0}).find("nacht", 0.1, lambda _: True)
    assert term == 0
    assert likeness == pytest.approx(0.5)


def test_short_words_and_refused_words_are_no_look_alikes() -> None:
    near = Near({"list": 0, "lost": 1})
    assert near.find("lis", 0.1, lambda _: True) == ()
    assert [term for term, _ in near.find("lists", 0.1, lambda term: term != 0)] == [1]
    assert Near({}).find("anything", 0.1, lambda _: True) == ()


@pytest.mark.parametrize(
    ("names", "separator"),
    [
        (["github__create_issue", "mail__send"], "__"),
        (["files_read", "files_write", "mail_send", "mail_list"], "_"),
        (["a/x", "a/y", "b/z"], "/"),
        (["home.on", "home.off"], "."),
        (["get_weather", "get_forecast", "list_cities"], ""),
        (["create_issue", "search"], ""),
        (["search"], ""),
        ([], ""),
    ],
)
def test_the_separator_of_a_catalogue(names: list[str], separator: str) -> None:
    assert detect_separator(names) == separator


def test_servers_by_prefix() -> None:
    names = ["git-hub__a", "git-hub__b", "mail__c"]
    assert server_names(names, "__") == ("git-hub", "mail")
    assert rows_of_server(names, "Git-Hub", "__") == [0, 1]
    assert rows_of_server(names, "mail__", "__") == [2]
    assert rows_of_server(names, "git", "__") == [0, 1]
    assert rows_of_server(names, "gi", "__") == []
    assert rows_of_server(names, "  ", "__") == []
    assert split_name("mail__", "__") == ("", "mail__")


def test_named_tools() -> None:
    names = Names(
        ["github__create_issue", "gitlab__create_issue", "search"], ["create_issue", "create_issue", "search"]
    )
    assert names.named("github__create_issue") == {0: 0}
    assert names.named("GitHub create-issue") == {0: 0, 1: 1}
    assert names.named("create_issue") == {0: 1, 1: 1}
    assert names.named("use `create_issue` to open a ticket") == {0: 1, 1: 1}
    assert names.named("githb__create_issue") == {0: 2}
    assert names.named("search") == {2: 0}
    assert names.named("search for my issues") == {}
    assert names.named("") == {}


@given(scores)
def test_z_scores_have_mean_zero_and_deviation_one(values: np.ndarray) -> None:
    z = z_score(values)
    assert z.shape == values.shape
    if len(values) and values.std() > 0.01:
        assert abs(float(z.mean())) < 1e-2
        assert abs(float(z.std()) - 1) < 1e-2


@given(scores, st.integers(0, 50))
def test_best_is_a_stable_sort(values: np.ndarray, k: int) -> None:
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]
    assert best(values, k).tolist() == expected


def test_reciprocal_ranks_by_hand() -> None:
    fused = reciprocal_rank(np.array([3, 0, 1], np.float32), np.array([0.1, 0.9, 0.5], np.float32), 0.5)
    np.testing.assert_allclose(fused, [0.5 / 61 + 0.5 / 63, 0.5 / 61, 0.5 / 62 + 0.5 / 62], rtol=1e-6)


def parts_of(query: str) -> list[str]:
    reading = Reading.of(query)
    return [" ".join(reading.words[start:end]) for start, end in reading.parts]


def test_parts_begin_with_the_whole_query() -> None:
    assert parts_of("Find a hotel in Rome for May. Then mail getAddress to Anna.") == [
        "find a hotel in rome for may then mail get address to anna",
        "find a hotel in rome for may",
        "then mail get address to anna",
    ]
    assert parts_of("refund a payment") == ["refund a payment"]
    assert Reading.of("?!") == Reading((), ((0, 0),))
    assert parts_of("ดูหมายเลข किताब") == ["ดูหมายเลข किताब"]
    long = Reading.of("one two three four. " * 500)
    assert len(long.parts) <= MOST_SEGMENTS
    assert len(long.words) == MOST_WORDS


def test_a_long_sentence_becomes_windows() -> None:
    words = [f"w{i}" for i in range(30)]
    parts = parts_of(" ".join(words))
    assert all(any(word in part.split() for part in parts[1:]) for word in words)


def test_first_sentence_and_content_words() -> None:
    assert first_sentence("Send it. Then more.") == "Send it."
    assert first_sentence("v1.2 of it\nmore") == "v1.2 of it"
    assert len(first_sentence("x" * 1000)) == 200
    assert content_words("The getUserName of the user", 2) == ("get", "user")


def test_a_cache_drops_the_least_recently_used_and_never_exceeds_its_limit() -> None:
    cache: ByteCache[str, int] = ByteCache(100)
    cache.put_many([("a", 1, 40), ("b", 2, 40)])
    assert cache.get_many(["a"]) == [1]
    cache.put_many([("c", 3, 40), ("huge", 4, 1000)])
    assert cache.get_many(["a", "b", "c", "huge"]) == [1, None, 3, None]
    assert cache.nbytes == 80
    cache.put_many([("a", 5, 10)])
    assert cache.nbytes == 50
    assert cache.get_many(["a"]) == [5]


def test_measures_by_hand() -> None:
    got = measure(["x", "a", "y", "b"], ["a", "b", "c"])
    assert got["recall@1"] == 0
    assert got["recall@5"] == pytest.approx(2 / 3)
    assert got["hit@5"] == 1
    assert got["mrr@10"] == 0.5
    ideal = 1 + 1 / np.log2(3) + 1 / 2
    assert got["ndcg@10"] == pytest.approx((1 / np.log2(3) + 1 / np.log2(5)) / ideal)
    assert measure(["a"], ["a", "a"])["recall@1"] == 1
    assert interval([1.0]) == 0
    assert interval([0.0, 1.0] * 50) == pytest.approx(1.96 * np.sqrt(0.25 * 100 / 99 / 100))


@pytest.mark.parametrize("size", [500, 2000, 2003])
def test_best_of_many_scores_with_ties_is_a_stable_sort(size: int) -> None:
    scores = np.random.default_rng(size).integers(0, 40, size).astype(np.float32)
    for k in (1, 5, 32):
        assert best(scores, k).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


@pytest.mark.parametrize("few", [1, 3, 24])
def test_a_product_in_blocks_is_the_product(few: int) -> None:
    random = np.random.default_rng(few)
    rows, columns = (random.standard_normal((n, 256)).astype(np.float32) for n in (4001, few))
    np.testing.assert_allclose(product(rows, columns), rows @ columns.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(nearest_part(rows, columns), (rows @ columns.T).max(1), rtol=1e-4, atol=1e-4)


def asked(query: str, rows: np.ndarray) -> QueryWords:
    reading = Reading.of(query)
    return QueryWords(reading, tuple(dict.fromkeys(reading.words)), [WordVector.of(row) for row in rows])


def test_a_part_is_the_weighted_sum_of_its_words() -> None:
    found = asked("the red parcel", np.eye(3, dtype=np.float32)).weighed({"red": 0.2}).parts[0]
    expected = np.array([0.2, UNKNOWN_WORD, FUNCTION_WORD])
    np.testing.assert_allclose(found[[1, 2, 0]], expected / np.linalg.norm(expected), rtol=1e-5)


@pytest.mark.parametrize("query", ["red parcel box", "red parcel box red", "red box parcel. parcel box red."])
def test_every_word_of_a_part_counts_alike_whatever_its_length(query: str) -> None:
    directions = np.eye(3, 4, dtype=np.float32)
    words = ToolWords([["x"], ["y"], []], {"x": np.array([3, 0, 0, 4], np.float32), "y": directions[1]}, 4)
    expected = [(0.6**2 + 0 + 0) / 3, 1 / 3, 0]
    for lengths in ([1, 1, 1], [7, 0.5, 100]):
        vectors = asked(query, directions * np.array(lengths, np.float32)[:, None]).weighed({})
        np.testing.assert_allclose(words.likeness(vectors, np.arange(3)), expected, rtol=0.02)
        np.testing.assert_allclose(np.linalg.norm(vectors.parts, axis=1), 1, rtol=1e-6)


def test_a_query_of_nothing_known_is_like_nothing() -> None:
    vectors = asked("red parcel", np.zeros((2, 4), np.float32)).weighed({})
    assert not vectors.parts.any()
    words = ToolWords([["x"]], {"x": np.ones(4, np.float32)}, 4)
    assert words.likeness(vectors, np.arange(1)).tolist() == [0]


def test_a_word_of_every_tool_tells_nothing_apart() -> None:
    analyzer = Analyzer()
    texts = ("send a parcel", "send a letter", "send a card")
    matcher = Matcher([[analyzer.tokens(text), [], [], [], []] for text in texts])
    weights = matcher.weights(matcher.match(analyzer.asked("send one letter to pluto")))
    assert weights["send"] < weights["letter"] <= 1
    assert "pluto" not in weights


def _pairs(word: str) -> set[str]:
    whole = f"\n{word}\n"
    return {whole[i : i + 2] for i in range(len(whole) - 1)}


@given(st.lists(st.text("abc", min_size=4, max_size=9), min_size=1, max_size=30), st.text("abc", min_size=4))
def test_look_alikes_are_those_of_the_dice_coefficient(words: list[str], asked: str) -> None:
    known = {word: term for term, word in enumerate(dict.fromkeys(words))}
    mine = _pairs(asked)
    alike = [2 * len(mine & _pairs(word)) / (len(mine) + len(_pairs(word))) for word in known]
    near = sorted(range(len(alike)), key=lambda term: -alike[term])
    enough = [term for term in near if alike[term] >= 0.6 and alike[term] >= alike[near[0]] - 0.1]
    found = Near(known).find(asked, 0.6, lambda term: True)
    assert [term for term, _ in found] == enough[:3]
    assert [likeness for _, likeness in found] == pytest.approx([alike[term] for term in enough[:3]])


def test_sums_of_asked_words_are_kept_unless_they_look_like_data() -> None:
    engine = Engine(Pieces())
    assert engine.queries(["parcel " + "x" * 40]) is not None
    assert len(engine.caches.asked) == 1
    assert engine.caches.asked.get(("pieces", "parcel")) is not None


def test_words_of_queries_are_bounded_and_counted_in_bytes() -> None:
    caches = Caches(vectors=12 * 5_000)
    index = ToolIndex.build(office(), Engine(Pieces(), caches=caches))
    built = caches.nbytes
    index.search("zebra", 3)
    assert caches.nbytes > built
    for number in range(400):
        index.search(f"zebra{number:x}x", 3)
        assert 0 < caches.asked.nbytes <= 5_000
    assert caches.nbytes <= built + 5_000
