"""Bundles that the tests of serving share."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles import HEADS, make_bundle


@pytest.fixture(scope="session")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("serve") / "bundle", tokenizer_folder, tuple(HEADS))


@pytest.fixture(scope="session")
def pair_bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("serve") / "pairs", tokenizer_folder, ("entailment", "similarity"))
