"""The synthetic clinic: made-up notes, abstracts and sentence pairs in English and Spanish, with every kind of gold."""

from __future__ import annotations

from osler.clinic.notes import abstracts, notes
from osler.clinic.pairs import entailment_pairs, similarity_pairs
from osler.clinic.raw import raw_texts

__all__ = ["abstracts", "entailment_pairs", "notes", "raw_texts", "similarity_pairs"]
