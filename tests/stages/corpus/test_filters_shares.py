"""Filters that bound a share of characters, or a score."""

from __future__ import annotations

import pytest

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import FILTERS


def reason(
    name: str, text: str, language: str | None = None, title: str | None = None, **options: object
) -> str | None:
    document = RepairedDocument(text, len(text.split()), language, title)
    return FILTERS.get(name)(**options).reason(document)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "kept", "removed"),
    [
        ("digits", "123456 " + "x" * 53, "1234567 " + "x" * 52),
        ("symbols", "... " * 10 + "x" * 70, "... " * 10 + "x" * 69),
        ("uppercase", "ABCD efghij", "ABCDE fghijk"),
        (
            "code",
            "the function of the kidney falls if the patient drinks little",
            "var a = b[c](d); if (e) { f = {}; } else { g(); }",
        ),
    ],
)
def test_the_published_limit_is_the_default(name: str, kept: str, removed: str) -> None:
    option = "max_score" if name == "code" else "max_share"
    assert reason(name, kept) is None
    assert reason(name, removed) == option
    assert reason(name, removed, **{option: 1}) is None


def test_words_inside_words_are_no_code() -> None:
    assert reason("code", "varied scripture ifs " * 5) is None
    assert reason("code", "var script if " * 5) == "max_score"
