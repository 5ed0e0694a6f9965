"""How finely a tokenizer cuts: pieces per word, words kept whole, words it does not know, tokens per 1,000 characters.

`osler vocab train` states these figures of the vocabulary it learned, `osler vocab compare` of several side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from osler.stages.vocab.counting import Counts, Group
from osler.stages.vocab.cutting import Cut, Cutter

NOT_STATED = "not stated"
"""Stands for the language of documents whose corpus names none."""


@dataclass
class Fertility:
    """Sums over some documents."""

    documents: int = 0
    words: int = 0
    pieces: int = 0
    whole: int = 0
    unknown: int = 0
    characters: int = 0
    tokens: int = 0

    def add(self, other: Fertility) -> None:
        """Take in the sums of other documents."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def plain(self) -> dict[str, Any]:
        """The sums as the ratios people compare."""
        words = max(1, self.words)
        return {
            "documents": self.documents,
            "words": self.words,
            "fertility": round(self.pieces / words, 4),
            "whole_words": round(self.whole / words, 4),
            "unknown_words": round(self.unknown / words, 4),
            "tokens_per_1000_characters": round(1000 * self.tokens / max(1, self.characters), 2),
        }


@dataclass
class Figures:
    """The sums over everything, by source and by language."""

    total: Fertility = field(default_factory=Fertility)
    sources: dict[str, Fertility] = field(default_factory=dict)
    languages: dict[str, Fertility] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """All of it as ratios."""
        return {
            **self.total.plain(),
            "sources": {name: found.plain() for name, found in self.sources.items()},
            "languages": {name: found.plain() for name, found in sorted(self.languages.items())},
        }


def strings(counts: Iterable[Counts]) -> list[str]:
    """Every distinct word and stretch, to be cut once."""
    return list(dict.fromkeys(text for here in counts for text in (*here.words, *here.stretches)))


def measure(cutter: Cutter, groups: Mapping[Group, Counts]) -> Figures:
    """Cut every distinct word once and sum up."""
    return figures(cutter.cuts(strings(groups.values())).__getitem__, groups)


def figures(cut: Callable[[str], Cut], groups: Mapping[Group, Counts]) -> Figures:
    """The sums, given how each string is cut."""
    result = Figures()
    for (source, language), counts in groups.items():
        here = _fertility(cut, counts)
        for sums in (
            result.total,
            result.sources.setdefault(source, Fertility()),
            result.languages.setdefault(language or NOT_STATED, Fertility()),
        ):
            sums.add(here)
    return result


def _fertility(cut: Callable[[str], Cut], counts: Counts) -> Fertility:
    result = Fertility(documents=counts.documents, characters=counts.characters)
    for word, count in counts.words.items():
        found = cut(word)
        result.words += count
        result.pieces += count * found.pieces
        result.whole += count * found.whole
        result.unknown += count * found.unknown
    result.tokens = sum(count * cut(stretch).pieces for stretch, count in counts.stretches.items())
    return result
