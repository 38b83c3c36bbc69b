"""Which models can be fetched by name, from where exactly, and how is each used?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rag_mcp.embedders.onnx_spec import BGE_PREFIX, MULTILINGUAL_E5_SMALL, OnnxSpec, Pooling
from rag_mcp.errors import ModelMissing

__all__ = ["CATALOGUE", "CatalogueModel", "ModelFile", "catalogue_spec"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """``repository`` at one commit of the hub; nothing of it is fetched but ``model`` and ``tokenizer``, and these only
    with the bytes named here."""

    name: str
    repository: str
    revision: str
    model: ModelFile
    tokenizer: ModelFile
    dimension: int
    licence: str
    languages: str
    pooling: Pooling
    max_tokens: int = 512
    query_prefix: str = ""
    document_prefix: str = ""

    @property
    def files(self) -> tuple[ModelFile, ...]:
        return self.model, self.tokenizer

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def folder(self, models: Path) -> Path:
        """Where it lies below the folder of models: another revision is another folder."""
        return models / self.name / self.revision[:12]

    def is_there(self, models: Path) -> bool:
        """Whether it was fetched; its bytes are checked when it is loaded."""
        return all((self.folder(models) / file.path).is_file() for file in self.files)


_BERT_TOKENIZER = ModelFile(
    "tokenizer.json", 711_396, "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
)

CATALOGUE: Mapping[str, CatalogueModel] = {
    model.name: model
    for model in (
        CatalogueModel(
            name=MULTILINGUAL_E5_SMALL,
            repository="intfloat/multilingual-e5-small",
            revision="614241f622f53c4eeff9890bdc4f31cfecc418b3",
            model=ModelFile(
                "onnx/model.onnx", 470_268_510, "ca456c06b3a9505ddfd9131408916dd79290368331e7d76bb621f1cba6bc8665"
            ),
            tokenizer=ModelFile(
                "onnx/tokenizer.json", 17_082_730, "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39"
            ),
            dimension=384,
            licence="MIT",
            languages="about 100",
            pooling=Pooling.MEAN,
            query_prefix="query: ",
            document_prefix="passage: ",
        ),
        CatalogueModel(
            name="bge-small-en-v1.5",
            repository="BAAI/bge-small-en-v1.5",
            revision="5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
            model=ModelFile(
                "onnx/model.onnx", 133_093_490, "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35"
            ),
            tokenizer=_BERT_TOKENIZER,
            dimension=384,
            licence="MIT",
            languages="English",
            pooling=Pooling.CLS,
            query_prefix=BGE_PREFIX,
        ),
        CatalogueModel(
            name="bge-large-en-v1.5",
            repository="BAAI/bge-large-en-v1.5",
            revision="d4aa6901d3a41ba39fb536a557fa166f842b0e09",
            model=ModelFile(
                "onnx/model.onnx", 1_336_854_281, "69ed3f810d3b6d13f70dff9ca89966f39c0a0e877fb88211be7bcc070df2a2ce"
            ),
            tokenizer=_BERT_TOKENIZER,
            dimension=1024,
            licence="MIT",
            languages="English",
            pooling=Pooling.CLS,
            query_prefix=BGE_PREFIX,
        ),
    )
}


def catalogue_spec(name: str, models: Path) -> OnnxSpec:
    """A fetched model. Raises ModelMissing with the command that fetches it."""
    model = CATALOGUE[name]
    if not model.is_there(models):
        raise ModelMissing(f"The model {name} is not on this machine. Run: rag-mcp models pull {name}")
    folder = model.folder(models)
    return OnnxSpec(
        name=name,
        model=folder / model.model.path,
        tokenizer=folder / model.tokenizer.path,
        dimension=model.dimension,
        max_tokens=model.max_tokens,
        pooling=model.pooling,
        query_prefix=model.query_prefix,
        document_prefix=model.document_prefix,
        expected={Path(file.path).name: file.sha256 for file in model.files},
    )
