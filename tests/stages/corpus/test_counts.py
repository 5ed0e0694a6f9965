from __future__ import annotations

import pytest

from osler.artifacts.corpus import Corpus
from osler.stages.corpus.counts import TextCounts, counts_of

NOTE = "Seen by Dr. Smith. No fever today."


@pytest.mark.parametrize("language", ["en", "pt", None])
def test_sentences_words_and_characters_are_counted(language) -> None:
    assert counts_of(NOTE, language) == TextCounts(2, 7, 34)
    assert counts_of("", language) == TextCounts(0, 0, 0)


def test_the_card_counts_text_before_and_after(build, jsonl) -> None:
    short, broken = "Too short. Really.", f"{NOTE} The patientâ€™s daughter was there."
    one, two = jsonl([NOTE * 2, short, broken], "one.jsonl"), jsonl([NOTE * 2, NOTE * 3], "two.jsonl")
    card = Corpus.open(build(one, two).path).card
    assert card is not None
    first = card.sources["one"]
    assert (first.read, first.read_sentences, first.read_words) == (3, 4 + 2 + 3, 13 + 3 + 12)
    assert (first.documents, first.sentences, first.words) == (2, 7, 25)
    assert first.read_characters == sum(map(len, (NOTE * 2, short, broken)))
    assert first.characters == len(NOTE * 2) + len(broken) - 2  # three broken characters are one
    assert (card.read_words, card.words) == (28 + 13 + 19, 25 + 19)
    assert first.words_per_document == {"8": 2}
    assert card.words_per_document == {"8": 2, "16": 1}


def test_removed_boilerplate_is_counted_before_and_not_after(build, jsonl) -> None:
    footer = "This letter was written by a machine. Do not answer it."
    texts = [f"Note {number}. {NOTE} Again.\n{footer}" for number in range(4)]
    corpus = build(jsonl(texts), boilerplate={"min_documents": 3})
    card = Corpus.open(corpus.path).card
    assert card is not None
    assert card.passages == {"boilerplate.line": 4}
    assert card.read_words - card.words == 4 * len(footer.split())
    assert card.read_sentences - card.sentences == 4 * 2
