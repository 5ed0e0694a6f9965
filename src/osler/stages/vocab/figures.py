"""Figures of a tokenizer comparison: fertility, terms, differences and overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from osler.artifacts.corpus import CorpusText
from osler.stages.vocab.tokenizers import Cut, Cutter, EntryStyle
from osler.text.words import words

Group = tuple[str, str | None]
"""A source and a language."""


@dataclass
class WordCounts:
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


def count(texts: Iterable[CorpusText]) -> dict[Group, WordCounts]:
    """The counts of every source and language, in sorted order."""
    groups: dict[Group, WordCounts] = {}
    for text in texts:
        counts = groups.setdefault((text.source, text.language), WordCounts())
        counts.documents += 1
        counts.stretches.update(text.text.split())
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] or "")))


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


def strings(counts: Iterable[WordCounts]) -> list[str]:
    """Every distinct word and stretch, to be cut once."""
    return list(dict.fromkeys(text for here in counts for text in (*here.words, *here.stretches)))


def measure_fertility(cutter: Cutter, groups: Mapping[Group, WordCounts]) -> Figures:
    """Cut every distinct word once and sum up."""
    return figures(cutter.cuts(strings(groups.values())).__getitem__, groups)


def figures(cut: Callable[[str], Cut], groups: Mapping[Group, WordCounts]) -> Figures:
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


def _fertility(cut: Callable[[str], Cut], counts: WordCounts) -> Fertility:
    result = Fertility(documents=counts.documents, characters=counts.characters)
    for word, count in counts.words.items():
        found = cut(word)
        result.words += count
        result.pieces += count * found.pieces
        result.whole += count * found.whole
        result.unknown += count * found.unknown
    result.tokens = sum(count * cut(stretch).pieces for stretch, count in counts.stretches.items())
    return result


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Ratios(_Part):
    """Figures over some documents (see `fertility`)."""

    documents: int
    words: int
    fertility: float
    whole_words: float
    unknown_words: float
    tokens_per_1000_characters: float


class TermRatios(_Part):
    """Figures over all medical terms, by occurrence."""

    fertility: float
    """Pieces for each word of a term."""
    whole: float
    """The share of terms with one piece for each word."""
    unknown: float
    """The share of terms with an unknown piece."""


class CutTerm(_Part):
    """A term and the pieces one tokenizer cuts it into."""

    term: str
    documents: int
    occurrences: int
    pieces: tuple[str, ...]
    shown: str


class TokenizerFigures(_Part):
    """One tokenizer."""

    name: str
    model: str
    size: int
    unknown_token: str | None
    digest: str
    everything: Ratios
    sources: dict[str, Ratios]
    languages: dict[str, Ratios]
    terms: TermRatios | None
    worst: tuple[CutTerm, ...]


class Difference(_Part):
    """A term that tokenizers cut very differently."""

    term: str
    documents: int
    occurrences: int
    counts: tuple[int, ...]
    """Pieces, in the order of the tokenizers."""
    shown: tuple[str, ...]
    """The cuts, in the order of the tokenizers."""


class TermFacts(_Part):
    """Where the terms come from, and how many there are."""

    from_file: bool
    given: int | None
    """Terms of the list, where there is one."""
    seen: int
    """Terms that occur in the sample."""
    used: int
    """Those of them that enough documents have."""
    occurrences: int
    min_documents: int


class VocabularyOverlap(_Part):
    """Two vocabularies side by side."""

    first: str
    second: str
    same_vocabulary: bool
    """The same tokens with the same numbers: a model of the one can read what the other cuts."""
    same_tokens: bool
    """The same tokens, perhaps with other numbers."""
    same_rules: bool
    """The same model, normaliser and first cut too: every text is cut alike."""
    shared: int
    """Entries of both, special tokens aside; marks of beginning and going on are made alike first."""
    shared_first: float
    """Their share in the first vocabulary."""
    shared_second: float
    """Their share in the second vocabulary."""

    @property
    def statement(self) -> str:
        """In a sentence, what two equal vocabularies mean; "" where they are not equal."""
        pair = f"{self.first} and {self.second}"
        if self.same_vocabulary and self.same_rules:
            return f"{pair} have the same vocabulary and cut every text alike."
        if self.same_vocabulary:
            return f"{pair} have the same vocabulary, but cut by different rules (merges, scores, normaliser or first cut)."
        return f"{pair} have the same tokens under different numbers." if self.same_tokens else ""


class TokenizerComparison(_Part):
    """All of it, as `comparison.json` holds it."""

    corpus_documents: int
    """Documents of the corpus; the figures are about the sample, whose size every group states."""
    tokenizers: tuple[TokenizerFigures, ...]
    overlaps: tuple[VocabularyOverlap, ...]
    terms: TermFacts
    differences: tuple[Difference, ...]


_RULES = ("normalizer", "pre_tokenizer", "model", "added_tokens")


def overlap(first: tuple[str, Cutter], second: tuple[str, Cutter]) -> VocabularyOverlap:
    """Compare two vocabularies."""
    vocabularies = [cutter.tokenizer.get_vocab(with_added_tokens=True) for _, cutter in (first, second)]
    entries = [
        _entries(cutter, vocabulary) for (_, cutter), vocabulary in zip((first, second), vocabularies, strict=True)
    ]
    shared = len(entries[0] & entries[1])
    return VocabularyOverlap(
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
    style = EntryStyle.of(cutter)
    return {style.entry(token) for token, number in vocabulary.items() if number not in special}
