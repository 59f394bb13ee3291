"""Ids equal to those of the ``tokenizers`` package, which defines them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from extproc.embedders import default_folder
from extproc.embedders.normalise import UnsupportedTokenizer
from extproc.embedders.unigram import UnigramTokenizer, load_tokenizer
from tests.embedders.conftest import PIECES, small_tokenizer

DATA = Path(__file__).resolve().parent.parent / "data"
TEXTS = [
    "Create a pull request from the current branch",
    "getUserByID_v2 list-all-files HTTPServer.v1/do:it parseXMLFile ALLCAPS aB1cD2",
    "Sukurk naują kalendoriaus įvykį ir pakviesk dalyvius, žąsį ir ūkį",
    "Sukurk nauja kalendoriaus ivyki ir pakviesk dalyvius",
    "Überprüfe die Straßenverkehrsordnung, größte Änderung",
    "Où est le fichier ? L'année dernière, c'était déjà ça",
    "¿Dónde está el niño? Envía un mensaje al canal",
    "Zażółć gęślą jaźń, wyślij wiadomość",
    "Найди все открытые заявки в репозитории",
    "Знайди відкриті заявки їжак ґанок",
    "Βρες τα αρχεία ΟΔΥΣΣΕΥΣ σς Σ",
    "明日の東京の天気を調べてください。ファイルを削除する",
    "\u8bf7\u5217\u51fa\u6240\u6709\u672a\u8bfb\u90ae\u4ef6\u5e76\u53d1\u9001\u7ed9\u5f20\u4e09\uff0c\u7136\u540e\u521b\u5efa\u4e00\u4e2a\u65e5\u5386\u4e8b\u4ef6",
    "請列出所有未讀郵件",
    "이메일을 보내고 회의를 예약해 주세요",
    "ค้นหาไฟล์ทั้งหมดในโฟลเดอร์นี้",
    "ស្វែងរកឯកសារទាំងអស់",
    "ابحث عن جميع الملفات في المجلد",
    "מצא את כל הקבצים בתיקייה",
    "सभी फ़ाइलें खोजें और ईमेल भेजें",
    "সব ফাইল খুঁজুন",
    "அனைத்து கோப்புகளையும் தேடு",
    "ყველა ფაილის ძებნა",
    "Գտնել բոլոր ֆայլերը",
    "ፋይሎችን ፈልግ",
    "Tìm tất cả các tệp trong thư mục",
    "İstanbul'da hava nasıl? IĞDIR",
    "emoji \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1f1\U0001f1f9 \u2705 1\ufe0f\u20e3",
    "\ufb01 \ufb02 \u2460 \xbd \u2103 \u337f \uff21\uff42\uff43 \uff76\uff9e \uff8a\uff9f",
    "a\u0301e\u0328 \u0344 \u1100\u1161\u11a8",
    "<s> </s> <pad> <unk> \u2581 \u2581\u2581word \u2581",
    "\x00\x1c\x1f\x85\xa0\u2028\u3000 spaces\tand\r",
    "lines",
    "\U00010780\U0001fbf0\u32ff\U00020000\U0001f9ff\ue000\ufffd",
]


@pytest.fixture(scope="module")
def lean() -> UnigramTokenizer:
    return load_tokenizer((default_folder() / "tokenizer.json").read_bytes())


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    return Tokenizer.from_file(str(default_folder() / "tokenizer.json"))


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@pytest.mark.parametrize("text", [*TEXTS, " lead", "trail ", "  ", "x" * 3000, "日" * 500, "Ünïcödé" * 200])
def test_many_languages(lean: UnigramTokenizer, reference: Tokenizer, text: str) -> None:
    assert lean.encode(text) == ids_of(reference, text)


def test_every_assigned_character_alone_and_in_a_word(lean: UnigramTokenizer, reference: Tokenizer) -> None:
    known = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    assert len(known) > 140_000
    texts = [" ".join(known[i : i + 50]) for i in range(0, len(known), 50)]
    texts += [f"a{'x'.join(known[i : i + 25])}b" for i in range(0, len(known), 25)]
    expected = [encoding.ids for encoding in reference.encode_batch_fast(texts, add_special_tokens=False)]
    wrong = [text for text, ids in zip(texts, expected, strict=True) if lean.encode(text) != ids]
    assert wrong == []


@settings(max_examples=400, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cn", "Cs")), max_size=40))
@example("ᷔḎᷨḃ᷊᷶Ḏ᷺᷇ᷠ᷆᷶")
def test_random_unicode(lean: UnigramTokenizer, reference: Tokenizer, text: str) -> None:
    assert lean.encode(text) == ids_of(reference, text)


@settings(max_examples=400, deadline=None)
@given(st.text("aAbZ09 _-./:\t\n\x1c\x85\u3000ΣσİIßﬁé\u0301\u2581<s>unkąŽ日本", max_size=40))
def test_random_mixtures_of_the_hard_characters(
    lean: UnigramTokenizer, reference: Tokenizer, text: str
) -> None:
    assert lean.encode(text) == ids_of(reference, text)


@settings(max_examples=400, deadline=None)
@given(st.text("aAbZ09 _-./:\t\n\x0b\x1c\x1f,%(…´\u3000\u0301é\u2028", max_size=60))
@example("One thing. Another: fooBar/baz_ ")
@example(" . ")
@example("a\x1cb")
@example("wait…")
@example("´ ´")
@example("a\u3000 \u3000b\u3000")
@example("a ▁ ▁b")
def test_text_cut_at_white_space(lean: UnigramTokenizer, reference: Tokenizer, text: str) -> None:
    assert lean.encode(text) == ids_of(reference, text)


@settings(max_examples=300, deadline=None)
@given(st.text("abcdeinorst", min_size=1, max_size=30))
def test_bounding_the_search_for_pieces_loses_no_better_path(
    lean: UnigramTokenizer, reference: Tokenizer, text: str
) -> None:
    assert lean.encode(text) == ids_of(reference, text)


@pytest.mark.parametrize(
    "text", ['"lll', "$999", "'==='", "rf'''", "#888a85", "hahahaha", "ababab", "x" * 60]
)
def test_equal_scores_of_the_same_pieces_in_another_order(
    lean: UnigramTokenizer, reference: Tokenizer, text: str
) -> None:
    assert lean.encode(text) == ids_of(reference, text)


@settings(max_examples=300, deadline=None)
@given(st.text("l9='a", min_size=3, max_size=20))
def test_words_that_repeat_themselves(lean: UnigramTokenizer, reference: Tokenizer, text: str) -> None:
    assert lean.encode(text) == ids_of(reference, text)


def test_every_word_of_the_evaluation_set(lean: UnigramTokenizer, reference: Tokenizer) -> None:
    text = "".join((DATA / name).read_text("utf-8") for name in ("catalogue.jsonl", "needs.jsonl"))
    words = sorted(set(text.split()))
    assert len(words) > 3_000
    expected = [encoding.ids for encoding in reference.encode_batch_fast(words, add_special_tokens=False)]
    assert [word for word, ids in zip(words, expected, strict=True) if lean.encode(word) != ids] == []


def test_the_cached_word_gives_the_same_ids_as_the_first_time(lean: UnigramTokenizer) -> None:
    assert lean.encode("quixotically quixotically") == 2 * lean.encode("quixotically")


@settings(max_examples=300, deadline=None)
@given(st.text("abcfilesrdę日本 \u2581<unk>Z", max_size=30))
def test_a_vocabulary_with_gaps_fuses_unknown_characters(text: str) -> None:
    tokenizer = small_tokenizer()
    assert load_tokenizer(tokenizer.to_str().encode()).encode(text) == ids_of(tokenizer, text)


def test_added_tokens_are_cut_out_first() -> None:
    tokenizer = small_tokenizer()
    tokenizer.add_special_tokens([AddedToken("<unk>", normalized=False), AddedToken("abc", normalized=False)])
    lean = load_tokenizer(tokenizer.to_str().encode())
    for text in ("abcabc", "read abc file", "<unk>abc", " abc ", "ABC abc"):
        assert lean.encode(text) == ids_of(tokenizer, text), text


def test_sizes(lean: UnigramTokenizer) -> None:
    assert lean.size == 110_000
    assert load_tokenizer(small_tokenizer().to_str().encode()).size == len(PIECES)


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        ("model", {"type": "BPE", "vocab": {}, "merges": []}, "model BPE"),
        ("pre_tokenizer", {"type": "Whitespace"}, "Whitespace"),
        ("pre_tokenizer", None, "none"),
        ("normalizer", {"type": "BertNormalizer"}, "BertNormalizer"),
        ("normalizer", {"type": "Replace", "pattern": {"Regex": r"\p{L}+"}, "content": ""}, "Replace"),
        ("model", {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["", -1]]}, "sentencepiece"),
        ("model", {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["a", -2]]}, "already"),
        ("added_tokens", [{"id": 0, "content": "x", "lstrip": True}], "added token"),
    ],
)
def test_what_is_not_reproduced_is_named(path: str, value: object, names: str) -> None:
    import json

    spec = json.loads(small_tokenizer().to_str())
    spec[path] = value
    with pytest.raises(UnsupportedTokenizer, match=names):
        load_tokenizer(json.dumps(spec).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"model": 1}', b'{"model": {"vocab": [["a"]]}}'])
def test_what_is_no_tokenizer_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        load_tokenizer(data)
