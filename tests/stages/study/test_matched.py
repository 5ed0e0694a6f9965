"""Single-task baselines of matched length: they start when their number of steps is known, and have exactly that many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from encoders import preset_encoder
from typer.testing import CliRunner

from osler.artifacts.run import RunTraining
from osler.cli.main import app
from osler.core.config import validate
from osler.core.errors import OslerError, RecipeError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.matched import MatchedLength, matched_length, run_folder, same_length
from osler.stages.study.plan import expand
from osler.stages.study.progress import lines
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.results import collect, read_results
from osler.stages.study.run import run

NAMES = ("clinic-entities-en", "clinic-phi-en")
ENTITIES, PHI = NAMES
BATCHES = {ENTITIES: 5, PHI: 2}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("tasks")
    sizes = {ENTITIES: {"train": 3, "dev": 1, "test": 2}, PHI: {"train": 1, "dev": 1, "test": 2}}
    return [prepare(PrepareRecipe(task=name, options=sizes[name]), folder / name).path for name in NAMES]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, tokenizer_folder) -> Path:
    """A tiny encoder with random weights."""
    folder = tmp_path_factory.mktemp("encoder")
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(folder)
    (folder / "tokenizer.json").write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    return folder


def recipe(tasks: list[Path], **more) -> StudyRecipe:
    values = {"models": {"m": {"model": "m"}}, "tasks": tasks, "seeds": [1], "workers": 1}
    return validate(StudyRecipe, values | {"modes": ["single", "together"], "twins": "updates"} | more, where="test")


def steps(study: Path) -> dict[tuple[str, str, str], int]:
    return {
        (key.column, key.mode, key.partner): cell.task_steps
        for key, cell in read_results(study / "results.json").cells.items()
    }


def test_a_baseline_has_the_steps_that_the_joint_run_gave_its_task(tasks, tmp_path, fake):
    runner = fake(batches=BATCHES)
    made = run(recipe(tasks), tmp_path / "study")
    assert steps(made.path) == {
        (ENTITIES, "single", ""): 5,
        (PHI, "single", ""): 2,
        (ENTITIES, "together", ""): 5,
        (PHI, "together", ""): 5,
        (ENTITIES, "twin", ""): 5,
        (PHI, "twin", ""): 5,
    }
    done = runner.done()
    baseline = f"m, {PHI} for as many steps as with all tasks, seed 1"
    assert done.index(f"m, {ENTITIES}+{PHI}, seed 1") < done.index(baseline)
    # The larger task has as many steps alone: its plain run is its baseline, trained and scored once.
    assert len(done) == len(set(done)) == 4
    assert len(runner.done("score")) == 2 + 2 + 1
    results = read_results(made.path / "results.json")
    assert {key.column: compared.other.mode for key, compared in results.together.items()} == dict.fromkeys(
        NAMES, "twin"
    )
    assert {key.column: compared.other.mode for key, compared in results.alone.items()} == dict.fromkeys(
        NAMES, "single"
    )
    rows = [
        line
        for line in (made.path / "tables" / "accounting.md").read_text().splitlines()
        if line.startswith("| clinic")
    ]
    assert [line.split(" | ")[-3:] for line in rows] == [["5", "5", "yes |"], ["5", "5", "yes |"]]
    # Nor are its seconds counted twice.
    times = json.loads((made.path / "logs" / "cost.json").read_text())
    assert sum(time["runs"] for time in times) == made.manifest.counts["runs"] == 4
    # All runs are done for `osler study status` as well, which reads files alone.
    assert {line.state for line in lines(tmp_path / "study")} == {"done"}
    assert run(recipe(tasks), tmp_path / "study").reused


def test_without_plain_runs_every_baseline_is_a_run(tasks, tmp_path, fake):
    runner = fake(batches=BATCHES)
    made = run(recipe(tasks, modes=["together"]), tmp_path / "study")
    assert len(runner.done()) == 3
    assert {mode for _, mode, _ in steps(made.path)} == {"together", "twin"}
    # Plain runs that come later leave them as they are.
    run(recipe(tasks), tmp_path / "study", force=True)
    assert len(runner.done()) == 5


def test_every_pair_has_its_own_baselines(tasks, tmp_path, fake):
    fake(batches=BATCHES)
    made = run(recipe(tasks, modes=["single", "pairs"]), tmp_path / "study")
    found = steps(made.path)
    assert found[PHI, "twin", ENTITIES] == found[PHI, "pair", ENTITIES] == 5
    effects = json.loads((made.path / "pairwise.json").read_text())["models"]["m"]["effects"]
    assert [(effect["updates"], effect["single_updates"]) for effect in effects] == [(5, 5), (5, 5)]


def test_dev_chooses_among_the_baselines_of_a_grid_separately(tasks, tmp_path, fake):
    runner = fake(batches=BATCHES, dev={"m 0.1": 0.9, "m 0.2": 0.2})
    made = run(recipe(tasks, grid={"train.lr": [0.1, 0.2]}), tmp_path / "study")
    choices = json.loads((made.path / "choices.json").read_text())["choices"]
    assert [choice["mode"] for choice in choices] == ["single", "single", "together", "twin", "twin"]
    assert all(choice["point"] == {"train.lr": 0.1} for choice in choices)
    assert not [label for label in runner.done("score") if "train.lr 0.2" in label]


def test_baselines_wait_for_a_joint_run_that_failed_until_it_is_retried(tasks, tmp_path, fake):
    study = recipe(tasks, models={"m": {"model": "m"}}, modes=["together"])
    fake(fails={"m": 1})
    with pytest.raises(OslerError, match="1 of 3 runs failed"):
        run(study, tmp_path / "study")
    (tmp_path / "mended").touch()
    fake(fails={"m": 1})
    run(study, tmp_path / "study", retry_failed=True)
    assert len(fake().done()) == 3


def test_the_key_of_a_baseline_depends_on_its_joint_run(tasks, tmp_path, fake):
    def keys(**more) -> dict[str, str]:
        fake()
        planned = expand(recipe(tasks, **more), tmp_path / "study").runs
        return {run.spec.columns[0]: run.key for run in planned if run.spec.mode == "twin"}

    first = keys()
    assert keys(modes=["together"]) == first
    longer = keys(mode_settings={"together": {"epochs": 30}})
    assert not set(first.values()) & set(longer.values())
    assert keys(twins="epochs") == {}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"finetune": {"accumulate": 2}}, "twins: with accumulate"),
        ({"finetune": {"mlm": {"corpus": "x"}}}, "mlm is among the settings.*mode_settings.together"),
    ],
)
def test_steps_that_cannot_be_counted_by_task_are_rejected(tasks, tmp_path, fake, more, message):
    fake()
    with pytest.raises(RecipeError, match=message):
        expand(recipe(tasks, **more), tmp_path / "study")


def training(trained: dict[str, int], epochs: list[dict[str, int]], **train: int) -> RunTraining:
    counts = {"steps": sum(trained.values()), "batches_trained": trained, "batches_by_epoch": epochs}
    return RunTraining(recipe={"epochs": len(epochs), "train": train}, **counts)


def test_a_baseline_is_evaluated_on_dev_as_often_as_the_joint_run():
    each_epoch = training({"x": 60, "y": 60}, [{"x": 30, "y": 30}] * 2)
    assert matched_length(each_epoch, "x") == MatchedLength(60, 30)
    by_steps = training({"x": 60, "y": 60}, [{"x": 30, "y": 30}] * 2, eval_every=10)
    assert matched_length(by_steps, "x") == MatchedLength(60, 5)
    # Stopped early in the first epoch: the baseline has the steps that were trained, not those that were planned.
    stopped = training({"x": 11, "y": 9}, [{"x": 30, "y": 30}] * 2, eval_every=10)
    assert matched_length(stopped, "x") == MatchedLength(11, 5)


def test_a_plain_run_is_the_baseline_only_if_length_schedule_and_evaluations_agree():
    joint = training({"x": 60, "y": 60}, [{"x": 30, "y": 30}] * 2)
    assert same_length(joint, training({"x": 60}, [{"x": 30}] * 2), "x")
    assert not same_length(joint, training({"x": 58}, [{"x": 29}] * 2), "x")
    # Sixty steps of a schedule made for ninety are not a schedule of sixty.
    assert not same_length(joint, training({"x": 60}, [{"x": 30}] * 3), "x")
    assert not same_length(joint, training({"x": 60}, [{"x": 10}] * 6), "x")
    assert not same_length(joint, training({"x": 60}, [{"x": 30}] * 2, eval_every=7), "x")


def test_a_missing_baseline_is_not_replaced(bench):
    bench.classes("one")
    bench.classes("two")
    runs = [bench.run("a", name, 1, 8, steps=40) for name in ("one", "two")]
    joint = {"mode": "together", "steps": 100, "turns": {"one": 5, "two": 5}}
    runs.append(bench.run("a", ("one", "two"), 1, {"one": 17, "two": 8}, **joint))
    runs.append(bench.run("a", "one", 1, 16, mode="twin", steps=50))
    results = collect(bench.recipe("a", modes=("single", "together")), runs)
    # The other baseline is not done: nothing replaces it.
    assert [(key.column, compared.other.mode) for key, compared in results.together.items()] == [("one", "twin")]
    [(key, gain)] = results.together.items()
    assert gain.comparison.difference == pytest.approx(0.05)
    assert results.single_task_baseline(key).task_steps == results.cells[key].task_steps == 50


def test_real_baselines_train_for_exactly_these_steps(encoder, tasks, tmp_path):
    """From the command line, with real training: the counts are what was done."""
    sets = ["models.m.model=" + str(encoder), f"tasks={[str(path) for path in tasks]}", "seeds=[1]", "workers=1"]
    sets += ['modes=["single", "together"]', 'twins="updates"', 'layout="mulyar2020"']
    sets += ["finetune.epochs=2", "finetune.batch_size=16", "finetune.max_length=64", "finetune.overlap=8"]
    (tmp_path / "study.toml").write_text("")
    arguments = ["study", "run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "study")]
    done = CliRunner().invoke(app, arguments + [part for each in sets for part in ("--set", each)])
    assert done.exit_code == 0, done.output
    results = read_results(tmp_path / "study" / "results.json")
    for name in NAMES:
        joint, matched = results.cell("m", name, "together"), results.cell("m", name, "twin")
        assert joint.task_steps == matched.task_steps
        assert matched.chosen[0].steps == matched.task_steps
        assert matched.chosen[0].flops > 0
    # Alone, three documents give as many steps as with the other task; one document gives fewer.
    plain = {name: results.cell("m", name).task_steps for name in NAMES}
    assert plain[PHI] < plain[ENTITIES] == results.cell("m", ENTITIES, "twin").task_steps
    assert "single-task at equal steps" in (tmp_path / "study" / "table.md").read_text()
    for line in lines(tmp_path / "study"):
        folder = run_folder(tmp_path / "study.runs", line.key, line.spec)
        history = json.loads((folder / "bundle" / "history.json").read_text())
        assert 2 <= sum(record["kind"] == "eval" for record in history) <= 3
