"""Tools, catalogues and an embedder small enough to reason about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extproc.catalog.model import Catalogue, Tool
from extproc.catalog.parse import parse_tool
from extproc.search import EmbedderError
from extproc.settings import Tools


def tool(name: str, description: str = "", properties: dict[str, Any] | None = None, **more: Any) -> Tool:
    schema = {"type": "object", "properties": properties or {}}
    entry = {"name": name, "description": description, "inputSchema": schema, **more}
    raw = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")
    found = parse_tool(raw, Tools(), modern=False)
    assert found is not None
    return found


def catalogue(*tools: Tool) -> Catalogue:
    return Catalogue.of(tools)


def office() -> Catalogue:
    """Nine tools of three servers in Envoy's naming, with siblings across servers."""
    number = {"number": {"type": "integer", "description": "Number of the issue"}}
    return catalogue(
        tool("github__create_issue", "Open a new issue in a repository.", {"title": {"type": "string"}}),
        tool("github__close_issue", "Close an issue in a repository.", number),
        tool("github__list_branches", "List the branches of a repository."),
        tool("mail__send_message", "Send an e-mail to one or more people.", {"to": {"type": "string"}}),
        tool("mail__search_messages", "Find messages by sender, subject or date."),
        tool("mail__delete_message", "Delete a message for good."),
        tool("weather__get_forecast", "Weather forecast for a city for the next days.", {"city": {}}),
        tool("weather__get_alerts", "Storm and flood warnings for a region."),
        tool("weather__current", ""),
    )


MEANINGS = {"mail": "e-mail", "email": "e-mail", "wetter": "weather", "oras": "weather", "rain": "forecast"}


@cache
def _direction(letters: str, dimension: int) -> NDArray[np.float64]:
    seed = int.from_bytes(blake2b(letters.encode("utf-8"), digest_size=4).digest(), "little")
    return np.random.default_rng(seed).standard_normal(dimension)


class WholeTexts:
    """Bags of hashed letter triples: words spelt alike point alike, and a few words mean the same."""

    name = "whole"
    dimension = 256

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        out = self._add(texts)
        length = np.linalg.norm(out, axis=1, keepdims=True)
        return np.asarray(out / np.maximum(length, 1e-9), np.float32)

    def _add(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        out = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().replace(".", " ").replace(":", " ").split():
                word = MEANINGS.get(word, word)
                for i in range(len(word)):
                    out[row] += _direction(f"^{word}$"[i : i + 3], self.dimension)
        return out


class Pieces(WholeTexts):
    """The same as a table of pieces: queries are read word by word."""

    name = "pieces"

    def sums(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._add(texts)


class Broken(WholeTexts):
    """Works for ``after`` calls, then fails."""

    name = "broken"

    def __init__(self, after: int = 0) -> None:
        super().__init__()
        self.left = after

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.left <= 0:
            raise EmbedderError("the model service is down")
        self.left -= 1
        return super().embed(texts)
