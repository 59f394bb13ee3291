"""The parts of the training that decide what the shipped table is made of."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from training import formats
from training.export import choose, quantise
from training.sources import PACKAGES, SOURCES
from training.text import clean, is_pair, language, noisy, strip_diacritics


def test_gettext_leaves_out_fuzzy_obsolete_and_untranslated_entries() -> None:
    data = """msgid ""
msgstr "header"

msgid "Save "
"file"
msgstr "Išsaugoti failą"

#, fuzzy
msgid "Wrong"
msgstr "Blogai"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d failas"
msgstr[1] "%d failai"

msgid "Empty"
msgstr ""

#~ msgid "Old"
#~ msgstr "Senas"
""".encode()
    assert formats.gettext(data) == {"Save file": "Išsaugoti failą", "%d file": "%d failas"}


@pytest.mark.parametrize("version", [4, 5])
def test_a_chromium_pack(version: int) -> None:
    texts = {7: "Open", 9: "žodis"}
    head = struct.pack("<IIB", 4, 2, 1) if version == 4 else struct.pack("<IBxxxHH", 5, 1, 2, 0)
    at = len(head) + 6 * 3
    table, body = b"", b""
    for key, text in texts.items():
        table += struct.pack("<HI", key, at + len(body))
        body += text.encode()
    table += struct.pack("<HI", 0, at + len(body))
    assert formats.chromium_pak(head + table + body) == {"7": "Open", "9": "žodis"}


def test_an_unknown_chromium_pack_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="version 3"):
        formats.chromium_pak(struct.pack("<I", 3))


def test_properties_and_nested_json() -> None:
    assert formats.properties(b"A_B = Klaid\\u0117\n# note\nC=x") == {"A_B": "Klaidė", "C": "x"}
    assert formats.nested_json(b'{"a": {"b": "x", "c": ["y", "z"], "n": 1}, "@metadata": {"d": "q"}}') == {
        ".a.b": "x",
        ".a.c": "y, z",
    }


@pytest.mark.parametrize(
    ("code", "folded"),
    [
        ("pt-BR", "pt"),
        ("_lt", "lt"),
        ("zh_TW", "zh-hant"),
        ("zh-Hans-CN", "zh"),
        ("iw", "he"),
        ("en-GB", None),
        ("sr@latin", None),
        ("", None),
        ("qps-ploc", "qps"),
    ],
)
def test_language_codes(code: str, folded: str | None) -> None:
    assert language(code) == folded


def test_cleaning() -> None:
    assert clean("Cop&y <b>{name}</b> to [the page](http://x) …") == "Copy to the page"
    assert clean("{n, plural, one {# file} other {# files}} found") == "files found"
    assert not is_pair("ru", "Open file", "Open the file")
    assert not is_pair("lt", "Save", "save")
    assert is_pair("lt", "Save", "Išsaugoti")


def test_noise_is_seeded_and_uses_other_forms() -> None:
    forms = {"failas": ["failo"], "naujas": ["naujo"]}
    copies = {noisy("Naujas failas", random.Random(seed), forms) for seed in range(60)}
    assert any("failo" in copy for copy in copies)
    assert noisy("Naujas failas", random.Random(5), forms) == noisy("Naujas failas", random.Random(5), forms)
    assert strip_diacritics("žąsis й が") == "zasis й が"


def test_quantised_rows_stay_close_and_within_four_bits() -> None:
    table = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32)
    table[3] = 0
    rows, scale = quantise(table, 4)
    assert np.abs(rows).max() <= 7
    assert np.abs(rows * scale[:, None] - table).max() <= 0.51 * np.abs(table).max() / 7
    assert not rows[3].any()


def test_pieces_that_spell_any_word_are_kept() -> None:
    text = ["<s>", "<pad>", "</s>", "<unk>", "often", "a", "b", "seldom", "never"]
    assert choose(text, np.array([0, 0, 0, 0, 9.0, 0, 0, 2, 1]), 7).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_every_package_states_version_and_a_permissive_licence() -> None:
    permissive = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "WordNet-3.0"}
    assert {package.licence for package in PACKAGES} <= permissive
    assert all(package.version for package in PACKAGES)
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)
    assert all("lang" in source.pattern.groupindex for source in SOURCES)


def test_training_brings_translations_together_and_repeats_itself() -> None:
    pytest.importorskip("scipy", reason="the extra training is not installed")
    from training.table import Plan, Sides, Task, train
    from training.vocabulary import Bags

    rng = np.random.default_rng(0)
    count, width = 60, 16
    english = Bags(np.arange(4, 4 + count, dtype=np.int32), np.arange(count + 1))
    other = Bags(np.arange(100, 100 + count, dtype=np.int32), np.arange(count + 1))
    pairs = np.stack([np.arange(count), np.arange(count)], axis=1)
    task = Task(Sides(english, english), Sides(other, other), pairs, np.full(count, -1), np.ones(count))
    target = rng.standard_normal((count, width)).astype(np.float32)
    target /= np.linalg.norm(target, axis=1, keepdims=True)

    def run() -> np.ndarray:
        start = 0.1 * np.random.default_rng(1).standard_normal((200, width)).astype(np.float32)
        return train(start, task, target, Plan(steps=150, batch=32, solo=16, rate=0.05))

    table = run()
    rows = table / np.linalg.norm(table, axis=1, keepdims=True)
    assert (
        np.argmax(rows[4 : 4 + count] @ rows[100 : 100 + count].T, axis=1) == np.arange(count)
    ).mean() > 0.95
    assert float(np.einsum("ij,ij->i", rows[100 : 100 + count], target).mean()) > 0.8
    assert np.array_equal(table, run())
