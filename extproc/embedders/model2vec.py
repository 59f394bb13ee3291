"""Models that only the model2vec package can tokenise for (extra ``model2vec``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extproc.embedders.errors import EmbedderUnavailable


class Model2VecEmbedder:
    """Wraps ``model2vec.StaticModel``; rows are brought to length 1 whatever the model's own setting."""

    def __init__(self, name: str, model: Any) -> None:
        self._name = name
        self._model = model

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return int(self._model.dim)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape ``(len(texts), dimension)``, rows of length 1 or 0."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        rows = np.asarray(self._model.encode(list(texts), use_multiprocessing=False), np.float32)
        norm: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 1e-20)


def load_model2vec(folder: Path, reason: str) -> Model2VecEmbedder:
    """Load ``folder`` through model2vec.  ``reason`` says why the built-in loader cannot.

    Raises ``EmbedderUnavailable``.
    """
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise EmbedderUnavailable(
            f"embedding model in {folder} needs the model2vec package ({reason} is not built in): "
            "pip install 'mcp-toolsearch-extproc[model2vec]'"
        ) from error
    try:
        model = StaticModel.from_pretrained(folder)
    except Exception as error:
        # tokenizers and safetensors raise bare Exception subclasses of their own.
        raise EmbedderUnavailable(
            f"embedding model in {folder} cannot be loaded by model2vec: {error}"
        ) from error
    size = sum(f.stat().st_size for f in folder.glob("*.safetensors"))
    return Model2VecEmbedder(f"{folder.name}@{size:x}", model)
