"""What a comparison found: the figures of every tokenizer, the terms it cuts worst, and where tokenizers differ most."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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


class Overlap(_Part):
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


class Comparison(_Part):
    """All of it, as `comparison.json` holds it."""

    corpus_documents: int
    """Documents of the corpus; the figures are about the sample, whose size every group states."""
    tokenizers: tuple[TokenizerFigures, ...]
    overlaps: tuple[Overlap, ...]
    terms: TermFacts
    differences: tuple[Difference, ...]
