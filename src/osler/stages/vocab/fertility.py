"""How finely a tokenizer cuts words: pieces per word, words kept whole, words it does not know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osler.stages.vocab.special import ID, UNKNOWN
from osler.text.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenizers import Tokenizer


@dataclass
class Fertility:
    """Sums over the words of some documents."""

    documents: int = 0
    words: int = 0
    pieces: int = 0
    whole: int = 0
    unknown: int = 0

    def plain(self) -> dict[str, Any]:
        """The sums as the ratios people compare."""
        words = max(1, self.words)
        return {
            "documents": self.documents,
            "words": self.words,
            "fertility": round(self.pieces / words, 4),
            "whole_words": round(self.whole / words, 4),
            "unknown_words": round(self.unknown / words, 4),
        }


def measure(tokenizer: Tokenizer, documents: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fertility over all documents, given as (source, text), and by source."""
    counts: dict[str, Counter[str]] = {}
    seen: Counter[str] = Counter()
    for source, text in documents:
        seen[source] += 1
        found = (text[start:end] for start, end in words(text))
        # Only words with a letter: punctuation is always whole and would flatter every tokenizer.
        counts.setdefault(source, Counter()).update(word for word in found if any(map(str.isalpha, word)))
    total = Fertility()
    sources = {}
    for source, words_here in sorted(counts.items()):
        here = _fertility(tokenizer, words_here, seen[source])
        sources[source] = here.plain()
        for name, value in vars(here).items():
            setattr(total, name, getattr(total, name) + value)
    return {**total.plain(), "sources": sources}


def _fertility(tokenizer: Tokenizer, counts: Counter[str], documents: int) -> Fertility:
    result = Fertility(documents=documents)
    # With a blank in front: that is how a word stands in running text.
    encodings = tokenizer.encode_batch([f" {word}" for word in counts], add_special_tokens=False)
    for count, encoding in zip(counts.values(), encodings, strict=True):
        result.words += count
        result.pieces += count * len(encoding.ids)
        result.whole += count * (len(encoding.ids) == 1)
        result.unknown += count * (ID[UNKNOWN] in encoding.ids)
    return result
