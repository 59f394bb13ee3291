from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

from extproc.embedders import EmbedderError, EmbedderUnavailable, Options, load
from extproc.embedders.model2vec import Model2VecEmbedder
from extproc.embedders.static import StaticEmbedder


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "read": 1, "file": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_default_is_in_the_package_and_none_is_none() -> None:
    embedder = load("default")
    assert isinstance(embedder, StaticEmbedder)
    assert embedder.dimension == 256
    assert load("none") is None


def test_a_folder_and_a_fetched_name(write_model: Callable[..., Path]) -> None:
    folder = write_model()
    by_path = load(str(folder))
    for spec in ("small", "owner/small"):
        by_name = load(spec, Options(models=folder.parent))
        assert by_path is not None
        assert by_name is not None
        assert by_name.name == by_path.name


def test_a_fetched_model_is_found_through_the_environment(
    write_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSEARCH_MODELS", str(write_model().parent))
    assert load("small") is not None


@pytest.mark.parametrize("spec", ["", " ", "potion-nowhere", "/no/such/folder", "../../nowhere"])
def test_an_unknown_name_says_what_to_do(spec: str, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"fetch-model|search\.embedder"):
        load(spec, Options(models=tmp_path))


def test_unavailable_is_an_embedder_error() -> None:
    assert issubclass(EmbedderUnavailable, EmbedderError)


def test_another_tokenizer_goes_through_model2vec(write_model: Callable[..., Path]) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    folder = write_model(
        tokenizer=word_tokenizer(), tensors={"embeddings": rows}, config={"normalize": False}
    )
    embedder = load(str(folder))
    assert isinstance(embedder, Model2VecEmbedder)
    ours = embedder.embed(["read file", "file", "nothing"])
    theirs = StaticModel.from_pretrained(folder).encode(["read file", "file", "nothing"], normalize=True)
    assert np.allclose(ours, theirs, atol=1e-6)
    assert embedder.embed([]).shape == (0, 4)


def test_without_model2vec_the_extra_is_named(
    write_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.ones((3, 4), np.float32)
    folder = write_model(tokenizer=word_tokenizer(), tensors={"embeddings": rows})
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "model2vec":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(EmbedderUnavailable, match=r"WordLevel.*\[model2vec\]"):
        load(str(folder))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [None, b"", b"{]", b'{"max_length": "many"}'])
def test_a_damaged_folder_is_unavailable(
    write_model: Callable[..., Path], file: str, content: bytes | None
) -> None:
    folder = write_model()
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match=str(folder)):
        load(str(folder))


def test_the_shipped_folder_names_its_licences() -> None:
    from extproc.embedders import default_folder

    card = (default_folder() / "MODEL_CARD.md").read_text("utf-8")
    for licence in ("Apache-2.0", "BSD-3-Clause", "MIT", "ISC", "Unicode-3.0", "WordNet"):
        assert licence in card
    assert json.loads((default_folder() / "config.json").read_text())["max_length"] is None
