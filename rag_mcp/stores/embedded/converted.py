"""Texts of converted documents, so that each is converted once: named by the document's bytes and the converter.

Only a cache, and a copy of what documents hold: what no indexed document needs any more goes with the run that finds it
so. An entry that is torn or was changed counts as missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from rag_mcp.stores.embedded.files import make_folder, note_text, writing
from rag_mcp.text.decode import text_digest

__all__ = ["ConvertedTexts"]

_FOLDER = "converted"
_DIGEST_CHARS = 64


class ConvertedTexts:
    """The texts in one store's folder. ``digest`` is that of the document's bytes (``raw:<hex>``), ``version`` names
    format and converter. Writing raises StoreError or StoreReadOnly."""

    def __init__(self, root: Path) -> None:
        self._root, self._folder = root, root / _FOLDER

    def get(self, digest: str, version: str) -> str | None:
        try:
            kept = self._path(digest, version).read_bytes().decode("utf-8")
        except (OSError, ValueError):
            return None
        text = kept[_DIGEST_CHARS + 1 :]
        return text if kept[:_DIGEST_CHARS] == text_digest(text) else None

    def put(self, digest: str, version: str, text: str) -> None:
        with writing(self._root):
            make_folder(self._folder)
            note_text(self._path(digest, version), f"{text_digest(text)}\n{text}")

    def trim(self, keep: Collection[str]) -> None:
        """Drop the texts of all documents but those with the digests in ``keep``."""
        if not self._folder.is_dir():
            return
        names = {_hex(digest) for digest in keep}
        for path in self._folder.iterdir():
            if path.name.partition("-")[0] not in names:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, digest: str, version: str) -> Path:
        return self._folder / f"{_hex(digest)}-{version}"


def _hex(digest: str) -> str:
    return digest.removeprefix("raw:")
