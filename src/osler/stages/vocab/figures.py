"""Figures of tokenizers: fertility on a corpus, and the typed result of a comparison."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from osler.artifacts.corpus import CorpusText
from osler.stages.vocab.tokenizers import Cutter
from osler.text.words import words

Group = tuple[str, str | None]
"""A source and a language."""


@dataclass
class WordCounts:
    """Counts over the documents of one group."""

    documents: int = 0
    strings: Counter[str] = field(default_factory=Counter)
    """Whitespace-separated strings: words with the punctuation around them."""

    @cached_property
    def words(self) -> Counter[str]:
        """Words with a letter. Punctuation is always one sub-word and would make every tokenizer look better."""
        found: Counter[str] = Counter()
        for string, count in self.strings.items():
            for start, end in words(string):
                word = string[start:end]
                if any(map(str.isalpha, word)):
                    found[word] += count
        return found

    @property
    def characters(self) -> int:
        """Characters, with each run of whitespace counted as one."""
        length = sum((len(string) + 1) * count for string, count in self.strings.items())
        return max(0, length - self.documents)


def count(documents: Iterable[CorpusText]) -> dict[Group, WordCounts]:
    """Count words by source and language, in sorted order."""
    groups: dict[Group, WordCounts] = defaultdict(WordCounts)
    for document in documents:
        counts = groups[document.source, document.language]
        counts.documents += 1
        counts.strings.update(document.text.split())
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] or "")))


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Ratios(_Frozen):
    """Figures of a tokenizer over some documents."""

    documents: int
    words: int
    fertility: float
    """Sub-words per word."""
    whole_words: float
    """Share of words that are one sub-word."""
    unknown_words: float
    """Share of words with an unknown part."""
    tokens_per_1000_characters: float


class FertilityFigures(_Frozen):
    """Figures over all documents, by source and by language."""

    total: Ratios
    sources: dict[str, Ratios]
    languages: dict[str, Ratios]

    def plain(self) -> dict[str, Any]:
        return self.total.model_dump() | self.model_dump(exclude={"total"})


def measure_fertility(cutter: Cutter, groups: Mapping[Group, WordCounts]) -> FertilityFigures:
    """Split every distinct word once and sum up."""
    strings = (string for counts in groups.values() for string in (*counts.words, *counts.strings))
    cuts = cutter.cuts(dict.fromkeys(strings))
    total: Counter[str] = Counter()
    sources: dict[str, Counter[str]] = defaultdict(Counter)
    languages: dict[str, Counter[str]] = defaultdict(Counter)
    for (source, language), counts in groups.items():
        here = Counter(documents=counts.documents, characters=counts.characters)
        for word, times in counts.words.items():
            cut = cuts[word]
            here["words"] += times
            here["subwords"] += times * cut.subwords
            here["whole"] += times * cut.whole
            here["unknown"] += times * cut.unknown
        here["tokens"] = sum(times * cuts[string].subwords for string, times in counts.strings.items())
        for sums in (total, sources[source], languages[language or "not stated"]):
            sums.update(here)
    return FertilityFigures(
        total=_ratios(total),
        sources={name: _ratios(sums) for name, sums in sources.items()},
        languages={name: _ratios(sums) for name, sums in sorted(languages.items())},
    )


def _ratios(sums: Counter[str]) -> Ratios:
    words = max(1, sums["words"])
    return Ratios(
        documents=sums["documents"],
        words=sums["words"],
        fertility=round(sums["subwords"] / words, 4),
        whole_words=round(sums["whole"] / words, 4),
        unknown_words=round(sums["unknown"] / words, 4),
        tokens_per_1000_characters=round(1000 * sums["tokens"] / max(1, sums["characters"]), 2),
    )


class TermRatios(_Frozen):
    """Figures over all medical terms, weighted by occurrence."""

    fertility: float
    """Sub-words per word of a term."""
    whole: float
    """Share of terms with one sub-word per word."""
    unknown: float
    """Share of terms with an unknown sub-word."""


class CutTerm(_Frozen):
    """A term and its sub-words."""

    term: str
    documents: int
    occurrences: int
    pieces: tuple[str, ...]
    """Readable sub-words."""
    shown: str


class TokenizerFigures(_Frozen):
    """Figures of one tokenizer."""

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


class Difference(_Frozen):
    """A term that the tokenizers split differently. Counts and sub-words are in the order of the tokenizers."""

    term: str
    documents: int
    occurrences: int
    counts: tuple[int, ...]
    shown: tuple[str, ...]


class TermFacts(_Frozen):
    """Where the terms come from, and how many there are."""

    from_file: bool
    given: int | None
    """Terms in the file, if one was given."""
    seen: int
    """Terms that occur in the sample."""
    used: int
    """Terms that occur in enough documents."""
    occurrences: int
    min_documents: int


class VocabularyOverlap(_Frozen):
    """Overlap of two vocabularies."""

    first: str
    second: str
    same_vocabulary: bool
    """The same tokens with the same ids: a model of one can read the ids of the other."""
    same_tokens: bool
    """The same tokens, possibly with other ids."""
    same_rules: bool
    """Also the same model, normaliser and pre-tokenizer: both split every text the same way."""
    shared: int
    """Shared entries without special tokens, compared by text and position in a word, without marks such as `##`."""
    shared_first: float
    """Share of the first vocabulary."""
    shared_second: float
    """Share of the second vocabulary."""

    @property
    def statement(self) -> str:
        """A sentence about equal vocabularies; empty if they differ."""
        pair = f"{self.first} and {self.second}"
        if self.same_vocabulary and self.same_rules:
            return f"{pair} have the same vocabulary and split every text the same way."
        if self.same_vocabulary:
            return f"{pair} have the same vocabulary but different rules (merges, scores, normaliser or pre-tokenizer)."
        return f"{pair} have the same tokens with different ids." if self.same_tokens else ""


class TokenizerComparison(_Frozen):
    """The result of a comparison, as stored in `comparison.json`."""

    corpus_documents: int
    """Documents of the corpus. The figures are measured on a sample; each states its number of documents."""
    tokenizers: tuple[TokenizerFigures, ...]
    overlaps: tuple[VocabularyOverlap, ...]
    terms: TermFacts
    differences: tuple[Difference, ...]
