"""The scorer of wada2020: its published example, its reach over sentences and documents, and random tags against its rule."""

from __future__ import annotations

import random

import pytest

from osler.metrics.spans import score_anchored, score_spans
from osler.text.document import Document, Span
from osler.text.tags import Repair, Scheme, tags_to_spans
from osler.text.words import words

GOLD = "O O B I O | O B I O I O | B I I | I I O"
PREDICTED = "O O B I O | O B I O O O | B I I | I O I"
"""The example that the documentation of the published scorer works out; | is an empty line."""


def read(sentences: str, *, name: str = "d") -> Document:
    """A document with the mentions that tags say; each sentence is a line, read by itself as predictions are."""
    lines = [[tag if tag == "O" else f"{tag}-X" for tag in line.split()] for line in sentences.split("|")]
    text = "\n".join(" ".join(f"w{number}" for number in range(len(line))) for line in lines)
    spans: list[Span] = []
    cut = words(text)
    for line in lines:
        spans += tags_to_spans(line, cut[: len(line)], Scheme.BIO, Repair.B_ANCHORED)
        cut = cut[len(line) :]
    return Document(name, text, tuple(spans))


def anchored(document: Document) -> Document:
    """The same with every mention whole, as gold has it."""
    spans: list[Span] = []
    for span in document.spans:
        if span.attributes:
            spans[-1] = Span((*spans[-1].fragments, *span.fragments), "X")
        else:
            spans.append(Span(span.fragments, "X"))
    return document.with_(spans=tuple(spans))


def counts(gold: list[Document], predicted: list[Document]) -> tuple[float, float, float]:
    micro = score_anchored(gold, predicted).micro
    return micro.tp, micro.fp, micro.fn


def test_the_published_example():
    gold, predicted = anchored(read(GOLD)), read(PREDICTED)
    scores = score_anchored([gold], [predicted])
    assert (scores.micro.tp, scores.micro.fp, scores.micro.fn) == (1, 2, 2)
    assert scores.micro.precision == scores.micro.recall == scores.micro.f1 == pytest.approx(1 / 3)
    # conlleval would count every I- that follows an O or begins a sentence as a mention.
    assert score_spans([gold], [predicted]).micro.fp == 4


def test_a_discontinuous_mention_is_found_whole():
    gold = anchored(read("B I O O I O"))
    assert len(gold.spans[0].fragments) == 2
    assert counts([gold], [read("B I O O I O")]) == (1, 0, 0)


def test_an_inside_tag_continues_a_mention_of_an_earlier_document():
    gold = [read("B I", name="1"), read("O O O", name="2"), read("O B", name="3")]
    assert counts(gold, [read("B I", name="1"), read("O O O", name="2"), read("O B", name="3")]) == (2, 0, 0)
    # The stray tag spoils the mention it is joined to, two documents before.
    assert counts(gold, [read("B I", name="1"), read("O O O", name="2"), read("I B", name="3")]) == (1, 1, 1)


def test_an_inside_tag_with_nothing_before_it_is_dropped():
    assert counts([read("O B")], [read("I B")]) == (1, 0, 0)


def test_other_labels_are_left_alone():
    text = "a b c"
    gold = Document("d", text, (Span.at(0, 1, "X"), Span.at(2, 3, "Y")))
    stray = Span.at(4, 5, "X", attributes={"stray": "true"})
    scores = score_anchored([gold], [gold.with_(spans=(*gold.spans, stray))])
    assert {name: prf.tp for name, prf in scores.per_label.items()} == {"X": 0, "Y": 1}


def by_rule(tags: list[str]) -> set[tuple[int, ...]]:
    """The published rule on one sequence of tags: a B opens a mention, an I belongs to the last one."""
    mentions: list[list[int]] = []
    for place, tag in enumerate(tags):
        if tag == "B":
            mentions.append([place])
        elif tag == "I" and mentions:
            mentions[-1].append(place)
    return {tuple(mention) for mention in mentions}


@pytest.mark.parametrize("seed", range(30))
def test_random_tags_of_several_documents(seed):
    drawn = random.Random(seed)
    gold, predicted, gold_tags, predicted_tags = [], [], [], []
    for number in range(drawn.randint(1, 6)):
        lines = [drawn.choices("OBI", k=drawn.randint(1, 9)) for _ in range(drawn.randint(1, 4))]
        noisy = [[tag if drawn.random() < 0.8 else drawn.choice("OBI") for tag in line] for line in lines]
        flat = [tag for line in lines for tag in line]
        if "I" in flat and "B" not in flat[: flat.index("I")]:
            lines[0][0] = "B"  # a mention of gold begins in its own document
        gold.append(anchored(read(" | ".join(" ".join(line) for line in lines), name=str(number))))
        predicted.append(read(" | ".join(" ".join(line) for line in noisy), name=str(number)))
        gold_tags += [tag for line in lines for tag in line]
        predicted_tags += [tag for line in noisy for tag in line]
    want, have = by_rule(gold_tags), by_rule(predicted_tags)
    assert counts(gold, predicted) == (len(want & have), len(have - want), len(want - have))
