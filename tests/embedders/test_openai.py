"""Against a real HTTP server on this machine."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extproc.embedders import EmbedderError, EmbedderUnavailable, Options, load
from extproc.embedders.openai import OpenAIEmbedder


class Service(http.server.ThreadingHTTPServer):
    """Answers vectors made from the text; ``plan`` lists what to do instead, one entry a request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: list[str] = []
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.dimension = 4

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


def vector(text: str, dimension: int) -> list[float]:
    return [1.0 + len(text), *[float(ord(text[0]) % 7)] * (dimension - 1)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((dict(self.headers), body))
        action = self.server.plan.pop(0) if self.server.plan else "answer"
        assert self.path == "/v1/embeddings"
        if action.isdigit():
            self._send(int(action), b'{"error": "no"}')
        elif action == "garbage":
            self._send(200, b"<html>")
        elif action == "few":
            self._send(200, b'{"data": []}')
        elif action == "nan":
            self._send(200, json.dumps({"data": [{"embedding": [1e999] * 4}] * len(body["input"])}).encode())
        elif action == "close":
            self.close_connection = True
        else:
            if action == "slow":
                time.sleep(0.6)
            dimension = 5 if action == "wide" else self.server.dimension
            data = [
                {"embedding": vector(text, dimension), "index": i} for i, text in enumerate(body["input"])
            ]
            payload = json.dumps({"data": data[::-1]}).encode()
            self._send(200, payload, drip=action == "drip")

    def _send(self, status: int, payload: bytes, drip: bool = False) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        try:
            for i in range(len(payload)) if drip else ():
                self.wfile.write(payload[i : i + 1])
                self.wfile.flush()
                time.sleep(0.05)
            if not drip:
                self.wfile.write(payload)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def make(service: Service, **options: Any) -> OpenAIEmbedder:
    embedder = load(f"openai:small@{service.url}", Options(**options))
    assert isinstance(embedder, OpenAIEmbedder)
    return embedder


def test_rows_come_in_the_order_of_the_texts_with_length_one(service: Service) -> None:
    rows = make(service).embed(["alpha", "be", "alpha", ""])
    expected = np.array(vector("alpha", 4))
    assert np.allclose(rows[0], expected / np.linalg.norm(expected))
    assert np.array_equal(rows[0], rows[2])
    assert not rows[3].any()
    assert service.requests[0][1] == {"model": "small", "input": ["alpha", "be"], "encoding_format": "float"}


def test_a_build_asks_in_batches_and_once_for_each_text(service: Service) -> None:
    embedder = make(service)
    texts = [f"text {i}" for i in range(300)]
    embedder.embed(texts)
    assert [len(body["input"]) for _, body in service.requests] == [128, 128, 44]
    embedder.embed([*texts, "new"])
    assert service.requests[3][1]["input"] == ["new"]


def test_vectors_outlive_the_process_and_texts_are_not_stored(service: Service, tmp_path: Path) -> None:
    first = make(service, cache=tmp_path).embed(["a secret", "b"])
    asked = len(service.requests)
    again = make(service, cache=tmp_path)
    assert again.dimension == 4
    assert np.array_equal(again.embed(["a secret", "b"]), first)
    assert len(service.requests) == asked
    assert b"secret" not in b"".join(f.read_bytes() for f in tmp_path.iterdir())


def test_queries_are_not_kept(service: Service, tmp_path: Path) -> None:
    make(service, cache=tmp_path).embed(["one query"])
    assert list(tmp_path.iterdir()) == []


def test_a_record_cut_short_and_a_foreign_file_are_survived(service: Service, tmp_path: Path) -> None:
    first = make(service, cache=tmp_path).embed(["a", "b", "c"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert np.array_equal(make(service, cache=tmp_path).embed(["a", "b", "c"]), first)
    assert service.requests[-1][1]["input"] == ["c"]
    asked = len(service.requests)
    assert np.array_equal(make(service, cache=tmp_path).embed(["a", "b", "c"]), first)
    assert len(service.requests) == asked
    file.write_bytes(b"something else entirely")
    assert np.array_equal(make(service, cache=tmp_path).embed(["a", "b", "c"]), first)


def test_the_key_comes_from_the_environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "k-123")
    make(service, key_variable="SOME_KEY").embed(["a"])
    monkeypatch.delenv("SOME_KEY")
    make(service, key_variable="SOME_KEY").embed(["a"])
    headers = [{name.lower(): value for name, value in h.items()} for h, _ in service.requests]
    assert headers[0]["authorization"] == "Bearer k-123"
    assert "authorization" not in headers[1]


@pytest.mark.parametrize("trouble", ["429", "500", "503", "close"])
def test_a_build_tries_again_and_a_query_does_not(service: Service, trouble: str) -> None:
    embedder = make(service)
    service.plan = [trouble, trouble]
    assert embedder.embed(["a", "b"]).shape == (2, 4)
    service.plan = [trouble]
    with pytest.raises(EmbedderError, match="embedding service"):
        embedder.embed(["a query"])
    assert service.plan == []


@pytest.mark.parametrize("trouble", ["400", "401", "404", "garbage", "few", "nan"])
def test_what_another_try_would_not_mend_fails_at_once(service: Service, trouble: str) -> None:
    service.plan = [trouble]
    with pytest.raises(EmbedderError) as caught:
        make(service).embed(["words of the caller", "b"])
    assert len(service.requests) == 1
    assert "words" not in str(caught.value)


@pytest.mark.parametrize("trouble", ["slow", "drip"])
def test_a_query_has_one_deadline(service: Service, trouble: str) -> None:
    service.plan = [trouble]
    with pytest.raises(EmbedderError, match=r"within 0\.2 s"):
        make(service, query_timeout=0.2).embed(["a query"])


def test_vectors_of_another_model_are_refused(service: Service) -> None:
    embedder = make(service)
    embedder.embed(["a", "b"])
    service.plan = ["wide"]
    with pytest.raises(EmbedderError, match="5 numbers instead of 4"):
        embedder.embed(["c", "d"])


def test_nobody_listening(service: Service) -> None:
    url = service.url
    service.shutdown()
    service.server_close()
    embedder = load(f"openai:m@{url}")
    assert embedder is not None
    with pytest.raises(EmbedderError, match="ConnectError"):
        embedder.embed(["a"])


@pytest.mark.parametrize(
    "spec",
    [
        "openai:",
        "openai:@http://x/v1",
        "openai:m@ftp://x",
        "openai:m@nowhere",
        "openai:m@http://user:pw@x/v1",
    ],
)
def test_a_wrong_spec_says_how_it_should_look(spec: str) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"openai:MODEL@URL|put the key in the variable"):
        load(spec)
