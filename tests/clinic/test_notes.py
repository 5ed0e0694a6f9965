"""Notes are reproducible, gold is in place, every label occurs, and splits share no names."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable

import pytest
from clinic_labels import ASSERTIONS, DRUG_KINDS, ENTITY_LABELS, EVENT_LABELS, RELATION_ARGUMENTS, RELATION_LABELS

from osler.clinic import notes
from osler.clinic.case import NOTES_PER_PATIENT
from osler.clinic.labels import CONDITION_LABELS, ID_KINDS, LANGUAGES, PHI_LABELS, SPECIALTIES, SPLITS, Language, Split
from osler.clinic.lexicon import lexicon
from osler.clinic.notes import note
from osler.core.errors import InputError
from osler.text.document import Document, check_text

Made = Callable[[Language, Split], list[Document]]
BOTH = pytest.mark.parametrize("language", LANGUAGES)
ALL = pytest.mark.parametrize(("language", "split"), [(one, other) for one in LANGUAGES for other in SPLITS])


@BOTH
def test_the_same_arguments_give_the_same_notes(language: Language) -> None:
    first = list(notes(12, language=language, seed=5, split="train"))
    assert first == list(notes(12, language=language, seed=5, split="train"))
    assert [document.text for document in first] != [
        document.text for document in notes(12, language=language, seed=6, split="train")
    ]


@BOTH
def test_a_note_does_not_depend_on_how_many_are_made(language: Language, made: Made) -> None:
    assert list(notes(7, language=language, seed=11, split="dev")) == made(language, "dev")[:7]
    assert note(41, language=language, seed=11, split="dev") == made(language, "dev")[41]


@ALL
def test_spans_lie_on_text_and_overlap_only_where_they_share_a_noun(
    language: Language, split: Split, made: Made
) -> None:
    for document in made(language, split):
        check_text(document.text, where=document.id)
        last = 0
        for span in document.spans:
            for start, end in span.fragments:
                piece = document.text[start:end]
                assert piece
                assert piece == piece.strip()
            if not span.discontinuous and not any(
                other.discontinuous and other.start <= span.end and span.start <= other.end for other in document.spans
            ):
                assert span.start >= last
                last = span.end
        assert [span.id for span in document.spans] == [f"T{k + 1}" for k in range(len(document.spans))]


@BOTH
def test_some_mentions_are_discontinuous_and_few(language: Language, made: Made) -> None:
    documents = made(language, "train")
    broken = [span for document in documents for span in document.spans if span.discontinuous]
    assert 0 < len(broken) < len(documents)
    assert {span.label for span in broken} == {"PROBLEM"}


@ALL
def test_every_label_occurs_in_every_split(language: Language, split: Split, made: Made) -> None:
    documents = made(language, split)
    spans = [span for document in documents for span in document.spans]
    assert {span.label for span in spans} == {*ENTITY_LABELS, *EVENT_LABELS, *PHI_LABELS}
    assert {span.attributes["assertion"] for span in spans if span.label == "PROBLEM"} == set(ASSERTIONS)
    assert {span.attributes["kind"] for span in spans if span.label == "ID"} == set(ID_KINDS)
    assert {span.attributes["kind"] for span in spans if span.label == "DRUG"} == set(DRUG_KINDS)
    assert {relation.label for document in documents for relation in document.relations} == set(RELATION_LABELS)
    assert {label for document in documents for label in document.labels} == set(CONDITION_LABELS)
    assert {document.meta["specialty"] for document in documents} == set(SPECIALTIES)
    assert {document.value for document in documents} == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}


@ALL
def test_relations_link_the_right_labels(language: Language, split: Split, made: Made) -> None:
    for document in made(language, split):
        spans = {span.id: span for span in document.spans}
        keys = [relation.key for relation in document.relations]
        assert len(set(keys)) == len(keys)
        for relation in document.relations:
            heads, tails = RELATION_ARGUMENTS[relation.label]
            head, tail = spans[relation.head], spans[relation.tail]
            assert head.label in heads
            assert tail.label in tails
            assert relation.head != relation.tail
            if relation.label == "PIP" or relation.label.startswith("DDI"):
                assert head.start < tail.start


@BOTH
def test_no_person_is_in_two_splits(language: Language, made: Made) -> None:
    def people(split: Split) -> set[str]:
        return {
            re.sub(r"\s+", " ", span.text_in(document.text)).lower()
            for document in made(language, split)
            for span in document.spans
            if span.label in ("PATIENT", "DOCTOR") and " " in span.text_in(document.text)
        }

    train, dev, test = (people(split) for split in SPLITS)
    assert len(train) > 100
    assert not train & test
    assert not train & dev
    assert not dev & test


@BOTH
def test_a_patient_has_more_than_one_note_and_one_record_number(language: Language, made: Made) -> None:
    by_patient: dict[str, set[str]] = {}
    for document in made(language, "train"):
        identifiers = {
            span.text_in(document.text).upper()
            for span in document.spans
            if span.attributes.get("kind") == "MEDICALRECORD"
        }
        by_patient.setdefault(document.meta["patient"], set()).update(identifiers)
    assert len(by_patient) == len(made(language, "train")) // NOTES_PER_PATIENT
    # A letter may omit the number, but nobody has two.
    assert max(len(identifiers) for identifiers in by_patient.values()) == 1
    assert sum(len(identifiers) for identifiers in by_patient.values()) > 0.9 * len(by_patient)


@BOTH
def test_notes_are_of_many_lengths_and_shapes(language: Language, made: Made) -> None:
    documents = [document for split in SPLITS for document in made(language, split)]
    lengths = [len(document.text.split()) for document in documents]
    assert 220 < sorted(lengths)[len(lengths) // 2] < 420
    assert min(lengths) > 100
    assert sum(length > 800 for length in lengths) > 5
    assert sum(length > 1500 for length in lengths) > 1
    wrapped = [document for document in documents if max(map(len, document.text.split("\n"))) <= 90]
    assert 0.2 < len(wrapped) / len(documents) < 0.6
    assert any("\n" in span.text_in(document.text) for document in wrapped for span in document.spans)
    assert len({document.meta["kind"] for document in documents}) == 6


@BOTH
def test_assertions_depend_on_context_not_on_the_problem(language: Language, made: Made) -> None:
    seen: dict[str, Counter[str]] = {}
    for document in made(language, "train"):
        for span in document.spans:
            if span.label == "PROBLEM":
                surface = span.text_in(document.text).lower()
                seen.setdefault(surface, Counter())[span.attributes["assertion"]] += 1
    often = [counts for counts in seen.values() if counts.total() >= 20]
    assert sum(len(counts) > 1 for counts in often) > 0.6 * len(often)


_PULSE = {"hr", "p", "pulse", "fc", "frecuencia cardíaca", "frecuencia cardiaca"}
_SATURATION = {"spo2", "o2 sat", "saturating", "sat", "sato2", "saturación", "saturacion"}
_PRESSURE = {"bp", "blood pressure", "ta", "pa", "tensión arterial", "tension arterial"}
_TEMPERATURE = {"t", "temp", "temperature", "tmax", "tª", "tª máx.", "tª max.", "temperatura"}
_VITALS = {*_PULSE, *_SATURATION, *_PRESSURE, *_TEMPERATURE}


@BOTH
def test_the_severity_can_be_read_from_the_text(language: Language, made: Made) -> None:
    intensive = {name.lower() for name in lexicon(language, "test").studies["intensive"]}
    for document in made(language, "test"):
        signs: dict[str, bool] = {}
        for span in document.spans:
            name = " ".join(span.text_in(document.text).lower().split())
            # A sloppy writer misspells vital signs too.
            name = next(iter(difflib.get_close_matches(name, _VITALS, n=1, cutoff=0.85)), name)
            if span.label == "DEPARTMENT" and name in intensive:
                signs["icu"] = True
            number = re.match(r"\s+(\d+(?:[.,]\d)?)", document.text[span.end :])
            if span.label != "TEST" or number is None:
                continue
            value = float(number[1].replace(",", "."))
            if name in _PULSE:
                signs.setdefault("pulse", value > 110)
            elif name in _SATURATION:
                signs.setdefault("saturation", value < 91)
            elif name in _PRESSURE:
                signs.setdefault("pressure", value < 95)
            elif name in _TEMPERATURE:
                signs.setdefault("temperature", value > 101 or 38.4 < value < 45)
        assert {"pulse", "saturation", "pressure", "temperature"} <= set(signs)
        assert sum(signs.values()) == document.value


def test_a_wrong_choice_is_refused_with_the_right_ones() -> None:
    with pytest.raises(InputError, match=r"no language 'fr'.*en or es"):
        notes(1, language="fr", seed=0, split="train")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no split 'tset'.*did you mean test"):
        notes(1, language="en", seed=0, split="tset")  # type: ignore[arg-type]
