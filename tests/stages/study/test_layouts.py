"""The tables of the papers, each number computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from osler.report.tables import Table, Value, markdown_table, shown_rows
from osler.stages.study.page import LAYOUTS
from osler.stages.study.results import Results, collect


def texts(table: Table) -> dict[str, list[str]]:
    """Every row of a table as it is shown, by its first cell; the best are between asterisks."""
    rows = {}
    for cells in shown_rows(table):
        plain = [
            f"**{cell.text}**{' ' + cell.spread if cell.spread else ''}" if cell.best else cell.plain for cell in cells
        ]
        rows[plain[0]] = plain[1:]
    return rows


def laid_out(results: Results, layout: str) -> dict[str, Table]:
    return LAYOUTS[layout](results)


def of_accuracy(bench, right: dict[tuple[str, str], list[int]], **more) -> Results:
    """Models on tasks with these right answers of 20, one a seed."""
    for column in dict.fromkeys(column for _, column in right):
        bench.classes(column)
    runs = [
        bench.run(row, column, seed, number)
        for (row, column), numbers in right.items()
        for seed, number in enumerate(numbers, 1)
    ]
    return collect(bench.recipe(*dict.fromkeys(row for row, _ in right), **more), runs)


THREE = {
    ("a", "one"): [10, 14, 12],
    ("a", "two"): [10, 10, 10],
    ("b", "one"): [20, 20, 20],
    ("b", "two"): [4, 8, 18],
}


def test_plain(bench) -> None:
    results = of_accuracy(bench, THREE, groups={"both": ["one", "two"]})
    table = laid_out(results, "plain")["table"]
    rows = texts(table)
    assert [column.name for column in table.fields] == ["model", "one (accuracy)", "two (accuracy)", "mean (both)"]
    # Means of seeds: (60 + 50) / 2; seeds 50, 60, 55 spread by 5.
    assert rows["a"] == ["60.0 ± 10.0", "**50.0** ± 0.0", "55.0 ± 5.0"]
    # 20, 40 and 90 have the same mean as 50, 50 and 50: both are best, and the spread tells them apart.
    assert rows["b"][:2] == ["**100.0** ± 0.0", "**50.0** ± 36.1"]
    assert "over 3 seeds" in table.note
    assert "one/pair@v1 (accuracy); two/pair@v1 (accuracy)" in table.note
    marks = [cell.mark for cell in table.rows[1] if isinstance(cell, Value)]
    assert marks == ["*", "", ""]
    assert "Holm-corrected over 2 comparisons" in table.note


def test_lewis2020_medians_and_group_means(bench) -> None:
    results = of_accuracy(bench, THREE, groups={"NER": ["one"], "both": ["one", "two"], "absent": ["x"]})
    tables = laid_out(results, "lewis2020")
    rows = texts(tables["table"])
    assert rows["one"] == ["pair@v1 accuracy", "60.0 [50.0, 70.0]", "**100.0** [100.0, 100.0]"]
    # The median of 4, 8 and 18 of 20 is 40; the mean would be 50.
    assert rows["two"] == ["pair@v1 accuracy", "**50.0** [50.0, 50.0]", "40.0 [20.0, 90.0]"]
    assert rows["Mean (both)"] == ["2 tasks", "55.0", "**70.0**"]
    assert rows["Mean (NER)"] == ["1 task", "60.0", "**100.0**"]
    assert "Mean (absent)" not in rows
    assert texts(tables["groups"])["b"] == ["**100.0**", "**70.0**", "**70.0**"]
    assert "Median [smallest, largest] over 3 seeds" in tables["table"].note


def test_lewis2020_leaves_out_means_that_would_lack_a_task(bench) -> None:
    right = {key: numbers for key, numbers in THREE.items() if key != ("b", "two")}
    rows = texts(laid_out(of_accuracy(bench, right), "lewis2020")["table"])
    assert rows["two"] == ["pair@v1 accuracy", "50.0 [50.0, 50.0]", "–"]
    assert rows["Mean (all)"] == ["2 tasks", "55.0", "–"]


def grid(bench, **more) -> Results:
    """Two rates, two seeds; of 20 documents with two mentions each, so k found documents are k / 20 of recall."""
    bench.spans("cantemist")
    low, high = {"train.lr": 1e-5}, {"train.lr": 5e-5}
    runs = [
        bench.run("a", "cantemist", 1, 10, point=low, dev=0.5, chosen=False),
        bench.run("a", "cantemist", 2, 20, point=low, dev=0.6, chosen=False),
        bench.run("a", "cantemist", 1, 20, point=high, dev=0.9, best=80, wrong_spans=2, **more),
        bench.run("a", "cantemist", 2, 10, point=high, dev=0.7, best=60),
        bench.run("b", "cantemist", 1, 10, point=low, dev=0.5),
        bench.run("b", "cantemist", 2, 10, point=low, dev=0.5),
    ]
    return collect(bench.recipe("a", "b", layout="carrino2022", score="all"), runs)


def test_carrino2022_average_of_all_and_best_on_dev(bench) -> None:
    table = laid_out(grid(bench), "carrino2022")["table"]
    names = [f"{column.group} {column.name}".strip() for column in table.fields]
    assert names[1:5] == [f"Average of all configurations {name}" for name in ("score", "precision", "recall", "runs")]
    assert names[5:] == [f"Best on development set {name}" for name in ("score", "LR", "epoch")]
    row = texts(table)["a"]
    # F1: half found is 2/3, all found 1; with two wrong mentions of 42, 2 * 40 / (80 + 2).
    scores = [2 / 3, 1.0, 80 / 82, 2 / 3]
    mean = sum(scores) / 4
    std = (sum((score - mean) ** 2 for score in scores) / 3) ** 0.5
    assert row[0] == f"**{100 * mean:.2f}** ± {100 * std:.2f}"
    assert row[1].startswith(f"{100 * (3 + 40 / 42) / 4:.2f}")
    assert row[2].startswith("**75.00**")
    best = [80 / 82, 2 / 3]
    assert row[3:] == [
        "4",
        f"**{100 * sum(best) / 2:.2f}** ± {100 * abs(best[0] - best[1]) / 2**0.5:.2f}",
        "5e-5",
        "7.0",
    ]
    assert texts(table)["b"][-2:] == ["1e-5", "5.0"]
    assert table.headings == {0: "cantemist/strict@v1 (f1)"}


def test_carrino2022_one_run_keeps_the_deviation_of_its_configuration(bench) -> None:
    results = grid(bench)
    key = next(key for key in results.cells if key.row == "a")
    cell = results.cells[key]
    runs = tuple(replace(run, chosen=run.chosen and run.seed == 1) for run in cell.runs)
    only = replace(results, cells={key: replace(cell, runs=runs)}, comparisons={}, choose="run")
    row = texts(laid_out(only, "carrino2022")["table"])["a"]
    assert row[4] == f"{100 * 80 / 82:.2f} ± {100 * (80 / 82 - 2 / 3) / 2**0.5:.2f}"
    assert row[-1] == "8.0"


def test_carrino2022_says_where_not_all_was_scored(bench) -> None:
    bench.spans("cantemist")
    runs = [
        bench.run("a", "cantemist", 1, None, point={"train.lr": 1e-5}, chosen=False),
        bench.run("a", "cantemist", 1, 20, point={"train.lr": 5e-5}),
    ]
    table = laid_out(collect(bench.recipe("a", layout="carrino2022"), runs), "carrino2022")["table"]
    assert "not scored: 1; the average does not cover all" in table.note


def test_mulyar2020_differences(bench) -> None:
    bench.classes("one")
    bench.classes("two")
    runs = []
    for seed in (1, 2):
        runs += [bench.run("a", "one", seed, 6), bench.run("a", "two", seed, 10)]
        runs.append(bench.run("a", ("one", "two"), seed, {"one": 16, "two": 9}, mode="together", steps=200))
        runs.append(bench.run("b", "one", seed, 6))
    table = laid_out(collect(bench.recipe("a", "b"), runs), "mulyar2020")["table"]
    rows = texts(table)
    assert [column.group for column in table.fields[2:]] == ["a"] * 3
    assert rows["one"][1] == "80.0 ± 0.0"
    assert rows["one"][2].startswith("50.0 [")
    assert rows["one"][2].endswith("]†")
    assert rows["one"][3] == "30.0 ± 0.0"
    assert rows["two"][2].startswith("−5.0 [")
    assert not rows["two"][2].endswith("†")  # one document of twenty
    assert "differs from" not in table.note


def test_mulyar2020_shows_the_papers_difference_and_that_at_equal_steps(bench) -> None:
    bench.classes("one")
    bench.classes("two")
    runs = []
    for seed in (1, 2):
        runs += [bench.run("a", name, seed, 6) for name in ("one", "two")]
        runs.append(bench.run("a", ("one", "two"), seed, {"one": 16, "two": 9}, mode="together"))
        runs += [bench.run("a", name, seed, 14, mode="twin") for name in ("one", "two")]
    table = laid_out(collect(bench.recipe("a"), runs), "mulyar2020")["table"]
    names = [column.name for column in table.fields[3:]]
    assert names == ["difference", "single-task", "difference at equal steps", "single-task at equal steps"]
    one = texts(table)["one"]
    assert one[1] == "80.0 ± 0.0"
    assert [value.partition(" ")[0] for value in one[2:]] == ["50.0", "30.0", "10.0", "70.0"]
    assert texts(table)["two"][4].startswith("−25.0 [")
    assert "as many steps as the joint run spent on it" in table.note
    only = [run for run in runs if run.spec.mode != "single"]
    table = laid_out(collect(bench.recipe("a"), only), "mulyar2020")["table"]
    assert [column.name for column in table.fields[3:]] == names[2:]


def test_peng2020_has_the_refinement_between_the_plain_model_and_the_fine_tuned_one(bench) -> None:
    columns = ("sts", "nli")
    for column in columns:
        bench.classes(column)
    runs = [bench.run("blue", column, seed, 2) for column in columns for seed in (1, 2)]
    runs += [bench.run("mt", columns, seed, {"sts": 18, "nli": 3}, mode="refine") for seed in (1, 2)]
    runs += [bench.run("mt", column, seed, 19, after="key") for column in columns for seed in (1, 2)]
    recipe = bench.recipe("blue")
    models = {"blue": {"model": "x"}, "mt": {"model": "x", "refine": {"tasks": columns, "score": True}}}
    table = laid_out(collect(recipe.changed(models=models), runs), "peng2020")["table"]
    rows = texts(table)
    assert list(rows) == ["blue", "mt, refined", "mt, refined and fine-tuned"]
    # Against the plain baseline, as the fine-tuned one is.
    assert rows["mt, refined"][0].endswith("*")
    assert not rows["mt, refined"][1].endswith("*")


def test_peng2020_stages_groups_and_all_tasks(bench) -> None:
    for column in ("sts", "nli", "ddi"):
        bench.classes(column)
    columns = ("sts", "nli", "ddi")
    runs = [bench.run("blue", column, 1, right) for column, right in zip(columns, (10, 12, 14), strict=True)]
    runs.append(bench.run("blue", columns, 1, {"sts": 8, "nli": 12, "ddi": 16}, mode="together"))
    for row, more in (("mt-blue", 0), ("mt-bio", 2)):
        runs += [bench.run(row, column, 1, 14 + more, after="key") for column in columns]
    recipe = bench.recipe("blue", groups={"clinical tasks": ["sts", "nli"], "biomedical tasks": ["ddi"]})
    refine = {"refine": {"tasks": columns}}
    models = {"blue": {"model": "x"}, "mt-blue": {"model": "x", **refine}, "mt-bio": {"model": "y", **refine}}
    tables = laid_out(collect(recipe.changed(models=models), runs), "peng2020")
    assert list(tables) == [
        "table",
        "stages-biomedical-tasks",
        "refined-clinical-tasks",
        "refined-biomedical-tasks",
        "all-tasks",
    ]
    clinical = texts(tables["table"])
    assert clinical["blue"] == ["0.500", "0.600", "0.550"]
    assert clinical["blue, one model"] == ["0.400", "0.600", "0.500"]
    assert clinical["mt-bio, refined and fine-tuned"] == ["**0.800**", "**0.800**", "**0.800**"]
    assert list(texts(tables["refined-clinical-tasks"])) == [
        f"{m}, refined and fine-tuned" for m in ("mt-blue", "mt-bio")
    ]
    assert texts(tables["all-tasks"])["Avg"] == ["", "0.600", "0.600", "0.700", "**0.800**"]
    assert "Refined: mt-blue on sts, nli, ddi" in tables["table"].note


def test_wada2020_total_and_settings(bench) -> None:
    results = of_accuracy(bench, THREE, groups={"Inference": ["two"]})
    tables = laid_out(results, "wada2020")
    rows = texts(tables["table"])
    assert list(rows) == ["two", "one", "Total"]
    assert tables["table"].headings == {0: "Inference", 1: "Other tasks", 2: "All tasks"}
    # Totals of a by seed: 50, 60, 55.
    assert rows["Total"][1] == "55.0 ± 5.0"
    assert texts(tables["settings"])["one"] == ["3e-5", "10", "50.0", "60.0", "3e-5", "10", "50.0", "100.0"]


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_every_table_of_every_layout_names_protocol_and_seeds(bench, layout: str) -> None:
    results = replace(of_accuracy(bench, THREE, groups={"both": ["one", "two"]}), missing=3)
    for table in laid_out(results, layout).values():
        assert "one/pair@v1 (accuracy)" in table.note
        assert "3 seeds" in table.note
        assert "3 runs of the study not done yet" in table.note
        assert "one" in markdown_table(table)


def test_folds_and_unequal_seeds_are_said(bench) -> None:
    bench.classes("gad", size=10, folds=2)
    bench.classes("one")
    runs = [bench.run("a", "gad", 1, right, fold=fold) for fold, right in enumerate((4, 6))]
    runs += [bench.run("a", "one", seed, 10) for seed in (1, 2)]
    table = laid_out(collect(bench.recipe("a"), runs), "plain")["table"]
    assert "over 1 to 2 seeds" in table.note
    assert "gad is the mean over 2 folds" in table.note
    assert texts(table)["a"] == ["50.0", "50.0 ± 0.0"]
    table = laid_out(collect(bench.recipe("a", over_folds="median"), runs), "plain")["table"]
    assert "gad is the median over 2 folds" in table.note
