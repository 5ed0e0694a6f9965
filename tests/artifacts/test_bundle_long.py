"""Texts that are longer than what is annotated at once: read in sections, with the results of a text that was read whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bundles import HEADS, make_bundle

from osler.artifacts import bundle as module
from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleHead
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import Instance
from osler.text.document import Document

SENTENCES = ["Aspirin 81 mg was given for chest pain.", "No fever, 😀 no cough.", "She takes metformin daily.\n"]
TEXT = " ".join(SENTENCES[number % 3] for number in range(90))


@dataclass
class ByToken:
    """A runner whose outputs depend on a token alone, so that sections and a whole text must give the same."""

    sizes: dict[str, int]
    largest: int = 0

    def outputs(self, instances: Sequence[Instance], heads, advance=None) -> dict[str, list[np.ndarray]]:
        self.largest = max(self.largest, sum(instance.length for instance in instances))
        return {name: [self._row(name, instance.ids) for instance in instances] for name in heads}

    def begin(self, instances: Sequence[Instance], heads):
        return partial(self.outputs, instances, heads)

    def transitions(self, head: str) -> None:
        return None

    def _row(self, name: str, ids: np.ndarray) -> np.ndarray:
        table = np.random.default_rng(len(name)).normal(size=(1000, self.sizes[name])).astype(np.float32)
        return table[ids] if HEADS.get(name, {}).get("kind") == "tagging" else table[ids].mean(axis=0)


@pytest.fixture(scope="module")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = make_bundle(tmp_path_factory.mktemp("long") / "bundle", tokenizer_folder, ("drugs", "farmacos"))
    loaded = Bundle.load(folder, "cpu")
    values = {
        **loaded.spec.heads["drugs"].card.model_dump(),
        "name": "ward",
        "kind": "multilabel",
        "labels": ("ED", "ICU"),
    }
    heads = {**loaded.spec.heads, "ward": BundleHead(card=TaskCard.model_validate(values), protocol="plain")}
    made = replace(loaded, spec=loaded.spec.changed(heads=heads))
    return replace(made, runner=ByToken({name: len(builder.outputs) for name, builder in made.builders.items()}))


def essence(document: Document) -> object:
    return [(span.id, span.key, span.score, dict(span.attributes)) for span in document.spans], document.labels


def test_sections_find_what_the_whole_text_gives_and_less_is_held(bundle, monkeypatch):
    documents = [Document("a", SENTENCES[0]), Document("long", TEXT, meta={"k": "v"}), Document("b", TEXT[:700])]
    monkeypatch.setattr(module, "SECTION_CHARACTERS", 1 << 20)
    whole = bundle.annotate(documents)
    assert len(whole[1].spans) > 100
    before, bundle.runner.largest = bundle.runner.largest, 0
    monkeypatch.setattr(module, "SECTION_CHARACTERS", 800)
    parts = bundle.annotate(documents)
    assert [document.id for document in parts] == ["a", "long", "b"]
    assert [essence(document) for document in parts] == [essence(document) for document in whole]
    assert (parts[1].text, dict(parts[1].meta)) == (TEXT, {"k": "v"})
    assert bundle.runner.largest < before / 2


def test_a_long_text_is_read_in_sections_although_it_fits_into_one_pass(bundle, monkeypatch):
    cut: list[int] = []
    cut_sections = module.cut_sections
    monkeypatch.setattr(module, "cut_sections", lambda text, *more: cut.append(len(text)) or cut_sections(text, *more))
    monkeypatch.setattr(module, "SECTION_CHARACTERS", 800)
    monkeypatch.setattr(ByToken, "pass_characters", 1 << 20, raising=False)
    [alone] = bundle.annotate([Document("long", TEXT)], ["drugs"])
    assert cut == [len(TEXT)]
    among = bundle.annotate([Document("a", SENTENCES[0]), Document("long", TEXT)], ["drugs"])
    assert cut == [len(TEXT)] * 2
    assert among[1] == alone


def test_several_passes_are_one_call_where_one_is_computed_while_another_is_decoded(bundle, monkeypatch):
    assert bundle.batch_characters == bundle.pass_characters
    monkeypatch.setattr(ByToken, "ahead", True, raising=False)
    assert bundle.batch_characters == 4 * bundle.pass_characters


def test_labels_of_a_long_text_come_from_all_of_its_windows(bundle, monkeypatch):
    [whole] = bundle.annotate([Document("long", TEXT)], ["ward"])
    monkeypatch.setattr(module, "SECTION_CHARACTERS", 800)
    [parts] = bundle.annotate([Document("long", TEXT)], ["ward"])
    assert parts.labels == whole.labels
    assert parts.scores.keys() == whole.scores.keys()
    for label, score in parts.scores.items():
        assert score == pytest.approx(whole.scores[label], abs=0.15)  # the windows begin elsewhere
