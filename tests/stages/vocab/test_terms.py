from __future__ import annotations

import pytest

from osler.artifacts.corpus import CorpusText
from osler.stages.vocab.terms import Term, TermCount, is_medical


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            "nephritis hypertension cardiomyopathy appendectomies lymphoma lymphomas anaemia bisoprolol osteoporosis",
        ),
        ("es", "nefritis hipertensión apendicectomía apendicectomia linfomas anemia hemorrágico estatina leucocitos"),
        ("fr", "néphrite hypertension appendicectomie lymphome ischémie hémorragique leucocytes échographie"),
        (None, "nephritis apendicectomía néphrite"),
        ("de", "nephritis apendicectomía néphrite"),
    ],
)
def test_words_made_of_medical_parts(language: str | None, words: str) -> None:
    assert [word for word in words.split() if not is_medical(word, language)] == []


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            "patient analysis hypothesis hypotheses photography diploma purposes academic oma hyper trophies trophy",
        ),
        ("es", "paciente análisis hipótesis fotografías idioma simpatía toma academia hipotecas"),
        ("fr", "patient visite limite chose analyses hypothèses photographie comme"),
        (None, "Nephritis NEPHRITIS hypertensión2 Paloma Roma hypo-tension"),
        ("en", "nefropatía néphrite"),
    ],
)
def test_everyday_words_names_and_words_of_another_language_are_not_medical(language: str | None, words: str) -> None:
    assert [word for word in words.split() if is_medical(word, language)] == []


def _count(counting: TermCount, *texts: str) -> None:
    for text in texts:
        counting.add(CorpusText("s", None, text))


def test_only_terms_of_enough_documents_count() -> None:
    counting = TermCount()
    texts = ["nephritis, nephritis and (lymphoma).", "Nephritis or nephritis; lymphoma-like", "lymphoma", "hepatitis"]
    _count(counting, *texts)
    assert counting.terms(2) == [Term("lymphoma", 3, 3, "lymphoma"), Term("nephritis", 2, 3, "nephritis")]
    assert counting.terms(3) == [Term("lymphoma", 3, 3, "lymphoma")]
    assert counting.seen == 3


def test_terms_of_a_list_may_have_several_words_and_any_case() -> None:
    counting = TermCount(["Insuficiencia cardíaca", "insuficiencia", "COVID-19", "nada"])
    _count(counting, "INSUFICIENCIA\n cardi\u0301aca por Covid-19.", "insuficiencia renal", "covid-18")
    assert counting.terms(1) == [
        Term("insuficiencia", 2, 2, "INSUFICIENCIA"),
        Term("COVID-19", 1, 1, "Covid-19"),
        Term("Insuficiencia cardíaca", 1, 1, "INSUFICIENCIA cardíaca"),
    ]
    assert counting.terms(1)[2].words == 2


def test_a_term_is_split_as_the_corpus_spells_it() -> None:
    """Terminologies begin every term with a capital, and some are all capitals: such words would be cut to bits."""
    counting = TermCount(["Renal Failure", "FEVER"])
    _count(counting, "Renal failure. Later renal failure and fever", "renal  failure; FEVER", "fever, Fever, fever")
    assert [(term.text, term.spelling) for term in counting.terms(1)] == [
        ("FEVER", "fever"),
        ("Renal Failure", "renal failure"),
    ]
