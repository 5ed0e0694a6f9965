"""What several distributions take from the clinic: notes of some kinds, and the names of official concept types."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count, islice

from osler.clinic.labels import Language, Split
from osler.clinic.notes import note
from osler.text.document import Document

CONCEPTS = {"PROBLEM": "problem", "TEST": "test", "DRUG": "treatment", "PROCEDURE": "treatment"}
"""Clinic label to the concept type of i2b2."""

SUMMARIES = frozenset({"discharge summary"})


def clinic_notes(
    n: int, seed: int, split: Split, *, kinds: Collection[str] = (), language: Language = "en"
) -> Iterator[Document]:
    """The first `n` notes, or the first of these kinds."""
    every = (note(number, language=language, seed=seed, split=split) for number in count())
    return islice((made for made in every if not kinds or made.meta["kind"] in kinds), n)
