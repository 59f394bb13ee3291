"""Nearest names, from the caller's own catalogue only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.catalog.model import Catalogue
from extproc.catalog.parse import parse_tool
from extproc.rewriter.suggest import suggest
from extproc.settings import Tools


def catalogue(*names: str) -> Catalogue:
    tools = [parse_tool(json.dumps({"name": name}).encode(), Tools(), modern=False) for name in names]
    return Catalogue.of(tool for tool in tools if tool is not None)


OFFICE = catalogue(
    "files__read_file", "files__write_file", "mail__send_mail", "mail__list_mails", "crm__create_contact"
)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("read_file", "files__read_file"),
        ("files_read_file", "files__read_file"),
        ("FILES__READ_FILE", "files__read_file"),
        ("files.readFile", "files__read_file"),
        ("disk__read_file", "files__read_file"),
        ("mail__send_mial", "mail__send_mail"),
        ("createContact", "crm__create_contact"),
    ],
)
def test_the_one_that_is_clearly_meant(wrong: str, meant: str) -> None:
    assert suggest(wrong, OFFICE).meant == meant


def test_two_equal_candidates_are_both_named_and_neither_is_meant() -> None:
    both = catalogue("a__search", "b__search", "c__other")
    found = suggest("search", both)
    assert set(found.names) == {"a__search", "b__search"}
    assert found.meant is None


@pytest.mark.parametrize("wrong", ["", "___", "completely_different_thing", "x" * 100_000, "日本語"])
def test_nothing_near(wrong: str) -> None:
    assert suggest(wrong, OFFICE).names == ()


def test_an_empty_catalogue() -> None:
    assert suggest("anything", catalogue()).names == ()


@given(st.text(max_size=40))
def test_only_names_of_the_catalogue_come_back(wrong: str) -> None:
    found = suggest(wrong, OFFICE)
    assert set(found.names) <= {tool.name for tool in OFFICE}
    assert found.meant is None or found.meant in found.names
