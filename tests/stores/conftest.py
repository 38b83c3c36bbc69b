"""Both stores behind one way to fill and open them."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres_server import new_database, short_folder, started, stopped
from shelves import EmbeddedShelf, PostgresShelf


@pytest.fixture(scope="session")
def server():
    with short_folder() as folder:
        found = started(Path(folder))
        yield found
        stopped(found)


@pytest.fixture(scope="module")
def database(server):
    return new_database(server)


@pytest.fixture(params=["embedded", "postgres"])
def shelf(request, tmp_path):
    if request.param == "embedded":
        made = EmbeddedShelf(tmp_path / "store")
    else:
        made = PostgresShelf(request.getfixturevalue("database"))
    yield made
    made.close()
