"""Notes of the synthetic clinic, made once for these tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from osler.clinic import notes
from osler.clinic.labels import Language, Split
from osler.text.document import Document


@cache
def _made(language: Language, split: Split) -> list[Document]:
    return list(notes(240, language=language, seed=11, split=split))


@pytest.fixture(scope="session")
def made() -> Callable[[Language, Split], list[Document]]:
    return _made
