"""The page over a test module's own ``library``."""

import pytest
from page_site import Site


@pytest.fixture(scope="module")
def site(library, tmp_path_factory):
    with Site(library, tmp_path_factory.mktemp("tokens") / "tokens.json").running() as site:
        yield site


@pytest.fixture(scope="module")
def auditor(site):
    return site.signed_in("auditor")
