"""Training on excerpts: what they are, and how many an epoch has."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from osler.artifacts.task_folder import TaskFolder
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.excerpts import excerpts
from osler.stages.finetune.run import describe_data, prepare
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare_task
from osler.text.document import Document, Span


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> TaskFolder:
    folder = tmp_path_factory.mktemp("excerpts") / "entities"
    options = {"train": 6, "dev": 2, "test": 2}
    return TaskFolder.open(prepare_task(PrepareRecipe(task="clinic-entities-en", options=options), folder).path)


def recipe(model: str, task: TaskFolder, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": [str(task.artifact.path)], "max_length": 128, "overlap": 16}
    return FinetuneRecipe.model_validate(values | {"epochs": 2, "batch_size": 4} | more)


def test_an_excerpt_is_a_short_text_with_the_mentions_it_covers(task):
    documents = {document.id: document for document in task.read("train")}
    made = excerpts(task.card, list(documents.values()), seed=1)
    assert len(made) > 2 * len(documents)
    for part in made:
        whole_id, _, start = part.id.rpartition("/")
        whole, start = documents[whole_id], int(start)
        assert whole.text[start : start + len(part.text)] == part.text != whole.text
        assert part.text == part.text.strip()
        covered = [s for s in whole.spans if start <= s.start and s.end <= start + len(part.text)]
        assert [span.text_in(part.text) for span in part.spans] == [span.text_in(whole.text) for span in covered]
    assert any(part.spans for part in made)
    assert made == excerpts(task.card, list(documents.values()), seed=1)
    assert made != excerpts(task.card, list(documents.values()), seed=2)


def test_a_cut_mention_and_a_text_of_one_sentence_make_no_excerpt(task):
    text = "He has a fever. It began on Monday. She is well."
    across = Document("a", text, (Span.at(9, 20, "X", id="T1"),))
    for part in (part for seed in range(20) for part in excerpts(task.card, [across], seed=seed)):
        assert "has a fever" not in part.text or part.spans == (Span.at(9, 20, "X", id="T1"),)
    assert excerpts(task.card, [Document("b", "He has a fever.")], seed=1) == []


def test_an_epoch_has_every_window_once_and_its_own_excerpts(model, task):
    given = recipe(model, task, excerpts=0.5)
    data = prepare(given, Path(given.model), [task])
    [made], [stream] = data.instances.values(), data.batches.streams.values()
    windows = len(made.instances) - made.excerpts
    epochs = [sorted(number for batch in stream.cut(epoch) for number in batch) for epoch in (0, 1)]
    for numbers in epochs:
        assert numbers[:windows] == list(range(windows))
        assert len(numbers) == len(set(numbers)) == windows + round(0.5 * windows)
    assert epochs[0] != epochs[1]
    assert f"{windows:,} windows and, an epoch, {round(0.5 * windows)} of {made.excerpts:,} excerpts" in " ".join(
        describe_data(given, data)
    )


def test_what_excerpts_do_not_go_with(model, task):
    with pytest.raises(ValidationError, match="excerpts does not go with unit"):
        recipe(model, task, excerpts=1.0, unit="sentence")
    with pytest.raises(ValidationError, match="excerpts does not go with a teacher"):
        recipe(model, task, excerpts=1.0, teacher={"bundle": "b"})
