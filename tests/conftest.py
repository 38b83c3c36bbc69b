"""A clean environment around every test, and a small corpus with a store of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from support import Library

# A run of the suite takes the same examples every time; scripts/fuzz.py asks for the other profile.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False, print_blob=True)
settings.load_profile("repeatable")


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
