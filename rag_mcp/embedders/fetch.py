"""How does a model get onto this machine, whole or not at all? The only code that opens a connection off it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from rag_mcp.config import environment
from rag_mcp.embedders.catalogue import CatalogueModel, ModelFile
from rag_mcp.errors import ConfigError, ModelNotFetched

__all__ = ["fetch"]

_HUB = "https://huggingface.co"
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_UNFINISHED = ".unfinished"


def fetch(model: CatalogueModel, models: Path) -> Path:
    """Fetch a model from the hub unless it is there with the right bytes, and return its folder.

    Files come one by one into a folder that nothing loads from, are compared with the digests of the catalogue, and get
    their name by a rename when all are right; a second attempt goes on with the files the first one finished. Raises
    ModelNotFetched, or ConfigError for an HF_ENDPOINT that is no address.
    """
    from filelock import FileLock

    target, unfinished = model.folder(models), models / _UNFINISHED / model.name / model.revision[:12]
    unfinished.mkdir(parents=True, exist_ok=True)
    with FileLock(models / _UNFINISHED / f"{model.name}.lock"):
        if all(_is_right(target / file.path, file) for file in model.files):
            return target
        for file in model.files:
            if not _is_right(unfinished / file.path, file):
                _download(model, file, unfinished)
        shutil.rmtree(unfinished / ".cache", ignore_errors=True)  # the hub library's own notes
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(unfinished, target)
    return target


def _is_right(path: Path, file: ModelFile) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


def _download(model: CatalogueModel, file: ModelFile, folder: Path) -> None:
    from huggingface_hub import hf_hub_download

    endpoint = _endpoint()
    try:
        path = hf_hub_download(
            model.repository,
            file.path,
            revision=model.revision,
            local_dir=folder,
            endpoint=endpoint,
            token=False,  # public models: nobody's key leaves this machine
        )
    except Exception as error:  # the library's own errors, its HTTP client's and the system's share no base class
        raise ModelNotFetched(
            f"{model.name} was not fetched from {endpoint}: {_reason(error)}. Nothing was changed. {_advice()}"
        ) from error
    if not _is_right(Path(path), file):
        Path(path).unlink()
        raise ModelNotFetched(
            f"{model.name} was not fetched: {endpoint} gave another {file.path} than the one this version knows "
            f"(SHA-256 {file.sha256[:12]}…). Nothing was changed. {_advice()}"
        )


def _endpoint() -> str:
    endpoint = (environment().get("HF_ENDPOINT", "").strip() or _HUB).rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"HF_ENDPOINT is {endpoint!r}: use an address such as {_HUB}.")
    return endpoint


def _reason(error: BaseException) -> str:
    """The error at the bottom says what happened; the library wraps it in advice on its own cache."""
    while error.__cause__ is not None:
        error = error.__cause__
    response = getattr(error, "response", None)
    if response is not None:
        return f"it answered {response.status_code}"
    if type(error).__name__ == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE is set"
    return " ".join(str(error).split()) or type(error).__name__


def _advice() -> str:
    variables = environment()
    proxies = [name for name in _PROXIES if variables.get(name) or variables.get(name.lower())]
    through = f"; a proxy is set ({', '.join(proxies)})" if proxies else ""
    return (
        f"Check the connection and HF_ENDPOINT{through}, or copy the model's files here by other means and set "
        "RAG_MCP_EMBEDDER=onnx and RAG_MCP_MODEL_DIR."
    )
