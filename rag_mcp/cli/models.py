"""``rag-mcp models``: which embedding models there are, where they lie, and the one command that fetches one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import say, say_json
from rag_mcp.config import Config
from rag_mcp.errors import InvalidArgument

if TYPE_CHECKING:
    from rag_mcp.embedders.catalogue import CatalogueModel
    from rag_mcp.embedders.onnx_spec import OnnxSpec

__all__ = ["models"]

_PACKAGED = "minilm"

models = typer.Typer(help="Embedding models by name: list them, fetch one, say where it lies.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="Name of the model, as in the list.")]


@models.command("list")
def list_models(as_json: params.Json = False) -> None:
    """List the models known by name: whether each is here, its licence, and how it is used."""
    from rag_mcp.embedders.catalogue import CATALOGUE

    folder = Config.load().models_folder
    rows = [_packaged_row(), *(_row(model, folder) for model in CATALOGUE.values())]
    if as_json:
        say_json({"models": rows})
        return
    for row in rows:
        say(_in_words(row))


def _in_words(row: Mapping[str, object]) -> str:
    state = "comes with the package" if row["name"] == _PACKAGED else "here" if row["here"] else "not here"
    prefixes = [f"{row[f'{what}_prefix']!r} before a {what}" for what in ("query", "document") if row[f"{what}_prefix"]]
    use = [
        f"{row['dimension']} numbers a passage",
        f"{row['max_tokens']} tokens",
        f"{row['pooling']} pooling",
        *prefixes,
    ]
    return f"{row['name']}: {state}\n  {row['languages']}, {row['licence']}, {row['megabytes']} MB\n  {', '.join(use)}"


def _row(model: CatalogueModel, folder: Path) -> dict[str, object]:
    source = {"repository": model.repository, "revision": model.revision}
    return {
        **_facts(model, model.size),
        "here": model.is_there(folder),
        "languages": model.languages,
        "licence": model.licence,
        **source,
    }


def _packaged_row() -> dict[str, object]:
    from rag_mcp.embedders.onnx_spec import minilm_spec

    spec = minilm_spec()
    return {**_facts(spec, spec.model.stat().st_size), "here": True, "languages": "English", "licence": "Apache-2.0"}


def _facts(model: CatalogueModel | OnnxSpec, size: int) -> dict[str, object]:
    names = ("name", "dimension", "max_tokens", "query_prefix", "document_prefix")
    return {**{name: getattr(model, name) for name in names}, "pooling": str(model.pooling), "megabytes": size // 10**6}


@models.command()
def pull(name: Name) -> None:
    """Fetch a model from the Hugging Face Hub (HF_ENDPOINT for a mirror). No other command opens a connection."""
    from rag_mcp.embedders.fetch import fetch

    model = _known(name)
    if model is None:
        say(f"{name} comes with the package: there is nothing to fetch.")
        return
    folder = fetch(model, Config.load().models_folder)
    say(f"{name} is in {folder} (licence: {model.licence}).")
    say(f"To use it, set RAG_MCP_EMBEDDER={name} for ingest and server, and ingest (CUTOVER.md).")


@models.command()
def path(name: Name) -> None:
    """Print the folder a model lies in. Exits with 1 when it is not here."""
    from rag_mcp.embedders.catalogue import catalogue_spec
    from rag_mcp.embedders.onnx_spec import minilm_spec

    model, folder = _known(name), Config.load().models_folder
    if model is None:
        say(str(minilm_spec().model.parent))
    elif catalogue_spec(name, folder):
        say(str(model.folder(folder)))


def _known(name: str) -> CatalogueModel | None:
    """The model of this name; None for the one that comes with the package. Raises InvalidArgument."""
    from rag_mcp.embedders.catalogue import CATALOGUE

    if name not in (_PACKAGED, *CATALOGUE):
        raise InvalidArgument("name", f"there is no model {name!r}.", allowed=[_PACKAGED, *CATALOGUE])
    return CATALOGUE.get(name)
