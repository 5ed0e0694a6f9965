"""What the pages of the guide suppose, made once for each worker."""

from __future__ import annotations

import pytest
from shelf import Shelf


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Inputs, made when a page first needs them."""
    return Shelf(tmp_path_factory.mktemp("shelf"))
