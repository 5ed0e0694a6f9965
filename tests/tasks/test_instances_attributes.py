"""Attributes of mentions: what is trained on, and how outputs at the words of a mention become its attributes."""

from __future__ import annotations

import numpy as np
import pytest

from osler.artifacts.tokenizer import Tokenizer
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import IGNORED, make_builder
from osler.text.document import Document, Span

TEXT = "He denies chest pain and fever . Possible pneumonia of the left lung . His mother had asthma ."
NAMES = ("negated", "possible", "someone_else")


def mention(text: str, *attributes: str) -> Span:
    start = TEXT.index(text)
    return Span.at(start, start + len(text), "PROBLEM", attributes=dict.fromkeys(attributes, "yes"))


DOCUMENT = Document(
    "1",
    TEXT,
    (
        mention("chest pain", "negated"),
        mention("fever", "negated"),
        mention("pneumonia of the left lung", "possible"),
        mention("asthma", "someone_else"),
        mention("mother"),
    ),
)


@pytest.fixture(scope="module")
def builder(tokenizer_folder):
    values = {"name": "t", "title": "t", "kind": "attributes", "language": "en", "labels": NAMES}
    values |= {"source": {"reader": "clinic"}, "protocol": "p", "protocols": {"p": {"metric": "f1"}}}

    def make(max_length: int = 512):
        return make_builder(TaskCard.model_validate(values), None, Tokenizer.open(tokenizer_folder), max_length, 6)

    return make


def perfect(instances) -> list[np.ndarray]:
    """Outputs that know every target; where there is none, they claim every attribute."""
    return [
        np.array([[20.0 if t == IGNORED or t >> bit & 1 else -20.0 for bit in range(3)] for t in i.target], np.float32)
        for i in instances
    ]


@pytest.mark.parametrize("max_length", [24, 512])
def test_attributes_survive_tokens_windows_and_back(builder, max_length):
    made = builder(max_length)
    instances = made.build([DOCUMENT], gold=True).instances
    assert (len(instances) > 1) == (max_length == 24)
    bare = DOCUMENT.with_(spans=tuple(Span(s.fragments, s.label, s.id) for s in DOCUMENT.spans))
    assert made.decode([bare], instances, perfect(instances)) == [DOCUMENT]


def test_only_words_of_mentions_are_trained_on_once_each(builder):
    instances = builder(24).build([DOCUMENT], gold=True).instances
    words = sum(len(span.text_in(TEXT).split()) for span in DOCUMENT.spans)
    assert sum(builder().weight(instance) for instance in instances) == words


def test_a_word_of_two_mentions_has_the_attributes_of_the_shorter(builder):
    nested = Document("1", TEXT, (mention("left lung", "negated"), mention("pneumonia of the left lung", "possible")))
    [instance] = builder().build([nested], gold=True).instances
    assert [int(bits) for bits in instance.target if bits != IGNORED] == [2, 2, 2, 1, 1]


def test_the_mean_over_the_words_decides(builder):
    made = builder()
    [instance] = made.build([DOCUMENT], gold=True).instances
    output = np.full((instance.length, 3), -1.0, np.float32)
    first = int(np.flatnonzero(instance.target != IGNORED)[0])
    output[first, 0] = 1.5  # one of the two words of "chest pain"
    [found] = made.decode([DOCUMENT], [instance], [output])
    assert [dict(span.attributes) for span in found.spans] == [{"negated": "yes"}, {}, {}, {}, {}]
    output[first, 0] = 0.5
    [found] = made.decode([DOCUMENT], [instance], [output])
    assert not any(span.attributes for span in found.spans)
