"""Studies: each run is done once, dev chooses, failures do not stop other runs, and no column mixes protocols."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import OslerError, OutputError, RecipeError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.progress import lines, summary
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import report, run


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    sizes = {"train": 4, "dev": 2, "test": 12}
    return prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path_factory.mktemp("t") / "task").path


def recipe(task: Path, *models: str, **more) -> StudyRecipe:
    values = {"models": {name: {"model": name} for name in models}, "tasks": [task], "seeds": [0, 1]}
    return StudyRecipe.model_validate(values | {"workers": 1} | more)


def test_a_study_compares_with_its_baseline_and_prints_protocols(task, tmp_path, fake):
    fake(missed={"weak": 8, "strong": 0})
    made = run(recipe(task, "weak", "strong"), tmp_path / "study")
    results = json.loads((made.path / "results.json").read_text())
    weak, strong = results["cells"]
    assert weak["mean"] < strong["mean"]
    assert strong["against"]["baseline"] == "weak"
    assert strong["against"]["low"] > 0
    assert strong["against"]["p_holm"] < 0.05
    for name in ("table.md", "table.csv", "table.tex", "report.html"):
        assert (made.path / name).stat().st_size > 100
    assert "clinic-entities-en/strict@v1" in (made.path / "table.md").read_text()
    assert made.manifest.counts == {"runs": 4, "scored": 4, "models": 2, "tasks": 1, "seeds": 2}


def test_equal_models_are_not_called_different(task, tmp_path, fake):
    fake(missed={"one": 3, "other": 3})
    made = run(recipe(task, "one", "other"), tmp_path / "study")
    cell = json.loads((made.path / "results.json").read_text())["cells"][1]
    assert cell["against"]["difference"] == 0
    assert cell["against"]["p_holm"] == 1.0
    assert "*" not in (made.path / "table.csv").read_text()


def test_one_more_model_later_only_does_its_own_runs(task, tmp_path, fake):
    runner = fake()
    run(recipe(task, "one", "two"), tmp_path / "study")
    before = len(runner.done())
    run(recipe(task, "one", "two", "three"), tmp_path / "study")
    assert runner.done()[before:] == ["three, clinic-entities-en, seed 0", "three, clinic-entities-en, seed 1"]
    assert run(recipe(task, "one", "two", "three"), tmp_path / "study").reused


@pytest.mark.parametrize("workers", [1, 2])
def test_a_study_stopped_by_a_full_disk_goes_on_by_itself(task, tmp_path, fake, workers):
    runner = fake(disk_full=("m", 1))
    study = recipe(task, "m", workers=workers)
    with pytest.raises(
        OutputError, match=r"the disk is full, during m, clinic-entities-en, seed 1; .* of 2 runs are done"
    ):
        run(study, tmp_path / "study")
    assert summary(lines(tmp_path / "study")).startswith("2 runs: 1 done, 1 stopped")
    (tmp_path / "mended").touch()
    assert run(study, tmp_path / "study").manifest.counts["scored"] == 2
    assert sorted(runner.done("score")) == [f"m, clinic-entities-en, seed {seed}" for seed in (0, 1)]


def test_a_status_that_cannot_be_written_is_no_failure_either(task, tmp_path, fake):
    fake(status_full=("m", 1))
    study = recipe(task, "m", workers=2)
    with pytest.raises(OutputError, match="the disk is full"):
        run(study, tmp_path / "study")
    (tmp_path / "mended").touch()
    assert run(study, tmp_path / "study").manifest.counts["scored"] == 2


def test_failed_runs_are_named_kept_out_of_the_way_and_retried_on_request(task, tmp_path, fake):
    runner = fake(fails={"broken": 1})
    both = recipe(task, "broken", "one")
    with pytest.raises(
        OslerError, match=r"2 of 4 runs failed.*broken, clinic-entities-en, seed 0: this one cannot be done"
    ):
        run(both, tmp_path / "study")
    assert len(runner.done("score")) == 2
    assert not (tmp_path / "study").exists()
    folder, missing = report(both, tmp_path / "study")
    assert (folder.name, len(missing)) == ("study.so-far", 2)
    assert "one" in (folder / "table.md").read_text()

    (tmp_path / "mended").touch()
    with pytest.raises(OslerError, match="2 of 4 runs failed"):
        run(both, tmp_path / "study")
    assert len(runner.done()) == 2
    made = run(both, tmp_path / "study", retry_failed=True)
    assert len(runner.done()) == 4
    assert not folder.exists()  # the whole study has all of it
    assert report(both, tmp_path / "study") == (made.path, [])


def test_an_unforeseen_error_fails_its_run_without_quoting_a_document(task, tmp_path, fake):
    fake()
    with pytest.raises(OslerError) as failure:
        run(recipe(task, "odd", seeds=[1]), tmp_path / "study")
    status = next((tmp_path / "study.runs").glob("*/status.json")).read_text()
    for text in (str(failure.value), status):
        assert "internal error (ValueError at stages/study/runner.py:" in text
        assert ", fake_runner.py:" in text
        assert "aspirin" not in text


def test_dev_chooses_the_settings_and_only_the_chosen_see_test(task, tmp_path, fake):
    # On test the rate that dev likes is the worse one.
    runner = fake(dev={"m 0.1 0": 0.6, "m 0.1 1": 0.6, "m 0.2 0": 0.9, "m 0.2 1": 0.2}, missed={"m 0.1": 6, "m 0.2": 0})
    made = run(recipe(task, "m", grid={"train.lr": [0.1, 0.2]}), tmp_path / "study")
    assert len(runner.done()) == 4
    assert runner.done("score") == [f"m, clinic-entities-en, seed {seed}, train.lr 0.1" for seed in (0, 1)]
    found = json.loads((made.path / "choices.json").read_text())
    assert (found["chosen_on"], found["by"]) == ("dev", "mean dev score over seeds, one grid point")
    [choice] = found["choices"]
    assert (choice["point"], choice["dev"], len(choice["candidates"])) == ({"train.lr": 0.1}, 0.6, 4)


def test_dev_may_choose_the_single_best_run(task, tmp_path, fake):
    runner = fake(dev={"m 0.1": 0.6, "m 0.2 0": 0.9, "m 0.2 1": 0.2})
    both = recipe(task, "m", grid={"train.lr": [0.1, 0.2]}, choose="run")
    run(both, tmp_path / "study")
    assert runner.done("score") == ["m, clinic-entities-en, seed 0, train.lr 0.2"]


def test_a_table_over_all_configurations_scores_all_and_still_records_the_choice(task, tmp_path, fake):
    runner = fake(dev={"m 0.1": 0.6, "m 0.2": 0.7})
    every = recipe(task, "m", grid={"train.lr": [0.1, 0.2]}, choose="run", score="all", layout="carrino2022")
    made = run(every, tmp_path / "study")
    assert len(runner.done("score")) == 4
    found = json.loads((made.path / "choices.json").read_text())
    assert found["scored"] == "test, all runs"
    assert found["choices"][0]["point"] == {"train.lr": 0.2}


def test_a_group_with_a_failed_run_is_not_decided_by_the_rest(task, tmp_path, fake):
    runner = fake(fails={"m 0.2": 1}, dev={"m 0.1": 0.9, "m 0.2": 0.1})
    study = recipe(task, "m", grid={"train.lr": [0.1, 0.2]}, seeds=[1])
    with pytest.raises(OslerError, match="1 of 2 runs failed"):
        run(study, tmp_path / "study")
    assert (len(runner.done()), runner.done("score")) == (1, [])
    (tmp_path / "mended").touch()
    run(study, tmp_path / "study", retry_failed=True)
    assert runner.done("score") == ["m, clinic-entities-en, seed 1, train.lr 0.1"]


def test_numbers_under_different_protocols_never_share_a_column(task, tmp_path, monkeypatch, fake):
    card = TaskFolder.open(task).card
    other = {**card.protocols, "other": card.protocols["strict"]}
    monkeypatch.setattr(type(card), "protocol_named", lambda self, name=None: other[name or "strict"])
    fake(protocol={"two": "other"})
    with pytest.raises(OslerError, match=r"strict@v1 and under .*other@v1"):
        run(recipe(task, "one", "two"), tmp_path / "study")


def test_an_unknown_baseline_is_refused(task, tmp_path, fake):
    fake()
    with pytest.raises(RecipeError, match="baseline 'x'"):
        run(recipe(task, "one", baseline="x"), tmp_path / "study")


def weights(tmp_path: Path) -> int:
    return len(list(tmp_path.rglob("model.safetensors")))


def test_weights_go_when_nothing_needs_them_and_tables_stay(task, tmp_path, fake):
    runner = fake(dev={"a 2": 0.9})
    grid = {"grid": {"epochs": [1, 2]}}
    made = run(recipe(task, "a", keep_weights=False, **grid), tmp_path / "study")
    assert (len(runner.done()), len(runner.done("score")), weights(tmp_path)) == (4, 2, 0)
    table = (made.path / "table.md").read_text()
    folder, missing = report(recipe(task, "a", **grid), tmp_path / "study", force=True)
    assert not missing
    assert (folder / "table.md").read_text() == table
    # All runs are to be scored now: the two that were not chosen are trained again, and keep their weights.
    run(recipe(task, "a", score="all", **grid), tmp_path / "study", force=True)
    assert (len(runner.done()), len(runner.done("score")), weights(tmp_path)) == (6, 4, 2)
    # The weights of a finished study go, too.
    run(recipe(task, "a", score="all", keep_weights=False, **grid), tmp_path / "study")
    assert (len(runner.done()), weights(tmp_path)) == (6, 0)


def test_weights_that_other_runs_start_from_stay_until_those_are_done(task, tmp_path, fake):
    other = prepare(PrepareRecipe(task="clinic-phi-en", options={"train": 2, "dev": 1, "test": 12}), tmp_path / "phi")
    refined = {"model": "m", "refine": {"tasks": ["clinic-entities-en", "clinic-phi-en"]}}
    values = {"models": {"refined": refined}, "tasks": [task, other.path], "seeds": [1], "workers": 1}
    runner = fake()
    run(StudyRecipe.model_validate(values | {"grid": {"epochs": [1]}, "keep_weights": False}), tmp_path / "study")
    assert (len(runner.done()), weights(tmp_path)) == (3, 0)
    # Another grid point starts from the same refinement, which is trained again for it.
    run(StudyRecipe.model_validate(values | {"grid": {"epochs": [1, 2]}}), tmp_path / "study")
    assert len(runner.done()) == 6
    assert runner.done()[3].startswith("refined, refinement on")
    assert weights(tmp_path) == 3
