"""Raw text is reproducible and has the dirt that it claims; abstracts have gold in place."""

from __future__ import annotations

import pytest
from clinic_labels import DDI_LABELS, ENTITY_LABELS, RELATION_ARGUMENTS

from osler.clinic import abstracts, raw_texts
from osler.clinic.labels import LANGUAGES, Language
from osler.clinic.raw import KINDS, mojibake, raw_kind, raw_original

BOTH = pytest.mark.parametrize("language", LANGUAGES)


@BOTH
def test_records_are_stable_and_of_every_kind(language: Language) -> None:
    records = list(raw_texts(300, language, 3))
    assert list(raw_texts(40, language, 3)) == records[:40]
    assert len({record["id"] for record in records}) == 300
    assert {raw_kind(number, language, 3) for number in range(300)} == set(KINDS)
    assert {record["source"] for record in records} == {"notes", "abstracts", "web"}


@BOTH
def test_each_kind_of_defect_is_in_the_text(language: Language) -> None:
    records = [record["text"] for record in raw_texts(300, language, 3)]
    for number, text in enumerate(records):
        kind = raw_kind(number, language, 3)
        if kind == "duplicate":
            original = raw_original(number, language, 3)
            assert original < number
            assert text == records[original]
        elif kind == "near-duplicate":
            original = raw_original(number, language, 3)
            shared = set(text.split("\n")) & set(records[original].split("\n"))
            assert text != records[original]
            assert len(shared) >= len(set(records[original].split("\n"))) - 2
        elif kind == "junk":
            assert len(text) < 20
        elif kind == "boilerplate":
            assert len(set(text.split("\n"))) == 1
        elif kind == "control":
            assert any(character in text for character in "\x07\x0b\x1b\x7f\u200b\ufeff\u00ad")
        elif kind in ("note", "abstract"):
            assert text.replace("\n", "").isprintable()
            assert "Ã" not in text


@BOTH
def test_mojibake_can_be_undone(language: Language) -> None:
    ftfy = pytest.importorskip("ftfy")
    records = [record["text"] for record in raw_texts(300, language, 3)]
    broken = [text for number, text in enumerate(records) if raw_kind(number, language, 3) == "mojibake"]
    assert broken
    assert all("Â" in text for text in broken)
    assert ftfy.fix_text(mojibake("Dña. Núñez – ½ comprimido")) == "Dña. Núñez – ½ comprimido"


@BOTH
def test_abstracts_hold_drug_interactions_and_no_phi(language: Language) -> None:
    made = list(abstracts(120, language=language, seed=3, split="test"))
    assert list(abstracts(5, language=language, seed=3, split="test")) == made[:5]
    assert {relation.label for document in made for relation in document.relations} >= set(DDI_LABELS)
    for document in made:
        labels = {span.id: span.label for span in document.spans}
        assert set(labels.values()) <= set(ENTITY_LABELS)
        for relation in document.relations:
            heads, tails = RELATION_ARGUMENTS[relation.label]
            assert labels[relation.head] in heads
            assert labels[relation.tail] in tails
        assert all(span.text_in(document.text) == span.text_in(document.text).strip() for span in document.spans)
