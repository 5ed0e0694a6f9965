"""Data files: every template can be rendered, every name in it exists, and each split has words of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clinic_labels import ENTITY_LABELS, EVENT_LABELS, RELATION_LABELS

from osler.clinic.dice import Dice
from osler.clinic.labels import CONDITION_LABELS, LANGUAGES, PHI_LABELS, SPLITS, Language
from osler.clinic.lexicon import bucket, lexicon, share, table
from osler.clinic.slots import NoteScribe
from osler.clinic.template import Node, Slot, TemplateChoice, parse

BOTH = pytest.mark.parametrize("language", LANGUAGES)
NO_TEMPLATES = {"kinds", "headings", "words", "lists", "doctor_titles", "days"}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _strings(entry)


def _slots(nodes: tuple[Node, ...]) -> Iterator[Slot]:
    for node in nodes:
        if isinstance(node, TemplateChoice):
            for option in node.options:
                yield from _slots(option)
        elif isinstance(node, Slot):
            yield node
            yield from _slots(node.literal or ())


def _known(kind: str) -> bool:
    return kind in table("slots") or hasattr(NoteScribe, f"write_{kind}") or hasattr(NoteScribe, f"{kind}_words")


@BOTH
@pytest.mark.parametrize("name", ["notes", "abstracts"])
def test_every_template_names_known_slots_labels_and_relations(language: Language, name: str) -> None:
    data = table(language, name)
    words = set(table(language, "notes")["words"]["F"])
    labels = {*ENTITY_LABELS, *EVENT_LABELS, *PHI_LABELS}
    for key, entry in data.items():
        if key in NO_TEMPLATES:
            continue
        for source in _strings(entry):
            if "{name}" in source:
                continue
            template = parse(source)
            slots = list(_slots(template.nodes))
            named = {slot.name for slot in slots if slot.name}
            for slot in slots:
                if slot.literal is not None:
                    assert slot.kind in labels, source
                else:
                    assert _known(slot.kind) or slot.kind in words, source
            for link in template.links:
                assert link[0] in RELATION_LABELS or link[0] == "attrs", source
                assert named.issuperset(link[1:]), source


@BOTH
def test_both_languages_have_the_same_sections_and_classes(language: Language) -> None:
    english = table("en", "notes")
    here = table(language, "notes")
    assert [kind["sections"] for kind in here["kinds"]] == [kind["sections"] for kind in english["kinds"]]
    assert set(here["headings"]) == set(english["headings"])
    assert set(table(language, "drugs")["classes"]) == set(table("en", "drugs")["classes"])
    assert set(here["words"]["F"]) == set(here["words"]["M"])


@BOTH
def test_diseases_name_classes_and_labels_that_exist(language: Language) -> None:
    words = lexicon(language, "train")
    labels = set()
    for specialty in words.specialties.values():
        for problem in (*specialty.acute, *specialty.chronic, *specialty.coined):
            assert set(problem.classes) <= set(words.classes)
            labels |= {problem.label} - {""}
    assert labels == set(CONDITION_LABELS)
    assert set(words.sig["relief"]) <= set(words.classes)


@BOTH
def test_coined_names_and_surnames_belong_to_one_split(language: Language) -> None:
    train, dev, test = (lexicon(language, split) for split in SPLITS)
    for one, other in ((train, dev), (train, test), (dev, test)):
        assert not set(one.surnames) & set(other.surnames)
        for name, group in one.classes.items():
            assert not set(group.coined) & set(other.classes[name].coined)
            assert not set(group.brands) & set(other.classes[name].brands)
        for name, specialty in one.specialties.items():
            names = {problem.name for problem in specialty.coined}
            assert not names & {problem.name for problem in other.specialties[name].coined}
    assert all(len(split.surnames) > 60 for split in (train, dev, test))


@BOTH
def test_every_split_can_write_about_every_specialty(language: Language) -> None:
    for split in SPLITS:
        words = lexicon(language, split)
        for specialty in words.specialties.values():
            assert specialty.acute
            assert specialty.coined
            assert len(specialty.symptoms) > 1
            assert len(specialty.findings) > 1
        assert all(group.listed and group.effects and group.avoid for group in words.classes.values())


def test_splits_share_a_vocabulary_the_same_way_for_every_seed() -> None:
    words = [f"word{number}" for number in range(2000)]
    alone = [set(share(words, split, "salt")) for split in SPLITS]
    assert set.union(*alone) == set(words)
    assert sum(map(len, alone)) == len(words)
    common = [set(share(words, split, "salt", 40)) for split in SPLITS]
    shared = set.intersection(*common)
    assert 0.35 < len(shared) / len(words) < 0.45
    assert shared == {word for word in words if bucket(word, "salt") < 40}


def test_dice_depend_only_on_seed_and_keys() -> None:
    first = [Dice(1, "a", 2).roll() for _ in range(3)]
    assert first[0] == first[1] == first[2]
    assert Dice(1, "a", 3).roll() != first[0]
    dice = Dice(0, "x")
    assert sorted(dice.sample(range(9), 9)) == list(range(9))
    assert dice.sample("ab", 5) in (["a", "b"], ["b", "a"])
    assert {dice.between(2, 4) for _ in range(200)} == {2, 3, 4}
    assert {dice.weighted("ab", (1, 0)) for _ in range(50)} == {"a"}
