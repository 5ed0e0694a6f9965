from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from osler.metrics.spans import score_tokens
from osler.text.document import Document, Span
from osler.text.words import words


def test_every_word_of_a_mention_counts() -> None:
    text = "acute renal failure today"
    gold = [Document("d", text, (Span.at(0, 19, "PROBLEM"),))]
    predicted = [Document("d", text, (Span.at(6, 25, "PROBLEM"),))]
    micro = score_tokens(gold, predicted).micro
    assert (micro.tp, micro.fp, micro.fn) == (2, 1, 1)


def test_a_word_covered_in_part_is_covered() -> None:
    gold = [Document("d", "hyperkalaemia", (Span.at(0, 5, "A"),))]
    predicted = [Document("d", "hyperkalaemia", (Span.at(5, 13, "A"),))]
    assert score_tokens(gold, predicted).micro.f1 == 1


@settings(max_examples=60, deadline=None)
@given(st.text("ab .", min_size=1, max_size=40), st.integers(0, 39), st.integers(1, 40))
def test_a_mention_covers_the_words_it_shares_characters_with(text: str, start: int, length: int) -> None:
    start = min(start, len(text) - 1)
    span = Span.at(start, min(start + length, len(text)), "A")
    document = Document("d", text, (span,))
    covered = sum(left < span.end and span.start < right for left, right in words(text))
    assert score_tokens([document], [document]).micro.tp == covered
