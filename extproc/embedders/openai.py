"""Vectors from any OpenAI-compatible ``/v1/embeddings`` service (OpenAI, Ollama, LiteLLM, vLLM).

Request and answer: https://platform.openai.com/docs/api-reference/embeddings.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

from extproc.embedders.cache import VectorCache
from extproc.embedders.errors import EmbedderUnavailable
from extproc.search.embedder import EmbedderError

if TYPE_CHECKING:
    from extproc.embedders import Options

_BATCH = 128
_ATTEMPTS = 3


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


class OpenAIEmbedder:
    """Asks for the texts it has not seen, at most 128 in a request.

    One text is a query: one attempt within ``query_timeout``.  More are a build: each batch has
    ``build_timeout`` and three attempts when the service is busy or broken.  The first answer fixes the
    dimension; a later one of another length is refused, so that vectors of two models never mix.
    """

    def __init__(self, model: str, url: str, options: Options) -> None:
        self._model = model
        self._url = f"{url.rstrip('/')}/embeddings"
        self._options = options
        key = os.environ.get(options.key_variable, "")
        self._client = httpx.Client(headers={"authorization": f"Bearer {key}"} if key else {})
        self._lock = threading.Lock()
        self._cache = VectorCache(f"{model}@{self._url}", options.cache)
        self._dimension = self._cache.dimension

    @classmethod
    def from_spec(cls, spec: str, options: Options) -> OpenAIEmbedder:
        """``MODEL@URL``, where URL ends in ``/v1``; without ``@URL`` OpenAI itself.

        Raises ``EmbedderUnavailable`` for anything else.
        """
        model, _, url = spec.partition("@")
        url = url or "https://api.openai.com/v1"
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            parsed = httpx.URL("")
        if not model or parsed.scheme not in ("http", "https") or not parsed.host:
            raise EmbedderUnavailable(
                f"search.embedder openai:{spec} is not openai:MODEL@URL (URL ends in /v1)"
            )
        if parsed.userinfo:
            raise EmbedderUnavailable(
                f"search.embedder: put the key in the variable {options.key_variable}, not in the URL"
            )
        return cls(model, url, options)

    @property
    def name(self) -> str:
        return f"openai:{self._model}@{self._url}"

    @property
    def dimension(self) -> int:
        """Known from the first answer; asks the service when there has been none."""
        if self._dimension is None:
            self.embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape ``(len(texts), dimension)``.  Raises ``EmbedderError`` when the service gives no vectors."""
        known = self._cache.get(texts)
        missing = list(dict.fromkeys(text for text in texts if text.strip() and text not in known))
        query = len(texts) == 1
        for begin in range(0, len(missing), _BATCH):
            batch = missing[begin : begin + _BATCH]
            rows = self._ask(batch, query)
            known.update(zip(batch, rows, strict=True))
            self._cache.put(batch, rows, keep=not query)
        out = np.zeros((len(texts), self._dimension or 0), np.float32)
        for i, text in enumerate(texts):
            if text in known:
                out[i] = known[text]
        return out

    def _ask(self, texts: list[str], query: bool) -> NDArray[np.float32]:
        timeout = self._options.query_timeout if query else self._options.build_timeout
        reason = ""
        for _ in range(1 if query else _ATTEMPTS):
            try:
                return self._rows(_post(self._client, self._url, self._model, texts, timeout), len(texts))
            except _Busy as error:
                reason = str(error)
        raise EmbedderError(f"embedding service {self._url}: {reason}")

    def _rows(self, body: bytes, count: int) -> NDArray[np.float32]:
        try:
            data = msgspec.json.decode(body, type=_Answer).data
            if any(row.index is not None for row in data):
                data.sort(key=lambda row: row.index or 0)
            rows = np.array([row.embedding for row in data], np.float32)
        except (msgspec.DecodeError, ValueError) as error:
            raise EmbedderError(f"embedding service {self._url}: the answer holds no vectors") from error
        if rows.ndim != 2 or len(rows) != count or rows.shape[1] == 0 or not np.isfinite(rows).all():
            raise EmbedderError(
                f"embedding service {self._url}: {count} texts gave vectors of shape {rows.shape}"
            )
        with self._lock:
            if self._dimension is None:
                self._dimension = rows.shape[1]
            elif rows.shape[1] != self._dimension:
                raise EmbedderError(
                    f"embedding service {self._url}: vectors of {rows.shape[1]} numbers instead of "
                    f"{self._dimension}; if the model was changed, clear its cache folder"
                )
        norm: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 1e-20)


class _Busy(Exception):
    """Worth another attempt."""


def _post(client: httpx.Client, url: str, model: str, texts: list[str], timeout: float) -> bytes:
    """The answer's body, read within ``timeout`` seconds all told."""
    import time

    deadline = time.monotonic() + timeout
    body = msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})
    try:
        with client.stream(
            "POST", url, content=body, timeout=timeout, headers={"content-type": "application/json"}
        ) as response:
            if response.status_code == 429 or response.status_code >= 500:
                raise _Busy(f"status {response.status_code}")
            if response.status_code != 200:
                raise EmbedderError(
                    f"embedding service {url}: status {response.status_code}"
                    + (" (is the key set?)" if response.status_code in (401, 403) else "")
                )
            parts = []
            # httpx bounds each read, not their sum: a service that drips would hold a query for minutes.
            for part in response.iter_bytes():
                parts.append(part)
                if time.monotonic() > deadline:
                    raise _Busy(f"no answer within {timeout:g} s")
            return b"".join(parts)
    except httpx.TimeoutException as error:
        raise _Busy(f"no answer within {timeout:g} s") from error
    except httpx.HTTPError as error:
        raise _Busy(type(error).__name__) from error
