"""Updates per run of the papers' recipes on the public corpora, beside those that the papers' own sentence files give."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.config import load_recipe, shipped_recipe
from osler.stages.prepare.run import jobs, run_all
from osler.stages.study.expected import expect
from osler.stages.study.plan import expand
from osler.stages.study.recipe import StudyRecipe

pytestmark = pytest.mark.realdata

UPDATES = {
    "lewis2020/eighteen-tasks": {
        "bc5cdr-chem": 2_860,
        "bc5cdr-disease": 2_860,
        "ncbi-disease": 3_400,
        "s800": 3_600,
        "linnaeus": 7_460,
    },
    "carrino2022/ner-grid": {"pharmaconer": 2_540, "cantemist": 6_880},
}
"""Sentences of the released files, in batches of the paper's size, over its epochs."""
TOLERANCE = 0.1
"""osler's splitter finds other sentences than the tools that made those files."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    wanted = {task for tasks in UPDATES.values() for task in tasks}
    outcomes = list(run_all(data_dir, [job for job in jobs(folder / "tasks") if job.task in wanted], workers=1))
    assert {outcome.status for outcome in outcomes} == {"made"}
    return folder


@pytest.mark.parametrize("name", UPDATES)
def test_runs_have_the_updates_of_the_paper(
    name: str, prepared: Path, long_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepared)
    mine = f"models.mine.model={long_encoder}"
    everything = load_recipe(StudyRecipe, shipped_recipe(name), [mine])
    columns = [path.name for path in everything.tasks] + list(everything.folds)
    others = [column for column in columns if column not in UPDATES[name]]
    # Sequences decide: no sentence is longer than the window, and no batch is cut short by its tokens.
    sets = [mine, "finetune.max_length=8000", "finetune.batch_tokens=1000000", "seeds=[1]"]
    study = load_recipe(StudyRecipe, shipped_recipe(name), [*sets, f"without={others}"])
    planned = expand(study, Path("study"))
    work = expect(planned.runs).work
    found = {run.spec.columns[0]: work[run.key].updates for run in planned.runs}
    assert found == {task: pytest.approx(updates, rel=TOLERANCE) for task, updates in UPDATES[name].items()}
