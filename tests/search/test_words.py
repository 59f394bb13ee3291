from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.search.words import Analyzer, clean, fold, split_identifier

analyzer = Analyzer()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create_issue", ["creat", "issu", "createissue"]),
        ("createIssue", ["creat", "issu", "createissue"]),
        ("getHTTPResponse2xx", ["get", "http", "respons", "2", "xx", "gethttpresponse2xx"]),
        ("list-all.files", ["list", "all", "file", "listallfiles"]),
        ("GitHub", ["git", "hub", "github"]),
        ("The files of a user", ["file", "user"]),
        ("", []),
        ("...", []),
        ("paieška", ["paieška", "paieska"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("PDF文件", ["pdf", "文件"]),
        ("พยากรณ์", ["พย", "ยา", "าก", "กร", "รณ", "ณ์"]),
        ("ស្វែង", ["ស្", "្វ", "វែ", "ែង"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert analyzer.tokens(text) == expected


def test_indic_words_keep_their_vowel_signs() -> None:
    assert analyzer.tokens("मौसम की जानकारी")[0] == "मौसम"


def test_lithuanian_inflections_share_a_stem() -> None:
    document = set(analyzer.tokens("Ieško dokumentų pagal pavadinimą"))
    for query in ("dokumentas", "dokumento", "dokumentai", "dokumentu"):
        forms = {form for word in analyzer.asked(query) for form in word.forms}
        assert forms & document, query


def test_lithuanian_stems_are_not_mistaken_for_english_words() -> None:
    assert not any(token.startswith("~") for token in analyzer.tokens("Search documents"))
    assert any(token.startswith("~") for token in analyzer.tokens("Paieška įrašų"))


def test_a_query_word_is_asked_once_and_numbers_stand_for_nothing_else() -> None:
    asked = analyzer.asked("issue issues ISSUE 2024")
    assert [word.text for word in asked] == ["issue", "issues", "2024"]
    assert not asked[-1].near


def test_foreign_function_words_stand_for_no_other_word() -> None:
    near = {word.text: word.near for word in analyzer.asked("eine Datei für mich")}
    assert not near["eine"]
    assert near["datei"]


def test_a_long_query_is_bounded() -> None:
    assert len(analyzer.asked(" ".join(f"word{chr(97 + i % 26)}{i}" for i in range(5000)))) <= 256


def test_fold_and_split() -> None:
    assert fold("Łódź Straße paieška") == "łodz Straße paieska".replace("ł", "Ł").replace("ß", "ss")
    assert split_identifier("getUserByID_v2") == "get User By ID v2"


@given(st.text(max_size=200))
def test_any_text_gives_tokens_without_spaces(text: str) -> None:
    for token in analyzer.tokens(text):
        assert token
        assert token == token.strip()
    analyzer.asked(text)


@given(st.text(st.characters(), max_size=50))
def test_clean_text_is_utf8(text: str) -> None:
    clean(text + "\ud800").encode("utf-8")
