"""From a recipe to runs: which runs there are, with what settings, in what order; mistakes show before the first run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from osler.artifacts.bundle_spec import BundleHead, BundleSpec
from osler.artifacts.run import RunSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.config import load_recipe, validate
from osler.core.errors import RecipeError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study import runner
from osler.stages.study.plan import StudyPlan, expand
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run
from osler.stages.study.schedule import Schedule

NAMES = ("clinic-entities-en", "clinic-phi-en", "clinic-entities-es")
ENTITIES, PHI, SPANISH = NAMES
SPECIALTY = "clinic-specialty-en"
SIZES = {"train": 3, "dev": 1, "test": 2}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    return {name: prepare(PrepareRecipe(task=name, options=SIZES), folder / name).path for name in NAMES}


@pytest.fixture(autouse=True)
def any_model(monkeypatch) -> None:
    """Settings are checked as in a real study, but models need not exist."""
    monkeypatch.setattr(runner, "identify", lambda model: f"digest of {model}")
    monkeypatch.setattr(
        runner, "configuration", lambda model: SimpleNamespace(model_type="modernbert", hidden_size=128)
    )


def recipe(known: dict[str, Path], /, *models: str, **more) -> StudyRecipe:
    values = {"models": {name: {"model": name} for name in models or ("m",)}, "tasks": list(known.values())}
    return validate(StudyRecipe, values | {"seeds": [1, 2], "workers": 1} | more, where="test")


def plan(study: StudyRecipe, tmp_path: Path) -> StudyPlan:
    return expand(study, tmp_path / "study")


def settings(spec: RunSpec) -> dict[str, Any]:
    return spec.settings.plain()


def test_models_columns_points_seeds_and_fractions_are_all_combined(tasks, tmp_path):
    study = recipe(tasks, "a", "b", grid={"train.lr": [1e-5, 3e-5], "epochs": [1, 2]}, fractions=[0.5])
    runs = plan(study, tmp_path).runs
    assert len(runs) == len({run.key for run in runs}) == 2 * 3 * 4 * 2 * 2
    halves = [run for run in runs if run.spec.fraction == 0.5]
    assert all(settings(run.spec)["fraction"] == 0.5 for run in halves)
    assert all("fraction" not in settings(run.spec) for run in runs if run not in halves)


def test_settings_lie_on_top_of_each_other_the_nearer_above_the_farther(tasks, tmp_path):
    study = recipe(
        tasks,
        models={"m": {"model": "m", "settings": {"dropout": 0.3}, "task_settings": {PHI: {"dropout": 0.4}}}},
        finetune={"dropout": 0.1, "epochs": 3, "train": {"lr": 1e-3, "warmup": 0.2, "device": "cpu"}},
        task_settings={PHI: {"dropout": 0.2, "epochs": 5}, ENTITIES: {"epochs": 4}},
        grid={"train.lr": [2e-3]},
        protocols={PHI: "strict"},
    )
    by_column = {run.spec.columns[0]: run.spec for run in plan(study, tmp_path).runs}
    phi, entities, spanish = (settings(by_column[name]) for name in NAMES[1:2] + NAMES[:1] + NAMES[2:])
    assert (phi["dropout"], phi["epochs"], phi["protocols"]) == (0.4, 5, {PHI: "strict"})
    assert (entities["dropout"], entities["epochs"]) == (0.3, 4)
    assert (spanish["dropout"], spanish["epochs"]) == (0.3, 3)
    assert phi["train"] == {"lr": 2e-3, "warmup": 0.2}
    assert by_column[PHI].runtime.plain() == {"device": "cpu"}


def test_a_mode_has_settings_of_its_own_below_those_of_a_task(tasks, tmp_path):
    study = recipe(
        tasks,
        modes=["single", "together", "pairs"],
        seeds=[1],
        finetune={"epochs": 3, "train": {"lr": 1e-3, "warmup": 0.2}},
        mode_settings={"together": {"train": {"lr": 5e-3}}, "single": {"epochs": 4}, "pairs": {"epochs": 5}},
        task_settings={PHI: {"epochs": 6}},
    )
    found = {(run.spec.mode, run.spec.columns[0]): settings(run.spec) for run in plan(study, tmp_path).runs}
    assert found["together", ENTITIES] == {"epochs": 3, "train": {"lr": 5e-3, "warmup": 0.2}}
    assert [found["single", name]["epochs"] for name in NAMES] == [4, 6, 4]
    assert found["pair", ENTITIES] == {"epochs": 5, "train": {"lr": 1e-3, "warmup": 0.2}}


def test_a_refinement_is_scored_where_that_is_asked_for(tasks, tmp_path, fake):
    refined = {"model": "m", "refine": {"tasks": [ENTITIES, PHI], "score": True}}
    study = recipe(tasks, models={"refined": refined}, layout="peng2020")
    plain = recipe(tasks, models={"refined": {"model": "m", "refine": {"tasks": [ENTITIES, PHI]}}})
    fakes = fake()
    silent = (run(plain, tmp_path / "plain").path / "results.json").read_bytes()
    assert not any("refinement" in label for label in fakes.done("score"))
    assert "refine" not in {cell["mode"] for cell in json.loads(silent)["cells"]}
    # Asked for later, the same runs are scored and none is trained again.
    before = len(fakes.done())
    made = run(study.changed(store=tmp_path / "plain.runs"), tmp_path / "study")
    assert len(fakes.done()) == before
    assert Counter(label for label in fakes.done("score") if "refinement" in label) == {
        f"refined, refinement on {ENTITIES}+{PHI}, seed {seed}": 2 for seed in (1, 2)
    }
    table = (made.path / "table.md").read_text()
    # What was refined alone stands above what fine-tuning made of it.
    assert table.index("| refined, refined |") < table.index("| refined, refined and fine-tuned |")
    # Without the question there is no line, whatever another study scored.
    again = run(plain, tmp_path / "plain", force=True)
    assert (again.path / "results.json").read_bytes() == silent


def test_what_changes_no_result_changes_no_key(tasks, tmp_path):
    plain = plan(recipe(tasks, finetune={"epochs": 2}), tmp_path).runs
    moved = plan(recipe(tasks, finetune={"epochs": 2, "train": {"device": "cpu", "threads": 1}}), tmp_path).runs
    longer = plan(recipe(tasks, finetune={"epochs": 3}), tmp_path).runs
    assert [run.key for run in plain] == [run.key for run in moved]
    assert not {run.key for run in plain} & {run.key for run in longer}


def test_together_and_pairs_are_runs_of_several_columns(tasks, tmp_path):
    runs = plan(recipe(tasks, modes=["single", "together", "pairs"], seeds=[1]), tmp_path).runs
    assert Counter(run.spec.mode for run in runs) == {"single": 3, "together": 1, "pair": 3}
    pairs = [run.spec.columns for run in runs if run.spec.mode == "pair"]
    assert pairs == [(ENTITIES, PHI), (ENTITIES, SPANISH), (PHI, SPANISH)]


def test_runs_of_several_columns_are_scored_on_each(tasks, tmp_path, fake):
    fakes = fake()
    run(recipe(tasks, modes=["together", "pairs"], seeds=[1]), tmp_path / "study")
    assert len(fakes.done()) == 4
    assert Counter(fakes.done("score")) == {
        f"m, {ENTITIES}+{PHI}+{SPANISH}, seed 1": 3,
        f"m, {ENTITIES}+{PHI}, seed 1": 2,
        f"m, {ENTITIES}+{SPANISH}, seed 1": 2,
        f"m, {PHI}+{SPANISH}, seed 1": 2,
    }


def test_folds_are_runs_of_one_column_and_choose_each_for_itself(tasks, tmp_path, fake):
    folds = {"cross": [tasks[ENTITIES], tasks[SPANISH]]}
    study = recipe(tasks, tasks=[tasks[PHI]], folds=folds, grid={"epochs": [1, 2]}, seeds=[1])
    fake()
    planned = expand(study, tmp_path / "study")
    assert Counter((run.spec.columns[0], run.spec.fold) for run in planned.runs) == {
        (PHI, None): 2,
        ("cross", 0): 2,
        ("cross", 1): 2,
    }
    fake()
    made = run(study, tmp_path / "study")
    choices = json.loads((made.path / "choices.json").read_text())["choices"]
    found = [(choice["columns"], choice["fold"]) for choice in choices]
    assert found == [([PHI], None), (["cross"], 0), (["cross"], 1)]


def test_a_task_that_is_also_a_fold_is_trained_once_and_scored_in_both_columns(tasks, tmp_path, fake):
    one = {ENTITIES: tasks[ENTITIES]}
    study = recipe(one, seeds=[1], folds={"two": [tasks[ENTITIES], tasks[PHI]]})
    fakes = fake()
    made = run(study, tmp_path / "study")
    cells = {cell["task"]: cell for cell in json.loads((made.path / "results.json").read_text())["cells"]}
    assert (len(fakes.done()), len(fakes.done("score"))) == (2, 3)
    assert cells["two"]["folds"] == 2
    assert len(cells[ENTITIES]["runs"]) == 1


def test_a_refinement_comes_first_and_its_key_is_in_those_that_start_from_it(tasks, tmp_path, fake):
    refined = {"model": "m", "refine": {"tasks": [ENTITIES, PHI], "settings": {"epochs": 7}}}
    study = recipe(tasks, models={"plain": {"model": "m"}, "refined": refined}, seeds=[1])
    fake()
    planned = expand(study, tmp_path / "study")
    [refinement] = [run for run in planned.runs if run.spec.mode == "refine"]
    # What the other columns are chosen and tested by is kept out of it.
    assert [path.name for path in refinement.spec.kept_out] == [SPANISH]
    assert all(not run.spec.kept_out for run in planned.runs if run is not refinement)
    followers = [run for run in planned.runs if run.spec.after]
    assert {run.spec.after for run in followers} == {refinement.key}
    assert len(followers) == 3
    assert not {run.key for run in followers} & {run.key for run in planned.runs if not run.spec.after}

    fakes = fake()
    run(study, tmp_path / "study")
    done = fakes.done()
    first = done.index(f"refined, refinement on {ENTITIES}+{PHI}, seed 1")
    assert all(first < done.index(f"refined, {name}, seed 1") for name in NAMES)
    assert f"refined, refinement on {ENTITIES}+{PHI}, seed 1" not in fakes.done("score")
    counts = json.loads((planned.folder(followers[0].key) / "bundle" / "manifest.json").read_text())["counts"]
    assert counts["start"] == str(planned.folder(refinement.key) / "bundle")

    other = {**refined, "refine": {"tasks": [ENTITIES, PHI], "settings": {"epochs": 8}}}
    fake()
    changed = expand(recipe(tasks, models={"refined": other}, seeds=[1]), tmp_path / "study")
    assert not {run.key for run in changed.runs} & {run.key for run in planned.runs}


def test_a_pooler_must_survive_the_refinement(tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "check", lambda spec, where: ())  # these models have no files
    known = {**tasks, SPECIALTY: prepare(PrepareRecipe(task=SPECIALTY, options=SIZES), tmp_path / SPECIALTY).path}
    columns = {"tasks": [ENTITIES, SPECIALTY], "settings": {"head": "linear"}}
    for refine in (columns, {"tasks": [ENTITIES, PHI]}):
        study = recipe(known, models={"m": {"model": "m", "refine": refine}}, finetune={"head": "pooler"})
        with pytest.raises(RecipeError, match="the refinement of m leaves no pooler to start from"):
            plan(study, tmp_path)
    kept = {"model": "m", "refine": {"tasks": [ENTITIES, SPECIALTY]}}
    assert plan(recipe(known, models={"m": kept}, finetune={"head": "pooler"}), tmp_path).runs


def test_a_refinement_that_is_also_a_run_of_its_own_is_done_once(tasks, tmp_path, fake):
    refined = {"model": "m", "refine": {"tasks": list(NAMES)}}
    study = recipe(tasks, models={"m": {"model": "m"}, "refined": refined}, modes=["single", "together"], seeds=[1])
    fakes = fake()
    run(study, tmp_path / "study")
    assert len(fakes.done()) == 3 + 1 + 4
    assert len(fakes.done("score")) == 3 + 3 + 3 + 3


def test_what_follows_a_failed_refinement_waits(tasks, tmp_path, fake):
    refined = {"model": "m", "refine": {"tasks": [ENTITIES, PHI]}}
    study = recipe(tasks, models={"refined": refined}, seeds=[1])
    fake(fails={"m": 1})
    with pytest.raises(Exception, match="1 of 4 runs failed"):
        run(study, tmp_path / "study")
    assert fake().done() == []


def test_long_runs_begin_before_short_ones(tasks, tmp_path, fake):
    lengths = {ENTITIES: {"epochs": 1}, PHI: {"epochs": 50}, SPANISH: {"epochs": 9}}
    study = recipe(tasks, task_settings=lengths, seeds=[1])
    fake()
    schedule = Schedule(study, expand(study, tmp_path / "study"))
    assert [job.spec.columns[0] for job in schedule.ready()] == [PHI, SPANISH, ENTITIES]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"task_settings": {"clinic-phi": {}}},
            "task_settings names the column 'clinic-phi'.*Did you mean 'clinic-phi-en'",
        ),
        ({"protocols": {"x": "strict"}}, "protocols names the column 'x'"),
        ({"groups": {"g": ["x"]}}, "groups.g names the column 'x'"),
        ({"models": {"m": {"model": "m", "task_settings": {"x": {}}}}}, "models.m.task_settings names the column 'x'"),
        (
            {"models": {"m": {"model": "m", "refine": {"tasks": [PHI, "x"]}}}},
            "models.m.refine.tasks names the column 'x'",
        ),
        ({"grid": {"train.lrr": [1]}}, "grid: unknown key 'train.lrr'.*did you mean 'train.lr'"),
        ({"grid": {"train.threads": [1]}}, "grid: 'train.threads' does not affect results"),
        ({"grid": {"train.seed": [1]}}, "grid: 'train.seed' is not a setting"),
        ({"grid": {"train.lr": [1e-5, -1]}}, "grid: 'train.lr'"),
        (
            {"finetune": {"epoch": 1}, "grid": {"train.lr": [1e-5]}},
            "settings of m on clinic-entities-en: unknown key 'epoch'",
        ),
        ({"mode_settings": {"pair": {}}}, "mode_settings.*'single', 'together' or 'pairs'"),
        ({"mode_settings": {"together": {"epoch": 1}}, "modes": ["together"]}, "unknown key 'epoch'"),
        (
            {"models": {"a": {"model": "m"}, "b": {"model": "m", "settings": {"decoding": "free"}}}},
            r"clinic-entities-en would be scored under .*/strict@v1 and under .*/strict\+greedy@v1",
        ),
        ({"fractions": [1.5]}, "fractions: 1.5 is not between 0 and 1"),
        ({"fractions": [0.5, 0.5]}, "fractions has a value twice"),
        ({"grid": {"train.lr": []}}, "grid: 'train.lr' has no values"),
        ({"grid": {"train.lr": 1e-5}}, r"grid: 'train.lr' needs a list of values to try, such as \[1e-05\]"),
        (
            {"finetune": {"model": "other"}},
            "settings of m on clinic-entities-en: 'model' cannot be set for the runs of a study",
        ),
        ({"finetune": {"train": {"seed": 3}}}, "'train.seed' cannot be set for the runs of a study. List seeds"),
        ({"grid": {"add_to": ["a", "b"]}}, "grid: 'add_to' cannot be set"),
        (
            {"finetune": {"tagger": "crf", "class_weights": "balanced"}},
            "settings of m on clinic-entities-en: class_weights is not supported",
        ),
        (
            {"finetune": {"mixing": {"loss_weights": {"nobody": 2.0}}}},
            "settings of m on clinic-entities-en: mixing.loss_weights names the task 'nobody'",
        ),
        ({"grid": {"train.lr": [1e-5]}, "layout": "carrino2022"}, "score = 'all'"),
    ],
)
def test_mistakes_name_their_field(tasks, tmp_path, more, message):
    with pytest.raises(RecipeError, match=message):
        plan(recipe(tasks, **more), tmp_path)


def test_a_grid_may_be_written_without_quotes(tasks, tmp_path):
    """TOML makes a section of `train.lr` without quotes, and `--set grid.train.lr=` comes on top of the quoted name."""
    (tmp_path / "study.toml").write_text(
        '[grid]\ntrain.lr = [1e-5, 3e-5]\n"epochs" = [1, 2]\n[models.m]\nmodel = "m"\n'
    )
    sets = [f"tasks=['{tasks[PHI]}']", "seeds=[1]"]
    study = load_recipe(StudyRecipe, tmp_path / "study.toml", sets)
    assert study.grid == {"train.lr": (1e-5, 3e-5), "epochs": (1, 2)}
    assert len(plan(study, tmp_path).runs) == 4
    (tmp_path / "study.toml").write_text('[grid]\n"train.lr" = [1e-5, 3e-5]\n[models.m]\nmodel = "m"\n')
    for name in ("grid.train.lr", 'grid."train.lr"'):
        wider = load_recipe(StudyRecipe, tmp_path / "study.toml", [*sets, f"{name}=[1e-6, 1e-5]"])
        assert wider.grid == {"train.lr": (1e-6, 1e-5)}


def test_a_teacher_without_a_head_for_a_column_is_rejected_before_the_first_run(tasks, tmp_path):
    card = TaskFolder.open(tasks[PHI]).card
    BundleSpec(max_length=64, overlap=8, heads={PHI: BundleHead(card=card, protocol="strict")}).save(tmp_path)
    with pytest.raises(RecipeError, match="the teacher has no head for clinic-entities-en"):
        plan(recipe(tasks, finetune={"teacher": {"bundle": str(tmp_path)}}), tmp_path)


def test_a_column_cannot_be_given_twice(tasks, tmp_path):
    with pytest.raises(RecipeError, match="the column 'clinic-phi-en' is given twice"):
        plan(recipe(tasks, tasks=[tasks[PHI], tasks[PHI]]), tmp_path)
    folds = {"cross": [tasks[ENTITIES], tasks[SPANISH]]}
    with pytest.raises(RecipeError, match="pairs needs tasks with one test split"):
        plan(recipe(tasks, tasks=[tasks[PHI]], folds=folds, modes=["pairs"]), tmp_path)
