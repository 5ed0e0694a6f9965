from __future__ import annotations

import pytest

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters.error_pages import ErrorPages
from osler.stages.corpus.presets import PRESETS


def reason(rule: ErrorPages, text: str, title: str | None = None) -> str | None:
    return rule.reason(RepairedDocument(text, len(text.split()), None, title))


@pytest.mark.parametrize("head", ["404 Not Found", "Error 404 - X", "Página no encontrada", "PAGE INTROUVABLE"])
def test_the_head_of_a_page_tells(head: str) -> None:
    assert reason(ErrorPages(), "Try again later.", head) == "words"
    assert reason(ErrorPages(), f"\n{head}\nTry again later.") == "words"
    assert reason(ErrorPages(), f"{head}\nTry again later.", "Asthma") is None
    assert reason(ErrorPages(first_line=False), f"{head}\nTry again later.") is None


@pytest.mark.parametrize("head", ["Medication errors found in 404 patients", "Server rooms and asthma"])
def test_titles_of_articles_stay(head: str) -> None:
    assert reason(ErrorPages(), "We counted them.", head) is None


def test_the_published_words_remove_them() -> None:
    rule = ErrorPages(**PRESETS["carrino2022"]["filters"]["error_pages"])
    assert reason(rule, "We counted them.", "Medication errors found in 404 patients") == "words"
    assert reason(rule, "404 Not Found") is None
