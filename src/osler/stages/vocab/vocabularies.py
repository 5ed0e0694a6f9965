"""What two vocabularies have in common, whatever the algorithms behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osler.stages.vocab.comparison import Overlap
from osler.stages.vocab.cutting import Cutter
from osler.stages.vocab.pieces import Style

_RULES = ("normalizer", "pre_tokenizer", "model", "added_tokens")


def overlap(first: tuple[str, Cutter], second: tuple[str, Cutter]) -> Overlap:
    """Compare two vocabularies."""
    vocabularies = [cutter.tokenizer.get_vocab(with_added_tokens=True) for _, cutter in (first, second)]
    entries = [
        _entries(cutter, vocabulary) for (_, cutter), vocabulary in zip((first, second), vocabularies, strict=True)
    ]
    shared = len(entries[0] & entries[1])
    return Overlap(
        first=first[0],
        second=second[0],
        same_vocabulary=vocabularies[0] == vocabularies[1],
        same_tokens=set(vocabularies[0]) == set(vocabularies[1]),
        same_rules=all(first[1].description[part] == second[1].description[part] for part in _RULES),
        shared=shared,
        shared_first=round(shared / max(1, len(entries[0])), 4),
        shared_second=round(shared / max(1, len(entries[1])), 4),
    )


def _entries(cutter: Cutter, vocabulary: Mapping[str, int]) -> set[tuple[bool, bytes]]:
    added: dict[int, Any] = cutter.tokenizer.get_added_tokens_decoder()
    special = {number for number, token in added.items() if token.special}
    style = Style.of(cutter)
    return {style.entry(token) for token, number in vocabulary.items() if number not in special}
