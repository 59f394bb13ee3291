"""BM25 with one field agrees with rank-bm25, the reference implementation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from extproc.search.lexical import Idf, Lexical, Weights, name_shares

WORDS = [f"w{i}" for i in range(12)]
corpora = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), min_size=1, max_size=25)
queries = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=8)


class LuceneBM25(BM25Okapi):  # type: ignore[misc]
    """rank-bm25 with the idf of Lucene, which is above zero for every word."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        for word, n in nd.items():
            self.idf[word] = math.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5))


@settings(max_examples=150, deadline=None)
@given(corpora, queries, st.sampled_from([(1.2, 0.6), (1.5, 0.75), (0.9, 0.4)]))
@pytest.mark.parametrize(("idf", "peer"), [(Idf.OKAPI, BM25Okapi), (Idf.LUCENE, LuceneBM25)])
def test_one_field_agrees_with_rank_bm25(
    idf: Idf, peer: Any, corpus: list[list[str]], query: list[str], constants: tuple[float, float]
) -> None:
    k1, b = constants
    ours = Lexical([[document] for document in corpus], Weights((1.0,), (b,), k1, idf))
    theirs = peer(corpus, k1=k1, b=b, epsilon=0.25)
    np.testing.assert_allclose(ours.scores(query), theirs.get_scores(query), rtol=1e-5, atol=1e-5)


def test_every_matching_word_counts_for_something_in_tiny_catalogues() -> None:
    for size in (1, 2, 3):
        index = Lexical([[["alpha"]]] * size, Weights((1.0,), (0.6,)))
        assert (index.scores(["alpha"]) > 0).all()


def test_an_empty_catalogue_has_no_scores() -> None:
    index = Lexical([], Weights())
    assert index.scores(["anything"]).shape == (0,)


def test_empty_fields_change_nothing() -> None:
    one = Lexical([[["a", "b"]], [["b"]]], Weights((1.0,), (0.6,)))
    two = Lexical([[["a", "b"], []], [["b"], []]], Weights((1.0, 2.0), (0.6, 0.5)))
    np.testing.assert_array_equal(one.scores(["a", "b"]), two.scores(["a", "b"]))


def test_a_heavier_field_ranks_higher() -> None:
    index = Lexical([[["find"], ["x"]], [["x"], ["find"]]], Weights((1.5, 1.0), (0.5, 0.6)))
    first, second = index.scores(["find"])
    assert first > second > 0


def test_name_shares_add_up_to_one() -> None:
    names = [["create", "issue"], ["issue"], ["list", "all", "issue", "issue"]]
    vocabulary = {"create": 0, "issue": 1, "list": 2, "all": 3}
    shares = name_shares(names, vocabulary)
    total = np.zeros(3)
    for term in vocabulary.values():
        rows, share = shares.column(term)
        total[rows] += share
    np.testing.assert_allclose(total, 1, rtol=1e-6)
