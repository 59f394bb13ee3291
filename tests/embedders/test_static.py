"""Vectors equal to those of ``model2vec``, which defines the folder format."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel

from extproc.embedders import default_folder
from extproc.embedders.static import StaticEmbedder, load_static
from tests.embedders.conftest import PIECES
from tests.embedders.test_unigram import TEXTS

ROWS = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
WEIGHTS = np.linspace(0.1, 2, len(PIECES)).astype(np.float32)
MAPPING = (np.arange(len(PIECES)) % 5).astype(np.int64)


@pytest.fixture(scope="module")
def default() -> StaticEmbedder:
    return load_static(default_folder())


def test_the_shipped_table_gives_model2vecs_vectors(default: StaticEmbedder) -> None:
    model = StaticModel.from_pretrained(default_folder())
    texts = [text for text in TEXTS if text] + [" ".join(TEXTS)]
    assert np.abs(default.embed(texts) - model.encode(texts)).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8])
@pytest.mark.parametrize("extra", [{}, {"weights": WEIGHTS}, {"weights": WEIGHTS, "mapping": MAPPING}])
@pytest.mark.parametrize("length", [None, 3])
def test_every_kind_of_table(
    write_model: Callable[..., Path], dtype: type, extra: dict[str, np.ndarray], length: int | None
) -> None:
    rows = ROWS if "mapping" in extra else np.random.default_rng(2).standard_normal((len(PIECES), 8))
    folder = write_model(
        tensors={"embeddings": (rows * 50).astype(dtype), **extra}, config={"max_length": length}
    )
    texts = ["read files", "abc ab b", "ę 日本本 zz read", "file file file abc abc", "z", ""]
    ours, theirs = load_static(folder).embed(texts), StaticModel.from_pretrained(folder).encode(texts)
    assert np.abs(ours - theirs).max() < (2e-3 if dtype is np.float16 else 1e-6)


def test_rows_have_length_one_or_nothing(default: StaticEmbedder) -> None:
    rows = default.embed(["send an e-mail", "", "   ", "𐏿", "išsiųsti laišką"])
    assert np.linalg.norm(rows, axis=1).round(5).tolist() == [
        1.0,
        rows[1].any(),
        1.0 if rows[2].any() else 0.0,
        np.linalg.norm(rows[3]).round(5),
        1.0,
    ]
    assert rows.shape == (5, default.dimension)
    assert default.embed([]).shape == (0, default.dimension)


def test_a_batch_gives_the_rows_of_single_texts(default: StaticEmbedder) -> None:
    texts = [f"tool number {i} reads {'many ' * (i % 40)}files" for i in range(900)]
    batch = default.embed(texts)
    assert np.abs(batch[::37] - np.concatenate([default.embed([t]) for t in texts[::37]])).max() < 1e-6


def test_threads_agree(default: StaticEmbedder) -> None:
    texts = [f"thread word{i} žodis{i}" for i in range(300)]
    expected = default.embed(texts)
    fresh = load_static(default_folder())
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(fresh.embed(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(rows, expected) for rows in results)


def test_another_training_is_another_name(write_model: Callable[..., Path]) -> None:
    rows = np.ones((len(PIECES), 8), np.float32)
    first = load_static(write_model(tensors={"embeddings": rows})).name
    second = load_static(write_model(tensors={"embeddings": 2 * rows}, name="other")).name
    assert first.startswith("small@")
    assert first.split("@")[1] != second.split("@")[1]


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"embeddings": ROWS}, "14 pieces"),
        ({"embeddings": ROWS, "mapping": MAPPING[:3]}, "mapping"),
        ({"embeddings": ROWS, "mapping": MAPPING + 1}, "outside"),
        ({"other": ROWS}, "embeddings"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    write_model: Callable[..., Path], tensors: dict[str, np.ndarray], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        load_static(write_model(tensors=tensors))


@pytest.mark.parametrize("cut", [0, 5, 40, -1])
def test_a_cut_file_is_refused(write_model: Callable[..., Path], cut: int) -> None:
    folder = write_model()
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load_static(folder)
