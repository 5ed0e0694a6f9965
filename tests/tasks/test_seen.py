"""Mentions that training had, and the others."""

from __future__ import annotations

from osler.tasks.catalogue import load_card
from osler.tasks.seen import mention_forms, score_by_form
from osler.text.document import Document, Span, TextPair


def drug(text: str, *mentions: str) -> Document:
    spans = [Span.at(text.index(m), text.index(m) + len(m), "DRUG", id=f"T{n}") for n, m in enumerate(mentions)]
    return Document("a", text, tuple(spans))


def test_forms_differ_in_more_than_case_and_space():
    parted = Document("a", "beta or gamma blocker", (Span(((0, 4), (14, 21)), "DRUG", id="T1"),))
    records = [drug("Acetyl \n Salicylic acid", "Acetyl \n Salicylic acid"), parted, TextPair("p", "x", "y")]
    assert mention_forms(records) == {"acetyl salicylic acid", "beta blocker"}


def test_a_mention_is_on_the_side_of_its_own_form():
    card = load_card("clinic-entities-en")
    gold = [drug("aspirin and heparin", "aspirin", "heparin")]
    # Heparin is found with a word too many: nothing that training had, and wrong.
    predicted = [drug("aspirin and heparin", "aspirin", "and heparin")]
    found = score_by_form(card, card.protocol_named(), gold, predicted, {"aspirin"})
    assert (found["seen"].tp, found["seen"].fp, found["seen"].fn) == (1, 0, 0)
    assert (found["unseen"].tp, found["unseen"].fp, found["unseen"].fn) == (0, 1, 1)
