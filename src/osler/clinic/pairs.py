"""Sentence pairs of the synthetic clinic: entailment with its three labels, and similarity from 0 to 5."""

from __future__ import annotations

from osler.clinic.entailment import entailment_pair, entailment_pairs
from osler.clinic.similarity import similarity_pair, similarity_pairs

__all__ = ["entailment_pair", "entailment_pairs", "similarity_pair", "similarity_pairs"]
