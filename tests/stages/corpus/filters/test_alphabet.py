from __future__ import annotations

import pytest

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters.alphabet import Alphabet

SPANISH = "El niño acudió a urgencias con cefalea, náuseas y pingüe apetito desde el 3º día."
LABS = "Na 140, K 4.1, Cl 101, Cr 0.9, Hb 12.1, Hto 36.2 %"
POLISH = "Źródło żółć gęślą jaźń, zażółć ćmę"


def reason(text: str, language: str | None = "es", **options: object) -> str | None:
    return Alphabet(**options).reason(RepairedDocument(text, len(text.split()), language))  # type: ignore[arg-type]


def test_letters_of_other_alphabets_are_foreign() -> None:
    assert reason(SPANISH) is None
    assert reason(POLISH) == reason(POLISH, None) == "max_foreign"
    assert reason("Le cœur était très âgé, ça brûle à Noël, même où") == "max_foreign"
    assert reason("Le cœur était très âgé, ça brûle à Noël, même où", "fr") is None
    assert reason("Le cœur était très âgé, ça brûle à Noël, même où", languages=["es", "fr"]) is None
    assert reason("Le cœur était très âgé, ça brûle à Noël, même où", None) is None


def test_numbers_and_marks_are_foreign_only_if_asked() -> None:
    assert reason(LABS) is None
    assert reason(LABS, foreign="everything") == "max_foreign"
    assert reason(SPANISH, foreign="everything") is None


def test_a_document_needs_letters_of_a_script() -> None:
    assert reason("12 34 56") == reason("Боль в груди") == "scripts"
    assert reason("Боль в груди", scripts=["cyrillic"], max_foreign=1) is None
    assert reason("Боль é", max_foreign=1) is None
    assert reason("12 34 56", scripts=[]) is None


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match="the alphabet of language 'xx' is not known; known: ca, de, en"):
        Alphabet(languages=["xx"])
    assert reason(SPANISH, "xx") is None
