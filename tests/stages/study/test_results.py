"""From finished runs to numbers, each computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osler.core.errors import ArtifactError, OslerError
from osler.stages.study.cells import CellKey, StudyCell
from osler.stages.study.page import write_report
from osler.stages.study.results import collect, read_results
from osler.stages.study.tables import difference_table, extra_tables, interval_table
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Span, TextPair


def test_seeds_of_a_cell(bench) -> None:
    bench.classes("mednli")
    runs = [bench.run("a", "mednli", seed, right) for seed, right in ((1, 10), (2, 14), (3, 12))]
    cell = collect(bench.recipe("a"), runs).cell("a", "mednli")
    assert (cell.seeds, cell.scores, cell.documents) == ((1, 2, 3), (0.5, 0.7, 0.6), 20)
    assert cell.summary.mean == pytest.approx(0.6)
    assert cell.summary.std == pytest.approx(0.1)
    assert (cell.protocol, cell.metric) == ("mednli/pair@v1", "accuracy")
    assert cell.interval.low < 0.6 < cell.interval.high
    # Best after 50 of 100 steps and ten epochs.
    assert (cell.best_epoch, cell.task_steps, cell.dev) == (5.0, 100, 0.5)
    assert cell.curve == [(25.0, 0.25), (50.0, 0.5)]


def test_the_best_epoch_is_counted_in_the_steps_of_an_epoch(bench) -> None:
    bench.classes("mednli")
    # Nine batches per epoch, four per step: three steps per epoch, the last of them with one batch.
    counts = {"batches_by_epoch": [{"mednli": 9}] * 10}
    run = bench.run("a", "mednli", 1, 10, steps=30, best=30, accumulate=4, counts=counts)
    assert collect(bench.recipe("a"), [run]).cell("a", "mednli").best_epoch == 10.0


def test_runs_that_dev_did_not_choose_are_kept_apart(bench) -> None:
    bench.classes("mednli")
    runs = [
        bench.run("a", "mednli", 1, 10, point={"train.lr": 1e-5}, dev=0.4, chosen=False),
        bench.run("a", "mednli", 2, 12, point={"train.lr": 1e-5}, dev=0.4, chosen=False),
        bench.run("a", "mednli", 1, 16, point={"train.lr": 5e-5}, dev=0.8),
        bench.run("a", "mednli", 2, 18, point={"train.lr": 5e-5}, dev=0.9),
    ]
    cell = collect(bench.recipe("a", score="all"), runs).cell("a", "mednli")
    assert cell.scores == (0.8, 0.9)
    assert cell.winner.settings == {"lr": 5e-5}
    assert cell.dev == pytest.approx(0.85)
    over_all = cell.over_all()
    assert over_all.n == 4
    assert over_all.mean == pytest.approx((0.5 + 0.6 + 0.8 + 0.9) / 4)
    assert cell.configurations == 2


def test_runs_without_a_score_count_as_configurations_only(bench) -> None:
    bench.classes("mednli")
    runs = [
        bench.run("a", "mednli", 1, None, point={"train.lr": 1e-5}, chosen=False),
        bench.run("a", "mednli", 1, 16, point={"train.lr": 5e-5}),
    ]
    cell = collect(bench.recipe("a"), runs).cell("a", "mednli")
    assert (len(cell.runs), len(cell.scored), cell.scores) == (2, 1, (0.8,))


def test_folds_are_averaged_for_each_seed(bench) -> None:
    bench.classes("gad", size=10, folds=3)
    right = {(1, 0): 5, (1, 1): 6, (1, 2): 10, (2, 0): 4, (2, 1): 4, (2, 2): 4}
    runs = [bench.run("a", "gad", seed, number, fold=fold) for (seed, fold), number in right.items()]
    cell = collect(bench.recipe("a"), runs).cell("a", "gad")
    assert cell.scores == pytest.approx((0.7, 0.4))
    assert (cell.folds, cell.documents, cell.protocol) == (3, 30, "gad/pair@v1")
    assert cell.interval.value == pytest.approx(0.55)


def test_the_median_over_folds_is_a_choice_of_the_recipe(bench) -> None:
    bench.classes("gad", size=10, folds=3)
    right = {(1, 0): 1, (1, 1): 8, (1, 2): 9, (2, 0): 2, (2, 1): 3, (2, 2): 10}
    runs = [bench.run("a", "gad", seed, number, fold=fold) for (seed, fold), number in right.items()]
    found = collect(bench.recipe("a", over_folds="median"), runs)
    cell = found.cells[CellKey("a", "gad")]
    # The median of its folds for each seed, then the median of the seeds.
    assert cell.scores == (0.8, 0.3)
    assert cell.summary.median == pytest.approx(0.55)
    assert cell.interval is not None
    assert cell.interval.value == pytest.approx(0.55)
    assert StudyCell.from_dict(cell.to_dict()).scores == cell.scores
    plain = collect(bench.recipe("a"), runs).cells[CellKey("a", "gad")]
    assert plain.scores == pytest.approx((0.6, 0.5))
    assert "over_folds" not in plain.to_dict()
    # Only the tables differ: no run is done again, and studies made before keep their identity.
    assert "over_folds" not in bench.recipe("a").identity()
    assert bench.recipe("a", over_folds="median").identity()["over_folds"] == "median"


def test_folds_that_each_chose_one_run_are_one_score(bench) -> None:
    bench.classes("gad", size=10, folds=2)
    runs = [
        bench.run("a", "gad", 1, 5, fold=0),
        bench.run("a", "gad", 2, 8, fold=1),
        bench.run("a", "gad", 2, None, fold=0, chosen=False),
        bench.run("a", "gad", 1, None, fold=1, chosen=False),
    ]
    cell = collect(bench.recipe("a", choose="run"), runs).cell("a", "gad")
    assert cell.scores == (0.65,)


def test_the_baseline_comparison_is_paired_and_corrected(bench) -> None:
    bench.classes("one")
    bench.classes("two")
    runs = []
    for seed in (1, 2):
        runs += [bench.run("base", "one", seed, 6), bench.run("base", "two", seed, 10)]
        runs += [bench.run("good", "one", seed, 18), bench.run("good", "two", seed, 10)]
    results = collect(bench.recipe("base", "good"), runs)
    assert set(results.comparisons) == {CellKey("good", "one"), CellKey("good", "two")}
    better, same = results.comparisons[CellKey("good", "one")], results.comparisons[CellKey("good", "two")]
    assert better.comparison.difference == pytest.approx(0.6)
    assert better.significant
    assert better.p_value == pytest.approx(2 * better.comparison.p_value)  # Holm: the smaller of two
    assert (same.comparison.difference, same.p_value) == (0, 1)
    assert results.ranks.ranks == (1.75, 1.25)


def test_a_task_of_a_joint_run_is_compared_with_its_single_task_baseline(bench) -> None:
    bench.classes("one")
    bench.classes("two")
    runs = [bench.run("a", name, 1, 8, steps=40) for name in ("one", "two")]
    runs.append(
        bench.run("a", ("one", "two"), 1, {"one": 17, "two": 8}, mode="together", steps=100, turns={"one": 4, "two": 6})
    )
    results = collect(bench.recipe("a", modes=("single", "together")), runs)
    gain = results.together[CellKey("a", "one", "together")]
    assert gain.other == CellKey("a", "one")
    assert gain.comparison.difference == pytest.approx(0.45)
    assert gain.comparison.excludes_zero
    # 100 steps, four in ten of them on task one.
    assert results.cells[CellKey("a", "one", "together")].task_steps == 40
    assert results.cells[CellKey("a", "two", "together")].task_steps == 60


def test_a_column_never_mixes_protocols(bench) -> None:
    bench.classes("mednli")
    runs = [bench.run(row, "mednli", 1, 10) for row in ("a", "b")]
    path = runs[1].evaluation("mednli") / "metrics.json"
    path.write_text(path.read_text().replace("pair@v1", "pair@v2"))
    with pytest.raises(OslerError, match=r"mednli was scored under mednli/pair@v1 and under mednli/pair@v2"):
        collect(bench.recipe("a", "b"), runs)


def test_a_study_without_scores_says_so(bench) -> None:
    bench.classes("mednli")
    with pytest.raises(OslerError, match="no run of the study has a score"):
        collect(bench.recipe("a"), [bench.run("a", "mednli", 1, None, chosen=False)])


def test_results_json_makes_every_table_again_without_the_predictions(bench, tmp_path: Path) -> None:
    bench.classes("one")
    bench.spans("two")
    runs = []
    for row, right in (("a", 8), ("b", 15)):
        for seed in (1, 2):
            runs += [bench.run(row, name, seed, right + seed) for name in ("one", "two")]
            runs.append(bench.run(row, "one", seed, right - 3, fraction=0.25))
            runs.append(bench.run(row, ("one", "two"), seed, {"one": right + 2, "two": right}, mode="together"))
            runs.append(bench.run(row, ("one", "two"), seed, {"one": right + 2, "two": right}, mode="pair"))
    modes = ("single", "together", "pairs")
    recipe = bench.recipe("a", "b", modes=modes, fractions=[0.25], groups={"both": ["one", "two"]})
    first, again = tmp_path / "first", tmp_path / "again"
    for folder in (first, again):
        folder.mkdir()
    write_report(collect(recipe, runs, 0), first)
    write_report(read_results(first / "results.json"), again)
    made = {p.relative_to(first).as_posix() for p in first.rglob("*") if p.is_file() and "logs" not in p.parts}
    assert {"results.json", "table.md", "table.csv", "table.tex", "report.html", "pairwise.json"} <= made
    for name in sorted(made):
        assert (again / name).read_bytes() == (first / name).read_bytes(), name
    # Times are never the same twice, so they stay out of what is hashed.
    assert "seconds" not in json.dumps(json.loads((first / "results.json").read_text()))
    assert json.loads((first / "logs" / "cost.json").read_text())[0]["seconds"] == 20.0


def test_damaged_results_are_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ArtifactError, match="not the results of a study"):
        read_results(tmp_path / "results.json")


def test_a_metric_without_a_decomposition_has_no_interval_and_the_tables_say_so(bench) -> None:
    card = load_card("clinic-similarity-en")
    by_rank = card.protocol_named().changed(metric="spearman")
    card = card.changed(protocols={card.protocol: by_rank})
    bench.task("sts", card, [TextPair(str(i), "a", "b", (), float(i)) for i in range(20)])
    bench.classes("mednli")
    runs = [bench.run(row, task, 1, 20) for row in "ab" for task in ("sts", "mednli")]
    results = collect(bench.recipe("a", "b"), runs)
    # All right: the rank correlation and Pearson's are both 1, but an interval of the one is not the other's.
    assert results.cell("a", "sts").scores == (1.0,)
    assert results.cell("a", "sts").interval is None
    assert {key.column for key in results.comparisons} == {"mednli"}
    for table in (interval_table(results), difference_table(results)):
        assert "No interval and no test (–) for sts (spearman)" in table.note


def test_mentions_that_training_had_are_scored_apart(bench) -> None:
    card = load_card("clinic-entities-en")
    known = Document("known", "aspirin 5 mg", (Span.at(0, 7, "DRUG", id="T1"),))
    new = Document("new", "Aspirin or heparin", (Span.at(0, 7, "DRUG", id="T1"), Span.at(11, 18, "DRUG", id="T2")))
    bench.task("drugs", card, [known], test=[new, new.with_(id="newer")])
    # The first document is answered rightly, in the second nothing is found.
    results = collect(bench.recipe("a"), [bench.run("a", "drugs", seed, 1) for seed in (1, 2)])
    metrics = results.cell("a", "drugs").chosen[0].metrics
    assert (metrics["unseen_share"], metrics["seen_recall"], metrics["unseen_recall"]) == (0.5, 0.5, 0.5)
    [row] = extra_tables(results)["seen"].rows
    assert row[0] == "a"
    assert [value.value for value in row[2:]] == pytest.approx([0.5, 0.5, 0.5, 2 / 3, 2 / 3])


def test_tasks_whose_mentions_are_all_known_have_no_table_of_unseen_ones(bench) -> None:
    bench.spans("entities")
    assert "seen" not in extra_tables(collect(bench.recipe("a"), [bench.run("a", "entities", 1, 10)]))
