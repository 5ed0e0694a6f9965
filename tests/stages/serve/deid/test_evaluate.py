"""The card of de-identification: recall, leaks, planted names and words removed needlessly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osler.artifacts.task_folder import TaskWriter
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe, validate
from osler.core.errors import InputError, RecipeError
from osler.stages.serve.deid.config import DeidEvaluateRecipe
from osler.stages.serve.deid.evaluate import plan, run
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Span


class _Made(Recipe):
    name: str


def note(text: str, **mentions: str) -> Document:
    spans = tuple(Span.at(text.index(part), text.index(part) + len(part), label) for label, part in mentions.items())
    return Document(text[:9], text, spans)


NOTES = [
    note("Mr. Ruiz has asthma, seen 03/04/2017.", PATIENT="Ruiz", DATE="03/04/2017"),  # all found
    note("Zoltan came. MRN: 1234567 is 91 years old.", PATIENT="Zoltan", ID="1234567", AGE="91"),  # the name leaks
    note("A baker of 40 years met Dr. Asthma.", AGE="40", PROFESSION="baker"),  # nothing of Safe Harbor
    note("No fever."),
]


def folder(path: Path, card: TaskCard, notes: list[Document]) -> Path:
    def build(work: Workspace) -> None:
        with TaskWriter(work.path, pairs=False) as writer:
            for document in notes:
                writer.add("test", document)
        writer.write_card(card)

    return produce(path, kind="task", recipe=_Made(name=card.name), parents={}, build=build).path


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return folder(tmp_path / "task", load_card("clinic-phi-en"), NOTES)


def evaluate(task: Path, out: Path, **settings: Any) -> dict[str, Any]:
    made = run(validate(DeidEvaluateRecipe, {"task": task, "planted": 0, **settings}, where=None), out)
    values: dict[str, Any] = json.loads((made.path / "metrics.json").read_text())
    return values


def test_recall_leaks_and_words_removed_needlessly(task: Path, tmp_path: Path) -> None:
    values = evaluate(task, tmp_path / "out")
    assert values["notes"] == 4
    assert values["notes_with_phi"] == 3
    assert values["recall"] == pytest.approx(5 / 7)
    assert values["clean_share"] == pytest.approx(1 / 3)
    assert values["safe_harbor_recall"] == pytest.approx(4 / 5)
    assert values["safe_harbor_clean_share"] == pytest.approx(1 / 2)
    assert values["categories"]["Names"]["recall"] == 0.5
    assert values["categories"]["Professions (beyond Safe Harbor)"]["recall"] == 0.0
    assert values["per_label"]["DATE"] == {"mentions": 1, "recall": 1.0, "word_recall": 1.0}
    # Dr. Asthma is taken for a name.
    others = [
        "Mr",
        "has",
        "asthma",
        "seen",
        "came",
        "MRN",
        "is",
        "years",
        "old",
        "A",
        "of",
        "years",
        "met",
        "Dr",
        "Asthma",
        "No",
        "fever",
    ]
    assert values["other_words_removed"] == pytest.approx(1 / len(others))
    assert values["medical_words_removed"] is None


def test_medical_words_removed(task: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.txt"
    terms.write_text("asthma\nhay fever\n")
    values = evaluate(task, tmp_path / "out", terms=terms)
    assert values["medical_words"] == 3
    assert values["medical_words_removed"] == pytest.approx(1 / 3)
    terms.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        evaluate(task, tmp_path / "other", terms=terms)


def test_scope_decides_what_counts_as_removed(task: Path, tmp_path: Path) -> None:
    everything, safe = evaluate(task, tmp_path / "all"), evaluate(task, tmp_path / "safe", scope="safe-harbor")
    assert everything["per_label"]["AGE"]["recall"] == 1.0
    assert safe["per_label"]["AGE"]["recall"] == 0.5
    assert safe["safe_harbor_recall"] == everything["safe_harbor_recall"]


def test_planted_names_are_counted_by_origin_and_gender(task: Path, tmp_path: Path) -> None:
    names = evaluate(task, tmp_path / "out", planted=6)["planted_names"]
    every = evaluate(task, tmp_path / "all", planted=6, language="all")["planted_names"]
    assert all(every[origin][gender] >= names[origin][gender] for origin in names for gender in names[origin])
    assert len(names) == 8
    assert all(set(row) == {"female", "male"} for row in names.values())
    # Half of the sentences have a title, a label or a relative before the name; the others say nothing about it.
    assert all(0.4 <= share <= 0.7 for row in names.values() for share in row.values())
    card = (tmp_path / "out" / "card.md").read_text()
    assert "| west african |" in card
    assert "notes without a leak" in card


def test_a_task_without_phi_and_a_split_that_is_not_there_are_refused(task: Path, tmp_path: Path) -> None:
    other = folder(tmp_path / "other", load_card("ncbi-disease"), [Document("a", "Text.")])
    with pytest.raises(RecipeError, match="no labels of PHI"):
        plan(DeidEvaluateRecipe(task=other), tmp_path / "out")
    with pytest.raises(RecipeError, match="no split 'dev'"):
        plan(DeidEvaluateRecipe(task=task, split="dev"), tmp_path / "out")
    assert any("planted" in line or "plant" in line for line in plan(DeidEvaluateRecipe(task=task), tmp_path / "out"))
