"""The papers' study recipes: every run and every setting as the papers have them, and each one from data to table at reduced size."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from osler.artifacts.run import RunSpec
from osler.cli.main import app
from osler.core.artifact import Artifact
from osler.core.config import load_recipe, shipped_recipe
from osler.core.errors import RecipeError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.study import expected
from osler.stages.study.plan import expand
from osler.stages.study.recipe import StudyRecipe

MINE = "models.mine.model=encoder"
WADA_ROWS = ("BlueBERT-P", "BlueBERT-P+M", "BioBERT", "ouBioBERT")
ENCODERS = [f"models.{row}.model=encoder" for row in WADA_ROWS]
BLUE_ROWS = {
    "peng2020/clinical": ["BlueBERT-PM", "MT-BlueBERT-PM", "MT-BlueBERT-P", "MT-BioBERT", "MT-ClinicalBERT"],
    "peng2020/biomedical": ["BlueBERT-P", "MT-BlueBERT-P", "MT-BlueBERT-PM", "MT-BioBERT"],
    "peng2020/all-tasks": ["BlueBERT-P", "BlueBERT-PM", "MT-BioBERT", "MT-BlueBERT-P", "MT-BlueBERT-PM"],
}
"""Rows of tables 2 and 4, 3 and 5, and 6; those with MT are refined first."""
SETS = {
    "carrino2022/ner-grid": [MINE],
    "lewis2020/eighteen-tasks": [MINE],
    "mulyar2020/eight-heads": [MINE],
    "peng2020/refine": [MINE],
    "peng2020/fine-tune": [],
    "peng2020/fine-tune-scripts": [],
    "peng2020/pairwise": [MINE],
    "wada2020/blue": ENCODERS,
    **{name: [f"models.{row}.model=encoder" for row in rows] for name, rows in BLUE_ROWS.items()},
}
CLINICAL = {"clinicalsts-2018", "i2b2-2010-relations", "mednli", "share-clef-2013"}
BIOMEDICAL = {"chemprot", "ddi2013", "bc5cdr-disease", "bc5cdr-chem"}
SEQUENCE = {"bc5cdr-chem", "bc5cdr-disease", "jnlpba", "ncbi-disease", "bc4chemd", "bc2gm", "linnaeus", "s800"}
SEQUENCE |= {"i2b2-2010-concepts", "i2b2-2012-events", "i2b2-2014-deid"}
CLASSIFICATION = {"hoc", "chemprot", "gad", "euadr", "ddi2013", "i2b2-2010-relations", "mednli"}
HEADS = {"n2c2-2019-sts", "mednli", "medrqe", "n2c2-2018-ade", "i2b2-2014-deid", "i2b2-2012-events"}
HEADS |= {"i2b2-2010-concepts", "quaero-emea"}
TASKS = {
    "carrino2022/ner-grid": {"pharmaconer", "cantemist", "ictusnet"},
    "lewis2020/eighteen-tasks": SEQUENCE | CLASSIFICATION,
    "mulyar2020/eight-heads": HEADS,
    "peng2020/refine": CLINICAL | BIOMEDICAL,
    "peng2020/fine-tune": CLINICAL | BIOMEDICAL,
    "peng2020/fine-tune-scripts": CLINICAL | BIOMEDICAL,
    "peng2020/pairwise": CLINICAL | BIOMEDICAL,
    "wada2020/blue": CLINICAL | BIOMEDICAL | {"biosses", "hoc"},
    "peng2020/clinical": CLINICAL,
    "peng2020/biomedical": BIOMEDICAL,
    "peng2020/all-tasks": CLINICAL | BIOMEDICAL,
}
RUNS = {
    "carrino2022/ner-grid": {"single": 3 * 5 * 3},
    "lewis2020/eighteen-tasks": {"single": (16 + 2 * 9) * 5},
    "mulyar2020/eight-heads": {"single": 8 * 5, "together": 5, "twin": 8 * 5},
    "peng2020/refine": {"single": 8 * 3, "together": 2 * 3, "twin": 8 * 3},
    "peng2020/fine-tune": {"single": 4 * 8 * 3, "refine": 3 * 3},
    "peng2020/fine-tune-scripts": {"single": 4 * 8 * 3, "refine": 3 * 3},
    "peng2020/pairwise": {"single": 8 * 3, "pair": (6 + 6) * 3, "twin": 2 * (6 + 6) * 3},
    "wada2020/blue": {"single": 4 * 10 * 5},
    "peng2020/clinical": {"single": 5 * 4 * 3, "refine": 4 * 3},
    "peng2020/biomedical": {"single": 4 * 4 * 3, "refine": 3 * 3},
    "peng2020/all-tasks": {"single": 5 * 8 * 3, "refine": 3 * 3},
}
# LR / epochs / dev / test, as published, models in the order of WADA_ROWS.
WADA = {
    "clinicalsts-2018": "5e-5 / 9 / 87.2 / 85.3 | 5e-5 / 9 / 88.5 / 84.4 | 4e-5 / 8 / 87.2 / 85.0 | 3e-5 / 10 / 85.7 / 84.4",
    "biosses": "4e-5 / 50 / 91.5 / 88.5 | 5e-5 / 50 / 85.8 / 85.2 | 4e-5 / 50 / 90.5 / 90.9 | 3e-5 / 50 / 89.3 / 93.1",
    "bc5cdr-disease": "5e-5 / 30 / 100.0 / 86.2 | 3e-5 / 20 / 100.0 / 84.6 | 5e-5 / 30 / 100.0 / 85.8 | 5e-5 / 30 / 100.0 / 87.3",
    "bc5cdr-chem": "5e-5 / 30 / 99.9 / 93.5 | 5e-5 / 20 / 99.9 / 92.2 | 3e-5 / 30 / 99.9 / 93.2 | 4e-5 / 30 / 99.9 / 93.5",
    "share-clef-2013": "4e-5 / 30 / 98.9 / 77.7 | 5e-5 / 30 / 98.8 / 79.5 | 5e-5 / 30 / 98.9 / 76.9 | 3e-5 / 30 / 98.8 / 80.5",
    "ddi2013": "3e-5 / 5 / 85.9 / 81.2 | 4e-5 / 10 / 84.8 / 79.3 | 5e-5 / 10 / 84.7 / 80.9 | 5e-5 / 10 / 84.9 / 81.7",
    "chemprot": "5e-5 / 5 / 76.4 / 73.5 | 4e-5 / 9 / 72.0 / 68.8 | 3e-5 / 8 / 77.0 / 73.2 | 4e-5 / 7 / 77.8 / 75.3",
    "i2b2-2010-relations": "5e-5 / 5 / 63.2 / 74.2 | 5e-5 / 8 / 84.2 / 75.7 | 3e-5 / 7 / 70.6 / 74.2 | 3e-5 / 8 / 70.6 / 74.0",
    "hoc": "5e-5 / 5 / 87.7 / 86.2 | 3e-5 / 5 / 87.2 / 85.2 | 5e-5 / 15 / 89.7 / 85.9 | 3e-5 / 15 / 87.3 / 86.3",
    "mednli": "4e-5 / 15 / 84.8 / 82.7 | 4e-5 / 7 / 86.4 / 82.8 | 3e-5 / 6 / 85.3 / 83.1 | 3e-5 / 9 / 86.2 / 83.9",
}  # fmt: skip
# Epochs and rate of run_blue_fine_tune.sh.
SCRIPTS = {
    "clinicalsts-2018": (30, 5e-5),
    "mednli": (10, 1e-5),
    "i2b2-2010-relations": (10, 2e-5),
    "chemprot": (20, 2e-5),
    "ddi2013": (10, 5e-5),
    "bc5cdr-chem": (20, 5e-5),
    "bc5cdr-disease": (20, 6e-5),
    "share-clef-2013": (20, 5e-5),
}


@pytest.fixture
def here(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped recipes name their tasks below the current folder."""
    monkeypatch.chdir(workplace)
    return workplace


def recipe(name: str, *sets: str) -> StudyRecipe:
    return load_recipe(StudyRecipe, shipped_recipe(name), [*SETS[name], *sets])


def specs(name: str, *sets: str) -> list[RunSpec]:
    return [run.spec for run in expand(recipe(name, *sets), Path("study")).runs]


def settings(spec: RunSpec) -> FinetuneRecipe:
    """What a run is fine-tuned with, every default filled in."""
    values = {**spec.settings, "model": spec.model, "tasks": [str(path) for path in spec.tasks]}
    return FinetuneRecipe.model_validate(values)


def epochs_and_rate(spec: RunSpec) -> tuple[int, float]:
    found = settings(spec)
    return found.epochs, found.train.lr


@pytest.mark.parametrize("name", RUNS)
def test_every_task_of_the_paper_and_every_run_is_there(name: str, here: Path) -> None:
    found = specs(name)
    assert {column for spec in found for column in spec.columns} == TASKS[name]
    assert Counter(spec.mode for spec in found) == RUNS[name]
    assert {path.relative_to(here).parts[0] for spec in found for path in spec.tasks} == {"tasks"}


def test_carrino2022_tries_five_rates_with_batches_of_64_for_20_epochs(here: Path) -> None:
    found = specs("carrino2022/ner-grid")
    assert {(spec.columns[0], epochs_and_rate(spec)[1], spec.seed) for spec in found} == {
        (task, rate, seed)
        for task in TASKS["carrino2022/ner-grid"]
        for rate in (0.8e-5, 1e-5, 2e-5, 3e-5, 5e-5)
        for seed in (1, 2, 3)
    }
    for spec in found:
        used = settings(spec)
        assert (used.epochs, used.batch_size * used.accumulate, used.max_length) == (20, 64, 512)
        train = used.train
        assert (train.schedule, train.warmup, train.weight_decay, train.clip) == ("linear", 0, 0.0, 1.0)
        assert (train.betas, train.eps) == ((0.9, 0.999), 1e-8)
        assert (used.tagger, used.unit, used.keep) == ("linear", "sentence", "best")
        assert used.protocols == {spec.columns[0]: "conlleval"}
    assert (recipe("carrino2022/ner-grid").choose, recipe("carrino2022/ner-grid").score) == ("settings", "all")


def test_lewis2020_has_two_kinds_of_settings_and_reports_nine_folds(here: Path) -> None:
    found = specs("lewis2020/eighteen-tasks")
    for spec in found:
        used = settings(spec)
        kind = (used.train.lr, used.batch_size, used.epochs, used.train.eval_every)
        assert kind == ((1e-5, 32, 20, 500) if spec.columns[0] in SEQUENCE else (2e-5, 16, 10, 200))
        assert (used.train.weight_decay, used.train.warmup, used.train.clip) == (0.0, 0, 1.0)
        assert (used.max_length, used.unit, used.max_words, used.head) == (512, "sentence", None, "mlp")
    assert recipe("lewis2020/eighteen-tasks").protocols["jnlpba"] == "merged-types"
    assert recipe("lewis2020/eighteen-tasks").over_folds == "median"
    for column in ("gad", "euadr"):
        folds = {path.name for spec in found if spec.columns == (column,) for path in spec.tasks}
        assert folds == {f"fold{number}" for number in range(2, 11)}
    assert {spec.seed for spec in found} == {1, 2, 3, 4, 5}
    groups = {name: set(members) for name, members in recipe("lewis2020/eighteen-tasks").groups.items()}
    assert (groups["Seq. lab."], groups["Classif."]) == (SEQUENCE, CLASSIFICATION)
    assert groups["PubMed"] | groups["Clinical"] == SEQUENCE | CLASSIFICATION
    assert (len(groups["PubMed"]), len(groups["Clinical"])) == (13, 5)


def test_mulyar2020_takes_turns_at_a_constant_rate(here: Path) -> None:
    pairs = {"n2c2-2019-sts", "mednli", "medrqe"}
    for spec in specs("mulyar2020/eight-heads"):
        used = settings(spec)
        assert set(used.mixing.batch_sizes) <= set(spec.columns)
        sizes = {name: used.mixing.batch_sizes.get(name, used.batch_size) for name in spec.columns}
        assert sizes == {name: 40 if name in pairs else 25 for name in spec.columns}
        train = used.train
        assert (train.lr, train.schedule, train.optimizer) == (5e-5, "constant", "adamw")
        assert (train.weight_decay, train.clip, train.warmup) == (0.0, 0.0, 0)
        assert (used.mixing.order, used.max_length, used.epochs, used.accumulate) == ("round-robin", 512, 20, 1)
        assert used.batch_tokens >= 40 * 512
        assert (used.unit, used.head, used.train_heads) == ("document", "linear", True)


def test_peng2020_refines_and_pairs_within_a_domain(here: Path) -> None:
    together = {spec.columns for spec in specs("peng2020/refine") if spec.mode == "together"}
    assert {frozenset(columns) for columns in together} == {frozenset(CLINICAL), frozenset(BIOMEDICAL)}
    for spec in specs("peng2020/pairwise") + specs("peng2020/refine"):
        assert len(spec.columns) <= 2 or spec.mode == "together"
        assert set(spec.columns) <= CLINICAL or set(spec.columns) <= BIOMEDICAL
        used = settings(spec)
        assert (used.epochs, used.batch_size, used.max_length, used.dropout) == (100, 32, 128, 0.1)
        assert used.mixing.order == "proportional"
        assert (used.unit, used.max_words, used.head, used.keep) == ("sentence", 30, "linear", "best")
        train = used.train
        assert (train.lr, train.optimizer, train.warmup, train.schedule) == (5e-5, "adamax", 0.1, "linear")
        assert (train.weight_decay, train.clip) == (0.01, 1.0)


@pytest.mark.parametrize("name", ["peng2020/fine-tune", "peng2020/fine-tune-scripts"])
def test_peng2020_fine_tunes_what_was_refined(name: str, here: Path) -> None:
    plan = expand(recipe(name), Path("study"))
    refined = {run.key: run.spec for run in plan.runs if run.spec.mode == "refine"}
    assert {epochs_and_rate(spec) for spec in refined.values()} == {(100, 5e-5)}
    for run in plan.runs:
        spec = run.spec
        if spec.mode == "refine":
            assert settings(spec).mixing.order == "proportional"
        elif spec.row == "single":
            long = {"clinicalsts-2018", "share-clef-2013", "bc5cdr-disease", "bc5cdr-chem"}
            assert spec.after is None
            assert epochs_and_rate(spec) == (30 if spec.columns[0] in long else 10, 5e-5)
        else:
            assert spec.after is not None
            assert (refined[spec.after].row, refined[spec.after].seed) == (spec.row, spec.seed)
            assert epochs_and_rate(spec) == ((10, 1e-5) if name == "peng2020/fine-tune" else SCRIPTS[spec.columns[0]])
        used = settings(spec)
        as_scripts = name == "peng2020/fine-tune-scripts"
        head = "pooler" if as_scripts else "linear"
        assert (used.unit, used.max_words, used.head, used.train.clip) == ("sentence", 30, head, 1.0)
        assert used.keep == ("last" if as_scripts else "best")
        assert all(protocol.endswith("train+dev") == as_scripts for protocol in used.protocols.values())
    tasks = {spec.row: set(spec.columns) for spec in refined.values()}
    assert list(tasks.values()) == [CLINICAL, BIOMEDICAL, CLINICAL | BIOMEDICAL]


@pytest.mark.parametrize("name", BLUE_ROWS)
def test_peng2020_has_a_recipe_for_each_of_tables_2_to_6(name: str, here: Path) -> None:
    assert list(recipe(name).models) == BLUE_ROWS[name]
    plan = expand(recipe(name), Path("study"))
    for spec in (run.spec for run in plan.runs):
        used = settings(spec)
        if not spec.row.startswith("MT-"):
            # The baselines are quoted from an earlier paper, whose scripts have other settings.
            long = {"clinicalsts-2018", "share-clef-2013", "bc5cdr-disease", "bc5cdr-chem"}
            assert epochs_and_rate(spec) == (30 if spec.columns[0] in long else 10, 5e-5)
            assert (used.train.optimizer, used.head, spec.after) == ("adamw", "pooler", None)
        elif spec.mode == "refine":
            assert (set(spec.columns), epochs_and_rate(spec)) == (TASKS[name], (100, 5e-5))
        else:
            assert (used.train.optimizer, used.head, epochs_and_rate(spec)) == ("adamax", "linear", (10, 1e-5))
            assert spec.after is not None
    starts = {row: model.model for row, model in load_recipe(StudyRecipe, shipped_recipe(name)).models.items()}
    folders = {"P": "bluebert-p", "PM": "bluebert-pm", "MT-BioBERT": "biobert", "MT-ClinicalBERT": "clinicalbert"}
    for row, start in starts.items():
        assert start == f"models/{folders[row if row in folders else row.rpartition('-')[2]]}"


@pytest.mark.parametrize("name", ["wada2020/blue", "peng2020/fine-tune", *BLUE_ROWS])
def test_a_row_that_is_added_says_which_settings_it_takes(name: str, here: Path) -> None:
    with pytest.raises(RecipeError, match=r"models\.mine does not say which settings it takes"):
        recipe(name, MINE)
    other = next(iter(recipe(name).models))
    found = specs(name, MINE, f"models.mine.like={other}")
    theirs, mine = (
        [(spec.columns, spec.seed, spec.settings) for spec in found if spec.row == row] for row in (other, "mine")
    )
    assert mine == theirs


def test_peng2020_refinements_are_the_same_runs_in_both_studies(here: Path) -> None:
    trained = {run.key for run in expand(recipe("peng2020/refine"), Path("one")).runs}
    plan = expand(recipe("peng2020/fine-tune"), Path("two"))
    shared = {run.spec.row for run in plan.runs if run.spec.mode == "refine" and run.key in trained}
    assert shared == {"refined, clinical", "refined, biomedical"}


def test_wada2020_has_the_published_rate_and_epochs_of_every_model_on_every_task(here: Path) -> None:
    published = {}
    for task, line in WADA.items():
        for row, cell in zip(WADA_ROWS, line.split(" | "), strict=True):
            rate, epochs, _, _ = cell.split(" / ")
            published[row, task] = (int(epochs), float(rate))
    found = specs("wada2020/blue")
    assert {(spec.row, spec.columns[0]): epochs_and_rate(spec) for spec in found} == published
    for spec in found:
        used = settings(spec)
        assert (used.max_length, used.batch_size, used.accumulate) == (128, 32, 1)
        assert (used.train.weight_decay, used.train.warmup, used.train.clip) == (0.0, 0, 1.0)
    assert {spec.seed for spec in found} >= {12}
    mentions = {"bc5cdr-disease", "bc5cdr-chem", "share-clef-2013"}
    for spec in found:
        [protocol] = settings(spec).protocols.values()
        assert (protocol == "b-anchored-train+dev") == (spec.columns[0] in mentions)
        used = settings(spec)
        assert (used.unit, used.max_words, used.head, used.keep) == ("sentence", 30, "pooler", "last")


def test_a_task_or_a_model_can_be_left_out_with_all_that_is_said_of_it(here: Path) -> None:
    gone = ["bc4chemd", "i2b2-2014-deid", "gad"]
    found = recipe("lewis2020/eighteen-tasks", f"without={gone}")
    assert {column for spec in specs("lewis2020/eighteen-tasks", f"without={gone}") for column in spec.columns} == (
        SEQUENCE | CLASSIFICATION
    ) - set(gone)
    assert not set(gone) & {name for members in found.groups.values() for name in members}
    rows = {spec.row for spec in specs("wada2020/blue", 'without=["BioBERT", "ouBioBERT"]')}
    assert rows == {"BlueBERT-P", "BlueBERT-P+M"}
    refined = recipe("peng2020/fine-tune", 'without=["mednli"]').models["refined, clinical"].refine
    assert refined is not None
    assert set(refined.tasks) == CLINICAL - {"mednli"}
    with pytest.raises(RecipeError, match="without: 'medmli' is neither a model nor a task"):
        recipe("lewis2020/eighteen-tasks", 'without=["medmli"]')


def test_tasks_are_trained_together_only_within_groups_that_exist(here: Path) -> None:
    everything = specs("peng2020/pairwise", "within=[]")
    assert Counter(spec.mode for spec in everything) == {"single": 8 * 3, "pair": 28 * 3, "twin": 2 * 28 * 3}
    with pytest.raises(RecipeError, match="within: 'Legal' must be a group"):
        recipe("peng2020/refine", 'within=["Legal"]')


def test_a_row_must_be_given_where_the_paper_has_no_settings_of_its_own() -> None:
    with pytest.raises(RecipeError, match="'models' is missing"):
        load_recipe(StudyRecipe, shipped_recipe("lewis2020/eighteen-tasks"))


def dry_run(name: str, *sets: str) -> str:
    arguments = ["study", "run", name, "--dry-run", *(part for each in sets for part in ("--set", each))]
    return " ".join(CliRunner().invoke(app, arguments).output.split())


@pytest.mark.parametrize("name", RUNS)
def test_a_dry_run_says_what_the_study_will_do(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "speed", lambda encoder, spec: (1e9, "a steady machine"))
    wanted = recipe(name)
    text = dry_run(name, *SETS[name])
    assert all(f"{row} (encoder)" in text for row in wanted.models)
    assert all(f"{task}/{wanted.protocols[task]}@" in text for task in TASKS[name])
    assert f"seeds {', '.join(map(str, wanted.seeds))}" in text
    assert ("cross-validated, median over folds: gad in 9 folds; euadr in 9 folds" in text) == bool(wanted.folds)
    assert ("grid: train.lr 8e-6, 1e-5, 2e-5, 3e-5, 5e-5" in text) == bool(wanted.grid)
    chosen = "choose the grid point with the best mean dev score over seeds" if wanted.grid else "nothing to choose"
    assert chosen in text
    # Rows share runs here, because all have the same encoder.
    assert f" {len({run.key for run in expand(wanted, Path('study')).runs}):,} runs" in text
    for task in TASKS[name]:
        # Learning rate, epochs, batch, sequences, updates, scores on dev, runs and time of the task alone.
        assert re.search(rf"{task} [\de.-]+( to [\de.-]+)? \d+ \d+( x \d+)? [\d,]+", text)
    assert "expected time: " in text
    assert "nothing was done" in text


def test_one_error_lists_all_missing_tasks_and_models(here: Path) -> None:
    name = "lewis2020/eighteen-tasks"
    gone = ["tasks/mednli", "tasks/hoc"]
    paths = [f"nowhere/{path}" if str(path) in gone else str(path) for path in recipe(name).tasks]
    folds = {column: [str(path) for path in found] for column, found in recipe(name).folds.items()}
    folds["gad"][0] = "nowhere/tasks/gad/fold2"
    sets = [f"tasks={_inline(paths)}", f"folds={_inline(folds)}", "models.other.model=nowhere/model"]
    with pytest.raises(RecipeError) as error:
        expand(recipe(name, *sets), Path("study"))
    text = str(error.value)
    assert "this study is not complete: 3 tasks, no such folder: nowhere/tasks/hoc, nowhere/tasks/mednli" in text
    assert "nowhere/tasks/gad/fold2 to fold10; 1 model, no such" in text
    assert "nowhere/model (other)" in text
    assert "osler tasks prepare --all --from DATA --out tasks" in text
    assert """--set 'without=["hoc", "mednli", "gad", "other"]'""" in text


def reduced(name: str) -> list[str]:
    """The recipe's own tasks, rows and modes with one seed, one epoch, short windows and, of a grid, two points."""
    found = recipe(name)
    sets = ["seeds=[1]", "workers=1"]
    sets += ["finetune.epochs=1", "finetune.max_length=64", "finetune.overlap=8"]
    sets += [f"task_settings.{column}.epochs=1" for column in found.task_settings]
    if found.grid:
        sets.append('grid={"train.lr" = [1e-3, 2e-3]}')
    models: dict[str, Any] = {}
    for row, model in found.models.items():
        values = model.resolved()
        for own in values.get("task_settings", {}).values():
            own["epochs"] = 1
        if "refine" in values:
            values["refine"]["settings"]["epochs"] = 1
        models[row] = values
    return [*sets, f"models={_inline(models)}"]


def _inline(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(_inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


def study(name: str, here: Path, out: Path) -> list[dict[str, Any]]:
    """Run a recipe at reduced size as a user does, and return the cells of its results. Studies share runs that are the same."""
    arguments = ["study", "run", name, "--out", str(out), "--set", f"store={here / 'runs'}"]
    for each in [*SETS[name], *reduced(name)]:
        arguments += ["--set", each]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    made = Artifact.open(out, kind="study")
    for file in ("table.md", "table.csv", "table.tex", "report.html"):
        assert (made.path / file).stat().st_size > 100
    cells: list[dict[str, Any]] = json.loads((made.path / "results.json").read_text())["cells"]
    return cells


CELLS = {
    "carrino2022/ner-grid": {"single": 3},
    "lewis2020/eighteen-tasks": {"single": 18},
    "mulyar2020/eight-heads": {"single": 8, "together": 8, "twin": 8},
    "peng2020/refine": {"single": 8, "together": 8, "twin": 8},
    "peng2020/fine-tune": {"single": 4 * 8, "refine": 4 + 4 + 8},
    "peng2020/pairwise": {"single": 8, "pair": 2 * (6 + 6), "twin": 2 * (6 + 6)},
    "wada2020/blue": {"single": 4 * 10},
    "peng2020/clinical": {"single": 5 * 4, "refine": 4 * 4},
}


@pytest.mark.parametrize("name", CELLS)
def test_the_recipe_runs_from_prepared_tasks_to_the_table(name: str, here: Path, tmp_path: Path) -> None:
    cells = study(name, here, tmp_path / "study")
    found = Counter(cell["mode"] for cell in cells)
    assert {mode: found[mode] for mode in CELLS[name]} == CELLS[name]
    wanted = recipe(name)
    for cell in cells:
        assert cell["protocol"].partition("@")[0] == f"{cell['task']}/{wanted.protocols[cell['task']]}"
        assert cell["folds"] == (9 if cell["task"] in wanted.folds else 0)
        points = 2 if wanted.grid else 1
        assert len(cell["runs"]) == points * (cell["folds"] or 1)
        assert all(run["score"] is not None for run in cell["runs"])
    assert {cell["task"] for cell in cells} == TASKS[name]
    assert {cell["model"] for cell in cells} == set(wanted.models)
    table = "".join(path.read_text() for path in (tmp_path / "study").rglob("*.md"))
    assert all(column in table for column in TASKS[name])
    assert (tmp_path / "study" / "pairwise.html").exists() == ("pairs" in wanted.modes)
    updates = {(cell["task"], cell["partner"], cell["mode"]): cell["chosen"]["updates"] for cell in cells}
    joint = {name: number for name, number in updates.items() if name[2] in ("together", "pair")}
    assert all(updates[task, partner, "twin"] == number for (task, partner, _), number in joint.items())
