"""A small model2vec folder, written by the packages that define the formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

PIECES = [
    ("<unk>", 0.0),
    ("\u2581", -2.0),
    ("a", -4.0),
    ("b", -4.0),
    ("c", -4.5),
    ("\u2581ab", -3.0),
    ("abc", -5.0),
    ("\u2581read", -3.5),
    ("file", -4.0),
    ("\u2581file", -3.6),
    ("s", -3.0),
    ("ę", -6.0),
    ("日本", -5.0),
    ("本", -5.0),
]


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram(PIECES, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement="\u2581", prepend_scheme="always", split=True
    )
    return tokenizer


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    def write(
        tokenizer: Tokenizer | None = None,
        tensors: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        name: str = "small",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        tokenizer = tokenizer or small_tokenizer()
        rows = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 8)).astype(np.float32)
        tokenizer.save(str(folder / "tokenizer.json"))
        save_file(tensors or {"embeddings": rows}, folder / "model.safetensors")
        (folder / "config.json").write_text(
            json.dumps({"normalize": True, "max_length": None} | (config or {}))
        )
        return folder

    return write
