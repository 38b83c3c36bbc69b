"""Ollama is spoken to on this machine only, and whatever it answers becomes a vector or a clear error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from rag_mcp.config import Config
from rag_mcp.embedders import embedder_identity, open_embedder
from rag_mcp.embedders.ollama import OllamaEmbedder, OllamaServer
from rag_mcp.errors import ConfigError, EmbedderError, ModelMissing

Answer = tuple[int, object]


class FakeOllama:
    """Answers as Ollama does for one model of three numbers; ``override`` replaces the answer of one path."""

    def __init__(self) -> None:
        self.digest = "aa" * 32
        self.info: dict[str, object] = {"nomic-bert.context_length": 2048, "nomic-bert.embedding_length": 3}
        self.override: dict[str, Answer | bytes] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> Answer | bytes:
        self.requests.append((path, body))
        if path in self.override:
            return self.override[path]
        if path == "/api/tags":
            return 200, {"models": [{"name": "nomic-embed-text:latest", "digest": self.digest}]}
        if path == "/api/show":
            return 200, {"model_info": self.info}
        if not body["truncate"] and any(len(text) > 900 for text in body["input"]):
            return 400, {"error": "the input length exceeds the context length"}
        return 200, {"embeddings": [[float(len(text)), 1.0, 2.0] for text in body["input"]]}


@pytest.fixture
def ollama() -> Iterator[FakeOllama]:
    fake = FakeOllama()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(fake.answer(self.path, {}))

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(fake.answer(self.path, json.loads(content)))

        def reply(self, answer: Answer | bytes) -> None:
            status, body = (200, answer) if isinstance(answer, bytes) else (answer[0], json.dumps(answer[1]).encode())
            self.send_response(status)
            if status == 302:
                self.send_header("Location", fake.url + "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep test output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield fake
    server.shutdown()
    server.server_close()
    thread.join(timeout=10)


def opened(fake: FakeOllama) -> OllamaEmbedder:
    embedder = open_embedder(Config(embedder="ollama", ollama_url=fake.url))
    assert isinstance(embedder, OllamaEmbedder)
    return embedder


def test_texts_become_unit_vectors_in_order_and_blank_ones_are_not_sent(ollama: FakeOllama) -> None:
    embedder = opened(ollama)
    texts = ["x" * number for number in range(1, 40)]
    texts[5] = " \n"
    starts: list[int] = []
    vectors = embedder.embed_documents(texts, on_batch=lambda start, rows: starts.append(start))
    assert starts == [0, 16, 32]
    expected = np.array([[len(text), 1.0, 2.0] for text in texts], dtype=np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    expected[5] = 0
    assert np.allclose(vectors, expected, atol=1e-6)
    assert np.allclose(embedder.embed_query("xxx"), expected[2], atol=1e-6)
    assert all(text.strip() for path, body in ollama.requests if path == "/api/embed" for text in body["input"])


def test_size_and_limit_come_from_the_server_and_the_digest_is_in_the_fingerprint(ollama: FakeOllama) -> None:
    config = Config(embedder="ollama", ollama_url=ollama.url)
    embedder, identity = open_embedder(config), embedder_identity(config)
    assert embedder.fingerprint == identity.fingerprint
    assert (identity.dimension, identity.max_tokens) == (embedder.dimension, embedder.max_tokens) == (3, 512)
    ollama.digest = "bb" * 32
    assert embedder_identity(config).fingerprint != identity.fingerprint


def test_the_size_is_learnt_from_a_vector_when_the_server_does_not_tell(ollama: FakeOllama) -> None:
    ollama.info = {}
    assert opened(ollama).dimension == 3


def test_a_model_that_was_not_pulled_is_told_with_the_command(ollama: FakeOllama) -> None:
    with pytest.raises(ModelMissing, match="ollama pull other-model"):
        open_embedder(Config(embedder="ollama", ollama_url=ollama.url, ollama_model="other-model"))


def test_a_text_the_server_finds_too_long_is_cut_and_counted(ollama: FakeOllama) -> None:
    embedder = opened(ollama)
    vectors = embedder.embed_documents(["short", "y" * 1_000, "also short"])
    assert embedder.truncated == 1
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)


def test_the_token_count_is_never_below_words_and_grows_with_length(ollama: FakeOllama) -> None:
    embedder = opened(ollama)
    assert embedder.count_tokens("") == 0
    assert embedder.count_tokens("a b c") == 3
    assert embedder.count_tokens("設定方法") >= 4
    assert embedder.count_tokens("internationalisation!") >= 7


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, {"embeddings": [[1.0, 2.0]]}), "shape"),
        ((200, {"embeddings": [[1.0, 2.0, float("nan")]]}), "not finite"),
        ((200, {"embeddings": []}), "one vector a text"),
        ((200, {"embeddings": [["a", "b", "c"]]}), "one vector a text"),
        ((200, {}), "one vector a text"),
        ((200, []), "not an object"),
        (b"<html>", "not JSON"),
        ((500, {"error": "out of memory"}), "status 500.*out of memory"),
        ((400, {"error": "this model does not support embeddings"}), "status 400"),
    ],
)
def test_a_strange_answer_is_an_error_that_says_what_was_wrong(
    ollama: FakeOllama, answer: Answer | bytes, reason: str
) -> None:
    embedder = opened(ollama)
    ollama.override["/api/embed"] = answer
    with pytest.raises(EmbedderError, match=reason):
        embedder.embed_query("kettle")


def test_a_redirect_is_not_followed(ollama: FakeOllama) -> None:
    ollama.override["/api/tags"] = (302, {})
    with pytest.raises(EmbedderError, match="status 302"):
        opened(ollama)
    assert [path for path, _ in ollama.requests] == ["/api/tags"]


def test_proxies_in_the_environment_are_not_used(ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert opened(ollama).dimension == 3


def test_a_server_that_is_not_running_is_told_with_the_command() -> None:
    with pytest.raises(EmbedderError, match="ollama serve"):
        open_embedder(Config(embedder="ollama", ollama_url="http://127.0.0.1:9"))


@pytest.mark.parametrize(
    "url",
    [
        "http://192.168.1.5:11434",
        "http://ollama.example:11434",
        "http://localhost.example:11434",
        "http://127.0.0.1.example",
        "http://0.0.0.0:11434",
        "http://user:secret@127.0.0.1:11434",
        "http://127.0.0.1@198.51.100.7",
        "http://127.0.0.1:11434/?key=1",
        "http://127.0.0.1:11434/?",
        "http://127.0.0.1:11434#part",
        "http://127.0.0.1:port",
        "http://127.0.0.1:11434/a b",
        "http://127.0.0.1\\@198.51.100.7",
        "http://[::1",
        "https://198.51.100.7",
        "file:///etc/hosts",
        "ftp://127.0.0.1",
        "127.0.0.1:11434",
        "",
    ],
)
def test_an_address_that_is_not_plainly_this_machine_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="RAG_MCP_OLLAMA_URL") as caught:
        OllamaServer(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:11434", "https://localhost:8443/", "http://[::1]:11434", "http://127.8.9.1", "HTTP://LOCALHOST"],
)
def test_loopback_addresses_are_taken(url: str) -> None:
    assert OllamaServer(url).url == url.rstrip("/")


def test_the_identity_is_told_without_embedding_anything(ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original: Callable[..., Any] = OllamaServer.post
    monkeypatch.setattr(
        OllamaServer, "post", lambda self, path, *a, **k: (calls.append(path), original(self, path, *a, **k))[1]
    )
    embedder_identity(Config(embedder="ollama", ollama_url=ollama.url))
    assert calls == ["/api/show"]
