"""Fetching a model: from a hub of the tests' own, whole or not at all, and checked again when it is loaded."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from rag_mcp.cli.app import command_line
from rag_mcp.config import Config
from rag_mcp.embedders import catalogue, embedder_identity, open_embedder
from rag_mcp.embedders.catalogue import CATALOGUE, CatalogueModel, ModelFile
from rag_mcp.embedders.fetch import fetch
from rag_mcp.embedders.onnx_spec import Pooling
from rag_mcp.errors import ConfigError, InvalidArgument, ModelDamaged, ModelMissing, ModelNotFetched

NAME, REPOSITORY, REVISION = "harbour-tiny", "quay/harbour-tiny", "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Serves ``files`` as the hub lays them out; ``cut`` names a file whose body ends in the middle."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    keys_seen: list[str] = field(default_factory=list)
    url: str = ""

    def got(self) -> list[str]:
        return [path for verb, path in self.asked if verb == "GET"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        root = f"/{REPOSITORY}/resolve/{REVISION}/"
        path = self.path.removeprefix(root)
        self.hub.asked.append((self.command, path))
        self.hub.keys_seen += filter(None, [self.headers.get("Authorization")])
        content = self.hub.files.get(path) if self.path.startswith(root) else None
        self.send_response(404 if content is None else 200)
        if content is not None:
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if body and content:
            cut = path == self.hub.cut
            self.wfile.write(content[: len(content) // 2] if cut else content)
            self.close_connection = self.close_connection or cut

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, model_folder: Callable[..., Path]) -> Iterator[Hub]:
    folder = model_folder()
    held = Hub({"onnx/model.onnx": (folder / "model.onnx").read_bytes(), "secret.bin": b"not asked for"})
    held.files["tokenizer.json"] = (folder / "tokenizer.json").read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": held}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    held.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", held.url)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)  # between attempts
    yield held
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def model(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    def pinned(path: str) -> ModelFile:
        return ModelFile(path, len(hub.files[path]), hashlib.sha256(hub.files[path]).hexdigest())

    made = CatalogueModel(
        name=NAME,
        repository=REPOSITORY,
        revision=REVISION,
        model=pinned("onnx/model.onnx"),
        tokenizer=pinned("tokenizer.json"),
        dimension=4,
        licence="MIT",
        languages="harbour",
        pooling=Pooling.CLS,
        max_tokens=40,
        query_prefix="anchor ",
    )
    monkeypatch.setattr(catalogue, "CATALOGUE", {NAME: made})
    monkeypatch.setattr("rag_mcp.embedders.CATALOGUE", {NAME: made})
    monkeypatch.setattr("rag_mcp.embedders.EMBEDDER_NAMES", (NAME,))
    return made


def config(models: Path) -> Config:
    return Config(embedder=NAME, models_dir=models)


def test_a_fetched_model_is_used_as_the_catalogue_says(hub: Hub, model: CatalogueModel, tmp_path: Path) -> None:
    folder = fetch(model, tmp_path / "models")
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == ["model.onnx", "tokenizer.json"]
    embedder = open_embedder(config(tmp_path / "models"))
    assert (embedder.name, embedder.dimension, embedder.max_tokens) == (NAME, 4, 40)
    # The first token decides, and it is the same with and without the prefix.
    assert np.allclose(embedder.embed_query("cable"), embedder.embed_documents(["derrick"])[0])


def test_nothing_but_the_listed_files_of_the_pinned_revision_is_asked_for(
    hub: Hub, model: CatalogueModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 34)
    fetch(model, tmp_path)
    assert {path for _, path in hub.asked} == {"onnx/model.onnx", "tokenizer.json"}
    assert hub.keys_seen == []


def test_a_model_that_is_there_is_not_fetched_again(hub: Hub, model: CatalogueModel, tmp_path: Path) -> None:
    folder = fetch(model, tmp_path)
    hub.asked.clear()
    assert fetch(model, tmp_path) == folder
    assert hub.asked == []


@pytest.mark.parametrize("spoilt", ["onnx/model.onnx", "tokenizer.json"])
def test_other_bytes_than_the_pinned_ones_are_refused_and_nothing_can_be_loaded(
    hub: Hub, model: CatalogueModel, tmp_path: Path, spoilt: str
) -> None:
    right = hub.files[spoilt]
    hub.files[spoilt] = right[:-1] + b"?"  # of the same size
    with pytest.raises(ModelNotFetched, match=f"another {spoilt}"):
        fetch(model, tmp_path)
    with pytest.raises(ModelMissing, match="rag-mcp models pull harbour-tiny"):
        embedder_identity(config(tmp_path))
    hub.files[spoilt] = right
    fetch(model, tmp_path)
    assert embedder_identity(config(tmp_path)).name == NAME


def test_a_download_that_breaks_off_leaves_nothing_to_load_and_goes_on_later(
    hub: Hub, model: CatalogueModel, tmp_path: Path
) -> None:
    hub.cut = "tokenizer.json"
    with pytest.raises(ModelNotFetched, match="Nothing was changed"):
        fetch(model, tmp_path)
    with pytest.raises(ModelMissing):
        open_embedder(config(tmp_path))
    hub.cut = ""
    hub.asked.clear()
    fetch(model, tmp_path)
    assert set(hub.got()) == {"tokenizer.json"}
    assert open_embedder(config(tmp_path)).embed_query("cable").any()


def test_a_file_changed_since_is_not_loaded_and_is_fetched_anew(
    hub: Hub, model: CatalogueModel, tmp_path: Path
) -> None:
    changed = fetch(model, tmp_path) / "onnx" / "model.onnx"
    changed.write_bytes(changed.read_bytes() + b" ")
    with pytest.raises(ModelDamaged, match="Run: rag-mcp models pull harbour-tiny"):
        open_embedder(config(tmp_path))
    fetch(model, tmp_path)
    assert open_embedder(config(tmp_path)).name == NAME


def test_a_file_the_hub_does_not_have_is_told_with_its_answer(hub: Hub, model: CatalogueModel, tmp_path: Path) -> None:
    del hub.files["tokenizer.json"]
    with pytest.raises(ModelNotFetched, match=f"from {hub.url}: it answered 404.*RAG_MCP_MODEL_DIR"):
        fetch(model, tmp_path)


def test_a_hub_out_of_reach_is_told_with_the_proxy_that_is_set_but_not_its_password(
    hub: Hub, model: CatalogueModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelNotFetched, match=r"from http://127.0.0.1:9: .*Check the connection and HF_ENDPOINT, or"):
        fetch(model, tmp_path)
    monkeypatch.setenv("HTTP_PROXY", "http://porter:hush@127.0.0.1:9")
    with pytest.raises(ModelNotFetched, match="a proxy is set \\(HTTP_PROXY\\)") as caught:
        fetch(model, tmp_path)
    assert "hush" not in str(caught.value)


def test_offline_mode_is_told_by_its_name(
    hub: Hub, model: CatalogueModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFetched, match="HF_HUB_OFFLINE is set"):
        fetch(model, tmp_path)
    assert hub.asked == []


@pytest.mark.parametrize("address", ["hub.example", "ftp://hub.example", "https://", "file:///etc"])
def test_an_endpoint_that_is_no_web_address_is_refused(
    model: CatalogueModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(ConfigError, match="HF_ENDPOINT"):
        fetch(model, tmp_path)


@pytest.mark.parametrize("known", CATALOGUE.values(), ids=CATALOGUE)
def test_every_model_is_pinned_to_a_commit_and_to_bytes(known: CatalogueModel) -> None:
    assert len(bytes.fromhex(known.revision)) == 20
    assert all(len(bytes.fromhex(file.sha256)) == 32 and file.size > 0 for file in known.files)
    assert known.licence and known.repository.count("/") == 1


def test_a_model_of_another_revision_is_not_taken_for_it(hub: Hub, model: CatalogueModel, tmp_path: Path) -> None:
    fetch(model, tmp_path).rename(tmp_path / NAME / "fedcba987654")
    with pytest.raises(ModelMissing):
        open_embedder(config(tmp_path))


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    monkeypatch.setenv("RAG_MCP_MODELS_DIR", str(tmp_path / "models"))
    return lambda *words: CliRunner().invoke(command_line(), ["models", *words])


def test_the_list_says_what_is_here_and_how_each_is_used(command: Callable[..., Result]) -> None:
    rows = {row["name"]: row for row in json.loads(command("list", "--json").stdout)["models"]}
    assert set(rows) == {"minilm", *CATALOGUE}
    assert [name for name, row in rows.items() if row["here"]] == ["minilm"]
    e5 = rows["multilingual-e5-small"]
    assert (e5["query_prefix"], e5["document_prefix"], e5["pooling"], e5["licence"]) == (
        "query: ",
        "passage: ",
        "mean",
        "MIT",
    )
    assert "bge-large-en-v1.5: not here" in command("list").stdout


def test_pull_fetches_and_path_finds(hub: Hub, model: CatalogueModel, command: Callable[..., Result]) -> None:
    missing = command("path", NAME)
    assert isinstance(missing.exception, ModelMissing)
    pulled = command("pull", NAME)
    assert pulled.exit_code == 0 and f"RAG_MCP_EMBEDDER={NAME}" in pulled.stdout
    (folder,) = command("path", NAME).stdout.splitlines()
    assert all((Path(folder) / file.path).is_file() for file in model.files)


def test_the_packaged_model_needs_no_fetching_and_an_unknown_one_is_told(
    hub: Hub, command: Callable[..., Result]
) -> None:
    assert "nothing to fetch" in command("pull", "minilm").stdout
    assert isinstance(command("pull", "harbour-huge").exception, InvalidArgument)
    assert hub.asked == []
