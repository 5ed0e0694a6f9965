"""The pages of results, and the recipes beside them: every command is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_runs import RESULTS, run_page
from shelf import Shelf


@pytest.mark.parametrize("page", RESULTS)
def test_every_command_of_the_page_runs(page: str, shelf: Shelf, tmp_path: Path) -> None:
    run_page(page, shelf, tmp_path)
