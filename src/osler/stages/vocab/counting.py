"""Count a sample once, so that every tokenizer cuts each distinct word once.

Two units: a stretch is what stands between two blanks ("nefritis," with its comma), a word is one of `text.words` that has
a letter. Words never reach over a blank, so they are counted from the distinct stretches and not from the running text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from osler.stages.vocab.texts import Text
from osler.text.words import words

Group = tuple[str, str | None]
"""A source and a language."""


@dataclass
class Counts:
    """What some documents hold."""

    documents: int = 0
    stretches: Counter[str] = field(default_factory=Counter)

    @cached_property
    def words(self) -> Counter[str]:
        """Words with a letter only: punctuation is always whole and would flatter every tokenizer."""
        found: Counter[str] = Counter()
        for stretch, count in self.stretches.items():
            for start, end in words(stretch):
                word = stretch[start:end]
                if any(map(str.isalpha, word)):
                    found[word] += count
        return found

    @property
    def characters(self) -> int:
        """Characters, where every run of white space between two stretches is one blank."""
        length = sum((len(stretch) + 1) * count for stretch, count in self.stretches.items())
        return max(0, length - self.documents)


def count(texts: Iterable[Text]) -> dict[Group, Counts]:
    """The counts of every source and language, in sorted order."""
    groups: dict[Group, Counts] = {}
    for text in texts:
        counts = groups.setdefault((text.source, text.language), Counts())
        counts.documents += 1
        counts.stretches.update(text.text.split())
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] or "")))
