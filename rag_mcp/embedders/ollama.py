"""Embedding by an Ollama server on this machine, spoken to over the loopback interface only.

API: https://github.com/ollama/ollama/blob/main/docs/api.md (/api/tags, /api/show, /api/embed).
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_mcp.embedders.identity import EmbedderIdentity, fingerprint_of
from rag_mcp.errors import ConfigError, EmbedderError, ModelMissing

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["OllamaEmbedder", "OllamaServer", "ollama_identity"]

_CODE_VERSION = 1
_BATCH_TEXTS = 16
_TIMEOUT_S = 120.0
_ASK_TIMEOUT_S = 10.0
_MOST_ANSWER_BYTES = 64 << 20
# Longer passages dilute a vector; also what the other models here are given at most.
_MOST_TOKENS = 512
_LEAST_TOKENS = 64
_TOKEN = re.compile(r"\w+|[^\w\s]")
# The server does not tell token counts beforehand; three bytes a token is on the safe side in measured vocabularies.
_BYTES_A_TOKEN = 3


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead off this machine; it is an error instead."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class OllamaServer:
    """JSON calls to one loopback address; no redirects, no proxies. Raises ConfigError for any other address."""

    def __init__(self, url: str) -> None:
        self.url = _checked(url)
        # An explicit empty ProxyHandler: the default one reads proxies from the environment.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def get(self, path: str) -> Mapping[str, Any]:
        return self._call(urllib.request.Request(self.url + path), _ASK_TIMEOUT_S)

    def post(self, path: str, body: Mapping[str, object], *, timeout_s: float = _ASK_TIMEOUT_S) -> Mapping[str, Any]:
        """Raises EmbedderError when the server can't be reached, refuses, or answers with something else."""
        content = json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=content, headers={"Content-Type": "application/json"}, method="POST"
        )
        return self._call(request, timeout_s)

    def _call(self, request: urllib.request.Request, timeout_s: float) -> Mapping[str, Any]:
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                content = response.read(_MOST_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(self.url, error.code, error.read(2_000)) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EmbedderError(f"Ollama at {self.url} can't be reached ({reason}). Run: ollama serve") from error
        if len(content) > _MOST_ANSWER_BYTES:
            raise EmbedderError(f"Ollama at {self.url} answered with more than {_MOST_ANSWER_BYTES >> 20} MB.")
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise EmbedderError(f"Ollama at {self.url} answered with something that is not JSON.") from error
        if not isinstance(answer, dict):
            raise EmbedderError(f"Ollama at {self.url} answered with JSON that is not an object.")
        return answer


def ollama_identity(server: OllamaServer, model: str) -> EmbedderIdentity:
    """Ask the server which weights the name stands for today. Raises ModelMissing when it has none of that name."""
    digest = _digest(server, model)
    info = server.post("/api/show", {"model": model}).get("model_info")
    facts = info if isinstance(info, dict) else {}
    context = _fact(facts, ".context_length") or _MOST_TOKENS
    dimension = _fact(facts, ".embedding_length") or len(_embed(server, model, ["dimension"])[0])
    limit = max(_LEAST_TOKENS, min(context, _MOST_TOKENS))
    parts: dict[str, str | int | bool] = {
        "code": _CODE_VERSION,
        "model": model,
        "digest": digest,
        "dimension": dimension,
        "max_tokens": limit,
    }
    return EmbedderIdentity(
        name="ollama", fingerprint=fingerprint_of("ollama", parts), dimension=dimension, max_tokens=limit
    )


class OllamaEmbedder:
    """Sends a few texts a call. ``count_tokens`` is an upper estimate, because the server has no call for it.

    ``truncated`` counts texts the server had to cut. Raises EmbedderError kinds when opened and on use.
    """

    def __init__(self, server: OllamaServer, model: str) -> None:
        self._server = server
        self._model = model
        self._identity = ollama_identity(server, model)
        self._counting = threading.Lock()
        self.truncated = 0

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def dimension(self) -> int:
        return self._identity.dimension

    @property
    def max_tokens(self) -> int:
        return self._identity.max_tokens

    @property
    def fingerprint(self) -> str:
        return self._identity.fingerprint

    def count_tokens(self, text: str) -> int:
        return sum(-(-len(token.encode("utf-8", "replace")) // _BYTES_A_TOKEN) for token in _TOKEN.findall(text))

    def embed_documents(
        self, texts: Sequence[str], *, on_batch: Callable[[int, Vectors], None] | None = None
    ) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            rows = self._rows(texts[start : start + _BATCH_TEXTS])
            vectors[start : start + len(rows)] = rows
            if on_batch is not None:
                on_batch(start, rows)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        row: Vectors = self._rows([text])[0]
        return row

    def familiarity(self, text: str) -> float:
        """Always 1.0: the server does not show how its model splits a text."""
        return 1.0

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def _rows(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors; blank texts are not sent, their rows are zero."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        places = [place for place, text in enumerate(texts) if text.strip()]
        if not places:
            return rows
        answer = np.array(self._vectors([texts[place] for place in places]), dtype=np.float32)
        lengths = np.linalg.norm(answer, axis=1, keepdims=True) if answer.ndim == 2 else np.zeros(0)
        if answer.shape != (len(places), self.dimension) or not np.isfinite(lengths).all():
            raise EmbedderError(
                f"Ollama gave vectors of shape {answer.shape} for {len(places)} texts, or numbers that are not finite; "
                f"expected {self.dimension} finite numbers each. Was the model {self._model!r} changed meanwhile?"
            )
        rows[places] = answer / np.where(lengths > 0, lengths, 1)
        return rows

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Ask without cutting first, so that a text that has to be cut is noticed."""
        try:
            return _embed(self._server, self._model, texts)
        except _TooLong:
            if len(texts) > 1:
                return [vector for text in texts for vector in self._vectors([text])]
        with self._counting:
            self.truncated += 1
        return _embed(self._server, self._model, texts, truncate=True)


class _TooLong(EmbedderError):
    """The server says that an input is longer than its context."""


def _embed(server: OllamaServer, model: str, texts: Sequence[str], *, truncate: bool = False) -> list[list[float]]:
    clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    body = {"model": model, "input": clean, "truncate": truncate}
    vectors = server.post("/api/embed", body, timeout_s=_TIMEOUT_S).get("embeddings")
    if not isinstance(vectors, list) or len(vectors) != len(texts) or not all(map(_is_vector, vectors)):
        raise EmbedderError(f"Ollama did not answer with one vector a text. Is {model!r} an embedding model?")
    return vectors


def _is_vector(value: object) -> bool:
    numbers = value if isinstance(value, list) else []
    return bool(numbers) and all(isinstance(number, int | float) for number in numbers)


def _digest(server: OllamaServer, model: str) -> str:
    """The digest of the weights. A name without a tag means the tag "latest"."""
    listed = server.get("/api/tags").get("models")
    wanted = model if ":" in model.rpartition("/")[2] else f"{model}:latest"
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and wanted in (entry.get("name"), entry.get("model")) and entry.get("digest"):
            return str(entry["digest"])
    raise ModelMissing(f"Ollama at {server.url} has no model {model!r}. Run: ollama pull {model}")


def _fact(info: Mapping[str, Any], ending: str) -> int:
    """A number of model_info; its key starts with the architecture's name ("nomic-bert.context_length")."""
    values = (value for key, value in info.items() if key.endswith(ending))
    return next((value for value in values if isinstance(value, int) and value > 0), 0)


def _refused(url: str, status: int, body: bytes) -> EmbedderError:
    text = body.decode("utf-8", "replace").strip()
    if status == 400 and ("context length" in text or "input length" in text):
        return _TooLong(text)
    return EmbedderError(f"Ollama at {url} answered with status {status}: {text[:200]}")


def _checked(url: str) -> str:
    """The address without a trailing slash. Raises ConfigError for all but plain loopback http and https."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError("RAG_MCP_OLLAMA_URL is not a well-formed address.") from error
    if parts.scheme not in ("http", "https") or not _is_loopback(host):
        raise ConfigError(
            "RAG_MCP_OLLAMA_URL must be an http or https address of this machine, like http://127.0.0.1:11434."
        )
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        raise ConfigError("RAG_MCP_OLLAMA_URL must not hold a user name, a password, a query or a fragment.")
    if any(letter.isspace() or not letter.isprintable() for letter in url) or "\\" in url:
        raise ConfigError("RAG_MCP_OLLAMA_URL must not hold spaces, control characters or backslashes.")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    """A literal loopback address, or the name localhost; any other name could be made to lead elsewhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
