"""Runs scored on other corpora: the same numbers as `osler evaluate`, no shared documents, no further training."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from encoders import preset_encoder
from forked import run_code

from osler.artifacts.evaluation import Evaluation
from osler.core.artifact import MANIFEST, Manifest
from osler.core.config import validate
from osler.core.errors import RecipeError
from osler.core.files import write_json
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.run import run as evaluate
from osler.stages.study.page import study_markdown
from osler.stages.study.plan import expand
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.results import read_results
from osler.stages.study.run import plan, report, run
from osler.stages.study.schedule import Schedule
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Span

FILLERS = ("morning", "evening", "night", "ward", "clinic", "home")
DRUGS = ("aspirin", "heparin", "warfarin", "insulin")


def notes(place: str, label: str, size: int) -> list[Document]:
    """Short notes with one drug each; no two of different places are copies of each other."""
    made = []
    for i in range(size):
        drug, words = DRUGS[i % len(DRUGS)], [f"{place}{FILLERS[(i + k) % len(FILLERS)]}{i * k}" for k in range(6)]
        text = f"{drug} {' '.join(words)}"
        made.append(Document(f"{place}-{i}", text, (Span.at(0, len(drug), label, id="T1"),)))
    return made


def two_corpora(bench: Any) -> Any:
    """Two corpora that call the same mentions differently. The second has one test document that the first trains on."""
    card = load_card("clinic-entities-en")
    strict = card.protocols["strict"]
    card = card.changed(protocols={"strict": strict, "macro": strict.changed(metric="macro_f1")})
    train, other = notes("north", "DRUG", 8), notes("south", "MEDICINE", 8)
    bench.task("north", card.changed(labels=("DRUG",)), train, test=notes("northern", "DRUG", 4))
    copy = train[0].with_(id="copy", spans=(replace(train[0].spans[0], label="MEDICINE"),))
    test = [copy, *notes("southern", "MEDICINE", 4)]
    bench.task("south", card.changed(labels=("MEDICINE",)), other, test=test)
    return bench


def recipe(bench: Any, **more: Any) -> StudyRecipe:
    values = {
        "models": {"m": {"model": "m"}},
        "tasks": [paths[0] for paths in bench.tasks.values() if len(paths) == 1],
        "folds": {name: paths for name, paths in bench.tasks.items() if len(paths) > 1},
        "across": {"north": ["south"], "south": ["north"]},
        "seeds": [1, 2],
        "workers": 1,
    }
    return validate(StudyRecipe, values | more, where="test")


def across(study: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((study / "results.json").read_text())["across"]
    return found


def files(folder: Path) -> dict[str, bytes]:
    """Every file of an artifact that is part of its hash."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "logs" not in path.parts
    }


TRAINED = {"leaks": "keep", "epochs": 15, "batch_size": 4, "train": {"lr": 3e-3, "device": "cpu", "threads": 1}}


@pytest.fixture(scope="module")
def trained(bench_in, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecipe, Path]:
    """A study of two corpora that was really trained, one seed."""
    folder = tmp_path_factory.mktemp("trained")
    preset_encoder("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(folder / "model")
    shutil.copyfile(tokenizer_folder / "tokenizer.json", folder / "model" / "tokenizer.json")
    bench = two_corpora(bench_in(folder))
    study = recipe(bench, models={"m": {"model": str(folder / "model")}}, seeds=[1], finetune=TRAINED)
    run(study, folder / "study")
    return study, folder / "study"


def bundle_of(study: Path, head: str) -> Path:
    specs = study.with_name(f"{study.name}.runs").glob("*/spec.json")
    return next(path.parent / "bundle" for path in specs if json.loads(path.read_text())["columns"] == [head])


def test_the_score_is_that_of_osler_evaluate(trained, tmp_path: Path) -> None:
    study, out = trained
    to_south, to_north = across(out)
    assert (to_north["trained_on"], to_north["tested_on"], to_north["left_out"]) == ("south", "north", 0)
    asked = EvaluateRecipe(
        bundle=bundle_of(out, "south"), task=study.tasks[0], head="south", label_map={"MEDICINE": "DRUG"}, device="cpu"
    )
    found = Evaluation.open(evaluate(asked, tmp_path / "evaluation").path)
    assert to_north["scores"] == [found.metrics.main]
    assert found.metrics.main > 0.5
    assert to_north["protocol"] == found.metrics.protocol == "north/strict@v1"
    # All documents are predicted; the copy is left out of the score only.
    [kept] = bundle_of(out, "north").parent.glob("across/south-*")
    assert len(list(Evaluation.open(kept).predictions())) == 5
    assert (to_south["documents"], to_south["left_out"]) == (4, 1)


KILLED = """
import sys
from killing import die_at_call
from osler.core.config import load_recipe
from osler.core import artifact
from osler.stages.evaluate import run as evaluate
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run
from pathlib import Path

function, call, recipe, out = sys.argv[1:]
die_at_call({"score": evaluate, "_finish_partial": artifact}[function], function, int(call))
run(load_recipe(StudyRecipe, Path(recipe)), Path(out))
"""


@pytest.mark.parametrize(("function", "call"), [("score", 2), ("_finish_partial", 3)])
def test_a_study_killed_while_it_scores_across_gives_the_same_bytes(trained, tmp_path: Path, function, call) -> None:
    study, out = trained
    (tmp_path / "study.toml").write_text(study.to_toml())
    killed = run_code(KILLED, function, str(call), str(tmp_path / "study.toml"), str(tmp_path / "study"), cwd=tmp_path)
    assert killed.returncode == -9, killed.stderr
    assert not (tmp_path / "study").exists()
    [partial] = tmp_path.glob("study.runs/*/across/*.partial")
    run(study, tmp_path / "study")
    assert not partial.exists()
    assert files(tmp_path / "study") == files(out)
    kept = [
        {path.parent.name: Manifest.read(path).digest for path in runs.glob(f"*/across/*/{MANIFEST}")}
        for runs in (tmp_path / "study.runs", out.with_name("study.runs"))
    ]
    assert len(kept[0]) == 2
    assert kept[0] == kept[1]


def test_scores_of_weights_that_came_out_differently_are_made_again(trained, tmp_path: Path) -> None:
    """On a GPU the same training need not give the same bytes, and weights that were removed are trained again."""
    study, _ = trained
    bare = study.changed(store=tmp_path / "store", across={}, keep_weights=False)
    run(bare, tmp_path / "study")
    own = sorted(tmp_path.glob(f"store/*/evaluation/*/{MANIFEST}"))
    for path in own:
        values = json.loads(path.read_text())
        write_json(path, {**values, "identity": "another", "parents": {**values["parents"], "bundle": "another"}})
    run(bare.changed(across=study.across, keep_weights=True), tmp_path / "study")
    assert len(across(tmp_path / "study")) == 2
    for path in own:
        bundle = path.parents[2] / "bundle" / MANIFEST
        assert Manifest.read(path).parents["bundle"] == Manifest.read(bundle).digest


@pytest.fixture
def corpora(bench) -> Any:
    return two_corpora(bench)


@pytest.mark.parametrize("workers", [1, 2])
def test_documents_that_training_has_are_left_out_on_both_sides(corpora, tmp_path: Path, fake, workers) -> None:
    fake(missed={"m": 1})  # seed 1 misses the first two documents of each split, seed 2 the first three
    made = run(recipe(corpora, workers=workers), tmp_path / "study")
    to_south, to_north = across(made.path)
    # Of the five documents of south the first is the copy: of the other four, one and two are missed.
    assert (to_south["documents"], to_south["left_out"]) == (4, 1)
    assert to_south["scores"] == to_south["in_corpus"] == pytest.approx([6 / 7, 4 / 6])
    assert (to_north["documents"], to_north["left_out"]) == (4, 0)
    assert to_north["scores"] == pytest.approx([4 / 6, 2 / 5])
    assert to_north["comparison"]["difference"] == 0
    # The score of the task itself is over all of its documents.
    cells = {cell["task"]: cell for cell in json.loads((made.path / "results.json").read_text())["cells"]}
    assert cells["south"]["documents"] == 5
    assert cells["south"]["scores"] == pytest.approx([6 / 8, 4 / 7])


def test_the_table_is_in_the_report_and_on_the_page(corpora, tmp_path: Path, fake) -> None:
    fake()
    made = run(recipe(corpora), tmp_path / "study")
    table = (made.path / "tables" / "across.md").read_text()
    assert "| m | north | south | 92.9 ± 10.1 | 92.9 ± 10.1 |" in table
    assert "| 4 | 1 |" in table
    assert "Annotation guidelines differ" in table
    assert "Across corpora" in (made.path / "report.html").read_text()
    assert table.strip() in study_markdown(read_results(made.path / "results.json"))
    without = run(recipe(corpora, across={}), tmp_path / "without")
    assert "across" not in json.loads((without.path / "results.json").read_text())
    assert not (without.path / "tables" / "across.md").exists()


def test_a_corpus_that_training_has_whole_gets_no_score(bench, tmp_path: Path, fake) -> None:
    card = load_card("clinic-entities-en").changed(labels=("DRUG",))
    bench.task("north", card, notes("north", "DRUG", 4))
    bench.task("south", card, notes("south", "DRUG", 4), test=notes("north", "DRUG", 4))
    fake()
    made = run(recipe(bench, across={"north": ["south"]}), tmp_path / "study")
    [cell] = across(made.path)
    assert (cell["documents"], cell["left_out"], cell["scores"]) == (0, 4, [])
    assert "| m | north | south | – | – | – | 0 | 4 |" in (made.path / "tables" / "across.md").read_text()


@pytest.mark.parametrize("score", ["chosen", "all"])
def test_only_runs_chosen_on_dev_and_of_all_the_data_are_scored(corpora, tmp_path: Path, fake, score) -> None:
    runner = fake(dev={"m 1": 0.1, "m 2": 0.9})
    study = recipe(corpora, grid={"epochs": [1, 2]}, fractions=[0.5], score=score, across={"north": ["south"]})
    run(study, tmp_path / "study")
    assert sorted(runner.done("across")) == [f"m, north, seed {seed}, epochs 2" for seed in (1, 2)]


def test_stored_runs_are_reused_and_trained_again_only_without_weights(corpora, tmp_path: Path, fake) -> None:
    runner = fake()
    plain = recipe(corpora, across={})
    run(plain, tmp_path / "study")
    extended = recipe(corpora)
    assert {item.key for item in expand(plain, tmp_path / "a").runs} == {
        item.key for item in expand(extended, tmp_path / "a").runs
    }
    assert len(Schedule(extended, expand(extended, tmp_path / "study")).missing()) == 4
    run(extended, tmp_path / "study")
    assert (len(runner.done()), len(runner.done("across"))) == (4, 4)
    # Weights stay until the last score is made, and go then.
    run(recipe(corpora, keep_weights=False), tmp_path / "study")
    assert not list(tmp_path.rglob("*.safetensors"))
    assert len(runner.done()) == 4
    table = (tmp_path / "study" / "tables" / "across.md").read_text()
    folder, missing = report(extended, tmp_path / "study", force=True)
    assert not missing
    assert (folder / "tables" / "across.md").read_text() == table


def test_studies_that_share_a_store_may_score_across_in_different_ways(corpora, tmp_path: Path, fake) -> None:
    runner = fake()
    common = {"across": {"north": ["south"]}, "store": tmp_path / "store"}
    run(recipe(corpora, **common), tmp_path / "one")
    run(recipe(corpora, protocols={"south": "macro"}, **common), tmp_path / "two")
    assert len(runner.done("across")) == 4
    # The runs of south are others, because they are trained under another protocol.
    assert len(runner.done()) == 6
    assert report(recipe(corpora, **common), tmp_path / "one")[1] == []


def test_weights_stay_until_the_scores_across_are_made(corpora, tmp_path: Path, fake) -> None:
    runner = fake()
    run(recipe(corpora, keep_weights=False), tmp_path / "study")
    assert (len(runner.done()), len(runner.done("across"))) == (4, 4)
    assert not list(tmp_path.rglob("*.safetensors"))
    shutil.rmtree(next(tmp_path.glob("study.runs/*/across")))
    study = recipe(corpora)
    assert len(Schedule(study, expand(study, tmp_path / "study")).missing()) == 1
    folder, missing = report(study, tmp_path / "study")
    assert (folder.name, len(missing)) == ("study.so-far", 1)
    assert "1 run of the study not done yet." in (folder / "tables" / "across.md").read_text()
    run(study, tmp_path / "study", force=True)
    assert (len(runner.done()), len(runner.done("across"))) == (5, 5)


def test_the_plan_says_what_is_scored_across(corpora, tmp_path: Path, fake) -> None:
    fake()
    study = recipe(corpora)
    told = plan(study, tmp_path / "study", expand(study, tmp_path / "study"), dry_run=True)
    wanted = "score the chosen runs across corpora, without further training: north on south; south on north; "
    assert any(line.startswith(wanted) for line in told)


def test_columns_that_are_left_out_are_left_out_of_across(corpora) -> None:
    study = recipe(corpora, across={"north": ["south"], "south": ["north"]}, without=["south"])
    assert study.across == {}
    corpora.task("east", load_card("clinic-entities-en").changed(labels=("DRUG",)), notes("east", "DRUG", 4))
    wider = {"north": ["south", "east"], "south": ["north"], "east": ["north"]}
    assert recipe(corpora, across=wider, without=["south"]).across == {"north": ("east",), "east": ("north",)}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"across": {"nort": ["south"]}}, "across names the column 'nort'.*Did you mean 'north'"),
        ({"across": {"north": ["sout"]}}, r"across\.north names the column 'sout'.*Did you mean 'south'"),
        ({"across": {"north": ["north"]}}, "across: 'north' must name other columns, each once"),
        ({"across": {"north": ["south", "south"]}}, "across: 'north' must name other columns, each once"),
        (
            {"across": {"north": ["pairs"]}},
            "pairs is a classification task, and only taggers.*Remove pairs from across",
        ),
        ({"across": {"pairs": ["north"]}}, "pairs is a classification task"),
        ({"across": {"north": ["folded"]}}, "folded is cross-validated"),
        ({"modes": ["together"], "folds": {}}, "across scores runs of one task on others; add .single. to modes"),
        ({"across": {"north": ["many"]}}, r"the labels of north \(DRUG\) and of many \(DRUG, DOSE\) differ.*--label"),
        ({"across": {"north": ["merged"]}}, "the protocols of north and merged differ in merged"),
        (
            {"task_settings": {"north": {"decoding": "greedy"}}},
            r"south would be scored under .*\+greedy.* and under|south would be scored under .* and under .*\+greedy",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused_before_the_first_run(corpora, tmp_path: Path, fake, more, message) -> None:
    fake()
    card = load_card("clinic-entities-en")
    records = notes("east", "DRUG", 4)
    corpora.classes("pairs", size=4)
    corpora.task("folded", card.changed(labels=("DRUG",)), records, folds=2)
    corpora.task("many", card.changed(labels=("DRUG", "DOSE")), records)
    merged = {"strict": card.protocols["strict"].changed(merged="entity")}
    corpora.task("merged", card.changed(labels=("DRUG", "DOSE"), protocols=merged), records)
    with pytest.raises(RecipeError, match=message):
        expand(recipe(corpora, **more), tmp_path / "study")
