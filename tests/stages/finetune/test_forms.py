"""Training on documents in forms: what a form is, and which tasks get one."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.forms import forms_of, with_forms
from osler.stages.finetune.run import plan, prepare
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare_task
from osler.text.document import TOKENS, Document, Span

TEXT = "The patient was admitted with fever. " * 5
NOTE = f"Name: Ann Lee\nMRN: 123\nWard: 4\n{TEXT}\nSigned: Dr. Poe\n"


def spans_of(text: str, *mentions: str) -> tuple[Span, ...]:
    return tuple(Span.at(text.index(m), text.index(m) + len(m), "X", id=f"T{n}") for n, m in enumerate(mentions, 1))


def test_a_form_is_the_short_lines_at_the_top_and_an_annotated_last_line():
    signed = Document("1", NOTE, spans_of(NOTE, "Ann Lee", "Dr. Poe"))
    unsigned = Document("2", NOTE, spans_of(NOTE, "Ann Lee"))
    opening = "Name: Ann Lee\nMRN: 123\nWard: 4\n"
    assert forms_of([signed, unsigned]) == [(opening, "\nSigned: Dr. Poe\n"), (opening, "")]
    too_few, only_form = Document("3", f"Name: Ann\n{TEXT}"), Document("4", opening)
    assert forms_of([too_few, only_form, Document("5", "")]) == []


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, TaskFolder]:
    folder = tmp_path_factory.mktemp("forms")
    options = {"train": 8, "dev": 2, "test": 2}
    names = ("clinic-entities-en", "clinic-phi-en", "clinic-phi-es")
    return {
        name: TaskFolder.open(prepare_task(PrepareRecipe(task=name, options=options), folder / name).path)
        for name in names
    }


@pytest.fixture
def form_task(tasks, monkeypatch) -> TaskFolder:
    notes = [NOTE.replace("123", str(number)) for number in range(4)]
    forms = [Document(note, note, spans_of(note, "Dr. Poe")) for note in notes]
    form_task = tasks["clinic-phi-en"]
    read = TaskFolder.read
    monkeypatch.setattr(
        TaskFolder, "read", lambda self, split: forms if self.card == form_task.card and split == "train" else read(self, split)
    )  # fmt: skip
    return form_task


def test_every_second_document_is_also_in_a_form_with_its_mentions(tasks, form_task):
    card = tasks["clinic-entities-en"].card
    text = "She took aspirin."
    records = [Document(str(n), text, spans_of(text, "aspirin")) for n in range(40)]
    made = with_forms(form_task, {"a": records}, {"a": card}, seed=1)["a"]
    assert made[:40] == records
    added = made[40:]
    assert 10 < len(added) < 30
    for document in added:
        assert document.text.startswith("Name: Ann Lee\nMRN: ")
        assert document.text.endswith("Signed: Dr. Poe\n")
        assert [span.text_in(document.text) for span in document.spans] == ["aspirin"]
    assert len({document.text for document in added}) == 4
    assert made == with_forms(form_task, {"a": records}, {"a": card}, seed=1)["a"]
    assert made != with_forms(form_task, {"a": records}, {"a": card}, seed=2)["a"]


def test_tasks_of_another_language_with_identifiers_or_with_own_tokens_stay_as_they_are(tasks, form_task):
    english, spanish = tasks["clinic-entities-en"].card, tasks["clinic-phi-es"].card
    phi = english.model_copy(update={"phi": {"X": "NAME"}})
    records = [Document(str(n), "She took aspirin .") for n in range(40)]
    tokens = [document.with_(meta=TOKENS) for document in records]
    given = {"spanish": records, "phi": records, "tokens": tokens}
    assert with_forms(form_task, given, {"spanish": spanish, "phi": phi, "tokens": english}, seed=1) == given


def test_a_recipe_with_forms_trains_on_more_windows_and_says_so(model, tasks, form_task, tmp_path):
    values = {
        "model": str(model),
        "tasks": [tasks["clinic-entities-en"].artifact.path],
        "max_length": 128,
        "overlap": 16,
    }
    plain, formed = (FinetuneRecipe.model_validate(values | more) for more in ({}, {"forms": form_task.artifact.path}))
    [alone] = prepare(plain, Path(plain.model), [tasks["clinic-entities-en"]]).instances.values()
    data = prepare(formed, Path(formed.model), [tasks["clinic-entities-en"]])
    assert len(data.instances["clinic-entities-en"].instances) > len(alone.instances)
    assert data.documents == {"clinic-entities-en": 8}
    assert any("documents also in forms of clinic-phi-en" in line for line in plan(formed, tmp_path / "out"))


def test_a_task_without_forms_are_refused(tasks, form_task, monkeypatch):
    monkeypatch.setattr(TaskFolder, "read", lambda self, split: [Document("1", TEXT)])
    with pytest.raises(RecipeError, match="no document of clinic-phi-en begins with a form"):
        with_forms(form_task, {}, {}, seed=1)
