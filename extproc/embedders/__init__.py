"""Sources of vectors.  ``load`` turns the ``search.embedder`` setting into an ``Embedder``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from extproc.embedders.errors import EmbedderUnavailable
from extproc.search.embedder import Embedder, EmbedderError

__all__ = [
    "Embedder",
    "EmbedderError",
    "EmbedderUnavailable",
    "Options",
    "default_folder",
    "load",
    "models_folder",
]

_DEFAULT = "toolsearch-multilingual"


@dataclass(frozen=True, slots=True)
class Options:
    """What the loaders need besides the spec."""

    models: Path | None = None
    """Where ``fetch-model`` puts models; the default is ``models_folder()``."""
    cache: Path | None = None
    """Folder of the on-disk vector cache of remote models; None keeps their vectors in memory only."""
    build_timeout: float = 30.0
    """Deadline of one batch of texts at a remote service, in seconds."""
    query_timeout: float = 0.3
    """Deadline of a single text (a query) at a remote service, in seconds."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the remote service's key."""


def load(spec: str, options: Options | None = None) -> Embedder | None:
    """The embedder that ``spec`` names; ``None`` for ``none`` (lexical search only).

    ``default`` is the table in the package, ``openai:MODEL@URL`` a remote service, ``onnx:FOLDER`` a local
    sentence transformer; anything else is a model2vec folder or the name of a fetched model.

    Raises ``EmbedderUnavailable`` (an ``EmbedderError``) when it cannot be loaded: search goes on without it.
    """
    options = options or Options()
    kind, _, rest = spec.partition(":")
    match kind:
        case "none":
            return None
        case "default":
            return _load_folder(default_folder())
        case "openai":
            from extproc.embedders.openai import OpenAIEmbedder

            return OpenAIEmbedder.from_spec(rest, options)
        case "onnx":
            from extproc.embedders.onnx import load_onnx

            return load_onnx(Path(rest).expanduser())
    return _load_folder(_find(spec, options.models or models_folder()))


def default_folder() -> Path:
    """The model shipped in the package."""
    return Path(__file__).resolve().parent.parent / "models" / _DEFAULT


def models_folder() -> Path:
    """Where fetched models live: ``$TOOLSEARCH_MODELS``, else below the user's cache folder."""
    if chosen := os.environ.get("TOOLSEARCH_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "mcp-toolsearch-extproc" / "models"


def _find(spec: str, models: Path) -> Path:
    if not spec.strip():
        raise EmbedderUnavailable(
            "search.embedder is empty: use default, none, a model folder or a model name"
        )
    folder = Path(spec).expanduser()
    if folder.is_dir():
        return folder
    fetched = models / spec.rpartition("/")[2]
    if fetched.is_dir() and spec.count("/") <= 1:
        return fetched
    raise EmbedderUnavailable(
        f"no embedding model {spec!r}: neither a folder nor a fetched model in {models}. "
        f"Run `mcp-toolsearch-extproc fetch-model {spec}`, or give a folder, default or none"
    )


def _load_folder(folder: Path) -> Embedder:
    from extproc.embedders.normalise import UnsupportedTokenizer
    from extproc.embedders.static import load_static

    try:
        return load_static(folder)
    except UnsupportedTokenizer as reason:
        from extproc.embedders.model2vec import load_model2vec

        return load_model2vec(folder, str(reason))
    except (OSError, ValueError) as error:
        raise EmbedderUnavailable(f"embedding model in {folder} cannot be loaded: {error}") from error
