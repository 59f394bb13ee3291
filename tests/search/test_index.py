from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from extproc.catalog.model import Catalogue
from extproc.search import Caches, EmbedderError, Engine, ToolIndex, UnknownServer
from extproc.search.match import Matcher
from extproc.search.words import Analyzer
from extproc.settings import Search
from tests.search.support import Broken, Pieces, WholeTexts, catalogue, office, tool

ENGINES = {
    "words": Engine(),
    "whole texts": Engine(WholeTexts()),
    "pieces": Engine(Pieces()),
    "rrf": Engine(Pieces(), Search(fusion="rrf")),
}
each_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())


def names(index: ToolIndex, query: str, k: int = 5, server: str | None = None) -> list[str]:
    return [hit.tool.name for hit in index.search(query, k, server)]


@each_engine
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("open a new issue in the repository", "github__create_issue"),
        ("closing issues", "github__close_issue"),
        ("weather forecast for a city", "weather__get_forecast"),
        ("delte mesage", "mail__delete_message"),
        ("getForecast", "weather__get_forecast"),
    ],
)
def test_the_right_tool_comes_first(engine: Engine, query: str, first: str) -> None:
    assert names(ToolIndex.build(office(), engine), query)[0] == first


@each_engine
@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_catalogues(engine: Engine, size: int) -> None:
    tools = [tool("alpha_one", "Sends a parcel."), tool("beta_two", "Waters the plants.")][:size]
    index = ToolIndex.build(catalogue(*tools), engine)
    assert names(index, "send a parcel")[:1] == ["alpha_one"][:size]
    assert [hit.exact for hit in index.search("beta_two", 5)][:1] == [True][: size - 1]
    assert index.search("", 5) == []
    for hit in index.search("send a parcel", 5):
        assert np.isfinite(hit.score)


@each_engine
@pytest.mark.parametrize("query", ["", "   ", "!!! ???", "\x00", "the of and", "\ud800", "\u200b" * 50, "🙂"])
def test_queries_that_say_nothing(engine: Engine, query: str) -> None:
    hits = ToolIndex.build(office(), engine).search(query, 5)
    assert all(hit.score > 0 or not hit.exact for hit in hits)
    if engine.embedder is None:
        assert hits == []


def test_nonsense_finds_nothing() -> None:
    index = ToolIndex.build(office(), Engine(Pieces()))
    assert index.search("qwrtzp", 5) == []


@each_engine
def test_a_query_of_ten_kilobytes_is_answered(engine: Engine) -> None:
    index = ToolIndex.build(office(), engine)
    assert "weather__get_forecast" in names(index, "weather forecast " + "x y z. " * 1500)
    assert len(index.search("issue " * 100_000, 3)) <= 3


@each_engine
def test_named_tools_come_first_and_are_marked(engine: Engine) -> None:
    index = ToolIndex.build(office(), engine)
    hits = index.search("call mail__delete_message about the weather forecast", 5)
    assert hits[0].tool.name == "mail__delete_message"
    assert [hit.exact for hit in hits[:2]] == [True, False]
    assert names(index, "weather__current")[0] == "weather__current"
    assert names(index, "Create Issue")[0] == "github__create_issue"
    near = index.search("weather__curent", 5)[0]
    assert (near.tool.name, near.exact) == ("weather__current", False)


@each_engine
def test_never_more_than_asked_and_no_tool_twice(engine: Engine) -> None:
    index = ToolIndex.build(office(), engine)
    assert names(index, "message", 0) == names(index, "message", -1) == []
    for k in (1, 2, 5, 100):
        found = names(index, "message issue weather send_message", k)
        assert len(found) <= k
        assert len(set(found)) == len(found)


@each_engine
def test_one_server_only(engine: Engine) -> None:
    index = ToolIndex.build(office(), engine)
    assert index.servers() == ("github", "mail", "weather")
    found = names(index, "message about an issue", 9, "mail")
    assert found
    assert all(name.startswith("mail__") for name in found)
    with pytest.raises(UnknownServer) as caught:
        index.search("anything", 5, "calendar")
    assert caught.value.servers == ("github", "mail", "weather")


@pytest.mark.parametrize("engine", [Engine(WholeTexts()), Engine(Pieces())], ids=["whole", "pieces"])
def test_meaning_is_found_without_a_common_word(engine: Engine) -> None:
    assert names(ToolIndex.build(office(), engine), "wetter", 1)[0].startswith("weather__")


def test_parts_of_a_long_query_are_searched_by_themselves() -> None:
    index = ToolIndex.build(office(), Engine(Pieces()))
    query = (
        "We had a long meeting about budgets and holidays and the new kitchen on the third floor today. "
        "List the branches of the repository. After lunch some of us went on talking about rents and chairs."
    )
    assert names(index, query, 1) == ["github__list_branches"]


def test_only_tables_of_pieces_are_asked_word_by_word() -> None:
    whole = WholeTexts()
    index = ToolIndex.build(office(), Engine(whole))
    whole.asked.clear()
    index.search("Send an e-mail to Anna. List the branches of the repository.", 5)
    assert whole.asked == ["Send an e-mail to Anna. List the branches of the repository."]


def test_several_queries_have_their_own_rankings_and_common_tools_once() -> None:
    index = ToolIndex.build(office(), Engine(Pieces()))
    queries = ["send a message", "delete a message", "weather alerts"]
    answers = index.search_many(queries, 3)
    for query, ranking in zip(queries, answers.rankings, strict=True):
        assert [hit.tool.name for hit in ranking] == names(index, query, 3)
    merged = [hit.tool.name for hit in answers.hits]
    assert len(merged) == len(set(merged))
    assert set(merged) == {hit.tool.name for ranking in answers.rankings for hit in ranking}
    assert merged[:3] == [ranking[0].tool.name for ranking in answers.rankings]
    assert index.search_many([], 3).hits == ()


@each_engine
def test_a_subset_shares_the_index_and_shows_nothing_else(engine: Engine) -> None:
    whole = ToolIndex.build(office(), engine)
    own = Catalogue.of(t for t in office() if not t.name.startswith("github__"))
    index = whole.subset(own)
    assert index is not None
    assert index.catalogue is own
    assert index.servers() == ("mail", "weather")
    assert index.nbytes < whole.nbytes / 2
    allowed = {t.name for t in own}
    for query in ("create issue", "github__create_issue", "list branches of a repository", "send message"):
        assert set(names(index, query, 9)) <= allowed
    assert not any(hit.exact for hit in index.search("github__create_issue", 9))
    assert names(index, "github__create_issue storm and flood warnings")[0] == "weather__get_alerts"
    with pytest.raises(UnknownServer) as caught:
        index.search("issue", 5, "github")
    assert "github" not in caught.value.servers


def test_words_of_hidden_tools_do_not_count_as_known() -> None:
    whole = ToolIndex.build(office())
    index = whole.subset(Catalogue.of(t for t in office() if t.name.startswith("mail__")))
    assert index is not None
    assert index.search("branches", 5) == []
    assert all("branch" not in word for hit in index.explain("brances messages", 5) for _, word in hit.words)


def test_known_words_are_those_of_the_chosen_tools() -> None:
    analyzer = Analyzer()
    matcher = Matcher([[analyzer.tokens(text), [], [], [], []] for text in ("alpha parcel", "beta garden")])
    asked = analyzer.asked("parcel gardne")
    assert matcher.match(asked).known > 0.8
    only_first = np.array([True, False])
    match = matcher.match(asked, only_first)
    assert match.known == 0.5
    assert [each.asked.text for each in match.found if each.terms] == ["parcel"]


def test_a_changed_or_foreign_tool_is_no_subset() -> None:
    whole = ToolIndex.build(office())
    assert whole.subset(catalogue(tool("weather__current", "changed"))) is None
    assert whole.subset(catalogue(tool("new__tool"))) is None
    assert whole.subset(catalogue()) is not None


def test_a_subset_of_a_subset() -> None:
    whole = ToolIndex.build(office(), Engine(Pieces()))
    mail = Catalogue.of(t for t in office() if t.name.startswith("mail__"))
    first = whole.subset(mail)
    assert first is not None
    second = first.subset(Catalogue.of(mail.tools[:1]))
    assert second is not None
    assert names(second, "send search delete a message", 9) == [mail.tools[0].name]
    assert first.subset(office()) is None


@each_engine
def test_the_same_search_gives_the_same_hits(engine: Engine) -> None:
    fresh = replace(engine, caches=Caches())
    for query in ("message", "issue in a repository", "storm", "wetter", "mesage"):
        first = ToolIndex.build(office(), engine).search(query, 9)
        assert first == ToolIndex.build(office(), fresh).search(query, 9)


def test_equal_tools_keep_the_order_of_their_names() -> None:
    class Flat(WholeTexts):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.full((len(texts), self.dimension), self.dimension**-0.5, np.float32)

    twins = [tool(f"server{i}__ping", "Ping a host.") for i in (3, 1, 2)]
    for engine in (Engine(), Engine(Flat()), Engine(Flat(), Search(fusion="rrf"))):
        found = names(ToolIndex.build(catalogue(*twins), engine), "ping a host")
        assert found == ["server1__ping", "server2__ping", "server3__ping"]


def test_searches_from_many_threads_agree() -> None:
    engine = Engine(Pieces())
    index = ToolIndex.build(office(), engine)
    queries = ["delte mesage", "wetter", "close issue", "forecast", "paieška oras", "list branches"] * 20
    expected = [names(index, query) for query in queries]
    wrong: list[str] = []

    def work() -> None:
        own = ToolIndex.build(office(), engine)
        wrong.extend(
            q
            for q, want in zip(queries, expected, strict=True)
            if names(own, q) != want or names(index, q) != want
        )

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_embedder_that_fails_leaves_the_words() -> None:
    told: list[EmbedderError] = []
    index = ToolIndex.build(office(), Engine(Broken(), on_failure=told.append))
    assert len(told) == 1
    assert not index.dense
    assert names(index, "close issue")[0] == "github__close_issue"
    later = ToolIndex.build(office(), Engine(Broken(after=1), on_failure=told.append))
    assert later.dense
    assert later.search("close issue", 5) == ToolIndex.build(office()).search("close issue", 5)
    assert len(told) == 2


@pytest.mark.parametrize("shape", [(3, 256), (9, 8), (0, 256)])
def test_an_embedder_that_gives_nonsense_counts_as_failed(shape: tuple[int, int]) -> None:
    class Wrong(WholeTexts):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.zeros(shape, np.float32)

    class NotFinite(WholeTexts):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.full((len(texts), self.dimension), np.nan, np.float32)

    for embedder in (Wrong(), NotFinite()):
        told: list[EmbedderError] = []
        index = ToolIndex.build(office(), Engine(embedder, on_failure=told.append))
        assert len(told) == 1
        assert names(index, "close issue")[0] == "github__close_issue"


def test_known_texts_are_not_embedded_again() -> None:
    embedder = Pieces()
    engine = Engine(embedder)
    ToolIndex.build(office(), engine)
    embedder.asked.clear()
    more = Catalogue.of([*office().tools, tool("new__tool", "Something else")])
    ToolIndex.build(more, engine)
    assert embedder.asked
    assert not any("issue" in text.lower() for text in embedder.asked)


def test_explain_gives_the_ranking_and_its_reasons() -> None:
    index = ToolIndex.build(office(), Engine(Pieces()))
    found = index.explain("closing the isue", 5)
    assert [each.hit for each in found] == index.search("closing the isue", 5)
    first = found[0]
    assert first.rank == 1
    assert ("isue", "issu") in first.words
    assert first.fields["name"] > 0
    assert sum(first.fields.values()) <= first.lexical + 1e-4
    assert first.cosine is not None
    assert 0 < first.gate <= 0.3
    assert ToolIndex.build(office()).explain("closing", 1)[0].cosine is None


def test_the_gate_closes_for_a_query_of_unknown_words() -> None:
    index = ToolIndex.build(office(), Engine(Pieces()))
    assert index.explain("wetter", 1)[0].gate == 0
    assert index.explain("forecast", 1)[0].gate > 0.2


def test_words_are_trusted_without_a_name_when_all_are_known_and_one_tool_has_them() -> None:
    plain = [tool(f"work__task_{place}", f"does a common task of kind {place}") for place in range(120)]
    vault = tool("work__turn", "rotate the encryption keys of a vault")
    index = ToolIndex.build(catalogue(*plain, vault), Engine(Pieces()))

    def gate(query: str) -> float:
        first = index.explain(query, 1)[0]
        assert first.hit.tool.name == "work__turn"
        return first.gate

    assert gate("rotate encryption keys vault") == pytest.approx(0.3)
    assert gate("rotate encryption keys gizmo") < 0.2


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.integers(1, 12))
def test_any_query_is_answered_in_order(query: str, k: int) -> None:
    for index in (_WORDS, _PIECES):
        hits = index.search(query, k)
        assert len(hits) <= k
        unnamed = [hit.score for hit in hits if not hit.exact]
        assert all(np.isfinite(unnamed))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=30), st.text(max_size=80)), max_size=12),
    st.text(max_size=60),
)
def test_any_catalogue_is_indexed(entries: list[tuple[str, str]], query: str) -> None:
    found = Catalogue.of(tool(name, description) for name, description in entries if name.strip())
    for engine in (Engine(), Engine(Pieces())):
        index = ToolIndex.build(found, engine)
        assert len(index.search(query, 20)) <= len(found)
        for each in found:
            if each.name.strip("_-./: \t\n'\"`"):
                assert index.nbytes > 0
                break


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"null",
        b"[1]",
        b'{"properties":[]}',
        b'{"properties":{"a":1,"b":{"description":5}}}',
        b"{" * 5000,
    ],
)
def test_odd_schemas_are_tools_without_parameters(schema: bytes) -> None:
    odd = replace(tool("alpha", "Sends a parcel."), input_schema=schema)
    assert names(ToolIndex.build(Catalogue.of([odd])), "parcel") == ["alpha"]


_WORDS = ToolIndex.build(office())
_PIECES = ToolIndex.build(office(), Engine(Pieces()))


def test_a_word_that_is_kept_keeps_nothing_of_its_query() -> None:
    """A view of the query's rows would hold them all, though only its own bytes are counted."""
    embedder = Pieces()
    engine = Engine(embedder)
    index = ToolIndex.build(office(), engine)
    index.search("zebrafishes " + " ".join(f"{letter * 60}" for letter in "abcdefgh"), 3)
    kept = engine.caches.asked.get((embedder.name, "zebrafishes"))
    assert kept is not None
    assert kept.row.base is None
    assert engine.caches.asked.get((embedder.name, "a" * 60)) is None
