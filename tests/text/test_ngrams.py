"""Hashes of runs of words, compared with the words themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osler.text.ngrams import folded_words, ngrams

TEXTS = [
    "El paciente, de 54 años, refirió DOLOR torácico desde hacía dos días.",
    "el paciente de 54 anos refirio dolor toracico desde hacia dos dias",
    "",
    " ... \n\t",
    "die Straße, ﬁeber ½ Tablette … 𝛼-Blocker 𠀀 ok \u00ad und\u200b so",
    "TGF-β and IL-6 (p < 0.05)",
    "дважды в день после еды",
]


def runs_of(text: str, length: int) -> list[tuple[str, ...]]:
    words = folded_words(text)
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]


def check(texts: list[str], length: int) -> None:
    hashes, counts = ngrams(texts, length)
    expected = [runs_of(text, length) for text in texts]
    assert counts.tolist() == [len(runs) for runs in expected]
    flat = [run for runs in expected for run in runs]
    assert len(hashes) == len(flat)
    # Equal runs have equal hashes and others have different ones.
    assert len(dict.fromkeys(zip(flat, hashes.tolist(), strict=True))) == len(set(flat)) == len(set(hashes.tolist()))


@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_every_run_of_folded_words_has_its_own_hash(length):
    check(TEXTS, length)


@given(st.lists(st.text(max_size=60), max_size=5), st.integers(1, 4))
def test_any_text_gives_the_runs_of_its_folded_words(texts, length):
    check(texts, length)


def test_case_accents_and_punctuation_do_not_matter():
    first, second = (set(ngrams([text], 5)[0].tolist()) for text in TEXTS[:2])
    assert first == second
    assert len(first) == 8


def test_a_hash_does_not_depend_on_the_texts_around_it():
    alone = [ngrams([text], 3)[0] for text in TEXTS]
    together, counts = ngrams(TEXTS, 3)
    for number, part in enumerate(np.split(together, np.cumsum(counts)[:-1])):
        assert np.array_equal(part, alone[number])


def test_hashes_are_the_same_in_every_process_and_version():
    assert ngrams(["uno dos tres"], 3)[0].tolist() == [3146895916479405746]


def test_no_text_has_no_runs():
    assert [len(array) for array in ngrams([], 9)] == [0, 0]
