from __future__ import annotations

import pytest

from osler.text.language import LanguageGuess

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


@pytest.mark.parametrize("language", ["en", "es"])
def test_notes_of_the_clinic_are_recognised(language):
    from osler.clinic.notes import notes

    for note in notes(5, language=language, seed=3, split="test"):
        guess = LanguageGuess()
        guess.add(note.text)
        assert guess.sure == language
