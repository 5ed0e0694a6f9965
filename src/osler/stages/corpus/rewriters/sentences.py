"""Remove sentences that are too short, mostly numbers, code, repeated or in another language."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from osler.stages.corpus.filters.code import looks_like_code
from osler.stages.corpus.rewriters import Removal, Rewriter, Rewritten
from osler.text.characters import DIGITS
from osler.text.language import LanguageGuess, check_model, identify, is_evident
from osler.text.sentences import LANGUAGES, sentences
from osler.text.words import Range


class Sentences(Rewriter):
    """Bounds on each sentence; `max_digits = 1` turns that one off."""

    min_characters: int = Field(21, ge=0)
    """Minimum characters of a sentence."""
    min_words: int = Field(4, ge=0)
    """Minimum words of a sentence."""
    max_code: float = Field(0.25, ge=0)
    """Maximum code score, as in the filter `code`."""
    max_digits: float = Field(0.1, ge=0, le=1)
    """Share of digits, whitespace not counted, at which a sentence is removed."""
    repeated: bool = True
    """Remove sentences that occur earlier in the document. carrino2022's cleaner removes the first copy too."""
    min_confidence: float | None = Field(None, ge=0, le=1)
    """Remove sentences that are not recognised as the document's language, by a common word or with more than this confidence.
    By default, sentences of any language stay."""

    def check(self) -> None:
        if self.min_confidence is not None:
            check_model()

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        ranges = sentences(text, _splitting_language(text, language))
        if self.min_confidence is not None:
            language = language or identify(text).language
        kept: list[int] = []
        removed: list[Removal] = []
        seen: set[str] = set()
        for index, (start, end) in enumerate(ranges):
            sentence = text[start:end]
            reason = self._reason(sentence, language)
            if reason is None and self.repeated:
                reason = "repeated" if sentence in seen else None
                seen.add(sentence)
            if reason is None:
                kept.append(index)
            else:
                removed.append(Removal(reason, len(sentence)))
        return Rewritten(_joined(text, ranges, kept), tuple(removed)) if removed else Rewritten(text)

    def _reason(self, sentence: str, language: str | None) -> str | None:
        if len(sentence) < self.min_characters:
            return "min_characters"
        words = sentence.split()
        if len(words) < self.min_words:
            return "min_words"
        if looks_like_code(sentence, len(words), self.max_code):
            return "max_code"
        digits = DIGITS.count(sentence)
        if digits and self.max_digits < 1 and digits >= self.max_digits * sum(map(len, words)):
            return "max_digits"
        if self.min_confidence is not None and not is_evident(sentence, language):
            found = identify(sentence)
            if found.language != language or found.confidence <= self.min_confidence:
                return "min_confidence"
        return None


def _splitting_language(text: str, language: str | None) -> str:
    """Return the language of the text, or the nearest one that sentences can be split in."""
    if language in LANGUAGES:
        return language
    return LanguageGuess.of([text]).language


def _joined(text: str, ranges: Sequence[Range], kept: Sequence[int]) -> str:
    """Join the kept sentences. Where sentences between two of them are gone, the gap with most line breaks stays."""
    pieces = []
    run = 0  # place in `kept` where the current run of neighbours begins
    for place, index in enumerate(kept):
        following = kept[place + 1] if place + 1 < len(kept) else None
        if following == index + 1:
            continue
        pieces.append(text[ranges[kept[run]][0] : ranges[index][1]])
        run = place + 1
        if following is not None:
            gaps = (text[ranges[at][1] : ranges[at + 1][0]] for at in range(index, following))
            pieces.append(max(gaps, key=lambda gap: gap.count("\n")))
    return "".join(pieces)
