"""A local sentence transformer in ONNX form (extra ``onnx``): mean of the last layer over real tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from extproc.embedders.errors import EmbedderUnavailable
from extproc.search.embedder import EmbedderError

_BATCH = 32
_LONGEST = 256
_MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")


class OnnxEmbedder:
    """Runs an encoder on the CPU.  A model that gives one row a text is taken as it is, else rows are pooled
    by mean (Reimers 2019, arXiv:1908.10084)."""

    def __init__(self, name: str, session: Any, tokenizer: Any) -> None:
        self._name = name
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = [node.name for node in session.get_inputs()]
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ValueError(
                f"the model asks for inputs this loader does not know: {', '.join(sorted(unknown))}"
            )
        self._dimension = self.embed_batch(["dimension"]).shape[1]

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return int(self._dimension)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape ``(len(texts), dimension)``, rows of length 1; blank texts give 0."""
        out = np.zeros((len(texts), self.dimension), np.float32)
        # Texts of one length share a batch: padding is computed like any other token.
        order = sorted((i for i, text in enumerate(texts) if text.strip()), key=lambda i: len(texts[i]))
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]
            out[rows] = self.embed_batch([texts[i] for i in rows])
        return out

    def embed_batch(self, texts: list[str]) -> NDArray[np.float32]:
        """One run of the model.  Raises ``EmbedderError`` when the runtime fails."""
        encodings = self._tokenizer.encode_batch(texts)
        mask = np.array([e.attention_mask for e in encodings], np.int64)
        feed = {
            "input_ids": np.array([e.ids for e in encodings], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([e.type_ids for e in encodings], np.int64),
        }
        try:
            result = self._session.run(None, {name: feed[name] for name in self._inputs})[0]
        except Exception as error:
            # onnxruntime's exceptions share no base class of their own.
            raise EmbedderError(f"onnxruntime failed on {self._name}: {type(error).__name__}") from error
        rows = np.asarray(result, np.float32)
        if rows.ndim == 3:
            weight = mask[:, :, None].astype(np.float32)
            rows = (rows * weight).sum(1) / np.maximum(weight.sum(1), 1e-9)
        norm: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 1e-20)


def load_onnx(path: Path) -> OnnxEmbedder:
    """``path``: an ONNX file with ``tokenizer.json`` beside or above it, or a folder that holds both.

    Raises ``EmbedderUnavailable``.
    """
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderUnavailable(
            "onnx: needs onnxruntime and tokenizers: pip install 'mcp-toolsearch-extproc[onnx]'"
        ) from error
    model, folder = _files(path)
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.enable_truncation(_longest(folder))
        tokenizer.enable_padding()
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        return OnnxEmbedder(f"onnx:{folder.name}@{_digest(model)}", session, tokenizer)
    except EmbedderError:
        raise
    except Exception as error:
        # tokenizers and onnxruntime raise bare Exceptions for damaged files.
        raise EmbedderUnavailable(f"ONNX model in {folder} cannot be loaded: {error}") from error


def _files(path: Path) -> tuple[Path, Path]:
    candidates = [path] if path.is_file() else [path / name for name in _MODEL_FILES]
    model = next((candidate for candidate in candidates if candidate.is_file()), None)
    if model is None:
        raise EmbedderUnavailable(
            f"no ONNX model at {path}: expected a file or a folder with {_MODEL_FILES[0]}"
        )
    for folder in (model.parent, model.parent.parent):
        if (folder / "tokenizer.json").is_file():
            return model, folder
    raise EmbedderUnavailable(f"no tokenizer.json next to {model}")


def _longest(folder: Path) -> int:
    """The model's own limit in tokens where it states one."""
    try:
        stated = msgspec.json.decode((folder / "sentence_bert_config.json").read_bytes())["max_seq_length"]
        return stated if isinstance(stated, int) and stated > 0 else _LONGEST
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return _LONGEST


def _digest(model: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    with model.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
