"""A clean environment around every test, and a small corpus with a store of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Library


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith("RAG_MCP_"):
            monkeypatch.delenv(name)


@pytest.fixture
def library(tmp_path: Path):
    with Library(tmp_path / "corpus", tmp_path / "store") as found:
        yield found
