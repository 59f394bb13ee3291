"""Writes a trained table as a model2vec folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from training.vocabulary import SPECIALS


def choose(text: list[str], counts: NDArray[np.float64], keep: int) -> NDArray[np.int64]:
    """Sorted indices of the pieces to keep: specials, single characters (any word can be spelled), then the
    most used."""
    chosen = {i for i, piece in enumerate(text) if i < SPECIALS or len(piece) == 1}
    for i in np.argsort(-counts, kind="stable"):
        if len(chosen) >= keep:
            break
        chosen.add(int(i))
    return np.array(sorted(chosen))


def quantise(table: NDArray[np.float32], bits: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric integers and one scale a row, ``table ~ integers * scale[:, None]``.

    The integers stay in whole bytes: a zip brings four bits to half a byte, and any loader reads them.
    """
    top = 2 ** (bits - 1) - 1
    scale = np.abs(table).max(axis=1) / top
    scale = np.where(scale == 0, 1, scale).astype(np.float16).astype(np.float32)
    return np.clip(np.round(table / scale[:, None]), -top, top).astype(np.int8), scale


def save(folder: Path, tokenizer: Tokenizer, table: NDArray[np.float32], bits: int) -> None:
    """``config.json``, ``model.safetensors`` and ``tokenizer.json`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, scale = quantise(table, bits)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    save_file({"embeddings": rows, "weights": scale}, folder / "model.safetensors")
    config = {
        "model_type": "model2vec",
        "normalize": True,
        "hidden_dim": table.shape[1],
        "embedding_dtype": "int8",
        "max_length": None,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
