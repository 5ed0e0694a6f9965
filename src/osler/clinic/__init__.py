"""The synthetic clinic: made-up notes, abstracts and sentence pairs in English and Spanish with gold of every kind."""

from __future__ import annotations

from osler.clinic.abstracts import abstracts
from osler.clinic.entailment import entailment_pairs
from osler.clinic.notes import notes
from osler.clinic.raw import raw_texts
from osler.clinic.similarity import similarity_pairs

__all__ = ["abstracts", "entailment_pairs", "notes", "raw_texts", "similarity_pairs"]
