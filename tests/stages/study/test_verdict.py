"""The verdict of a study: better, worse or within noise, and honest about seeds."""

from __future__ import annotations

from typing import Any

import pytest

from osler.stages.study.page import write_report
from osler.stages.study.results import Results, collect, read_results
from osler.stages.study.verdict import verdict


def results(bench: Any, rows: dict[str, dict[str, int]], seeds: int = 3, missing: int = 0, **more: Any) -> Results:
    """A study in which each model answers so many of 40 documents of each task rightly."""
    for column in next(iter(rows.values())):
        bench.classes(column, size=40)
    runs = [
        bench.run(row, column, seed, right, **more)
        for row, columns in rows.items()
        for column, right in columns.items()
        for seed in range(seeds)
    ]
    return collect(bench.recipe(*rows), runs, missing)


def test_two_models_on_several_tasks(bench) -> None:
    found = results(
        bench,
        {
            "base": {"one": 10, "two": 10, "three": 20, "four": 38},
            "new": {"one": 36, "two": 38, "three": 20, "four": 10},
        },
    )
    headline, trust = verdict(found)
    assert headline.startswith(
        "new is better than base on 2 of 4 tasks and worse on 1 (mean +16.2 points, 95 % interval +"
    )
    assert headline.endswith("Within noise: three.")
    assert trust == (
        "Based on 3 seeds. Better and worse: below 5 % in a paired bootstrap over documents and seeds, Holm-corrected over "
        "4 comparisons."
    )


@pytest.mark.parametrize(
    ("right", "told"),
    [
        (36, "new is better than base on one: +40.0 points (95 % interval +"),
        (4, "new is worse than base on one: −40.0 points (95 % interval −"),
        (20, "new and base do not differ beyond noise on one: +0.0 points (95 % interval +0.0 to +0.0)."),
    ],
)
def test_two_models_on_one_task(bench, right: int, told: str) -> None:
    assert verdict(results(bench, {"base": {"one": 20}, "new": {"one": right}}))[0].startswith(told)


def test_no_difference_is_not_a_winner(bench) -> None:
    found = verdict(results(bench, {"base": {"one": 20, "two": 20}, "new": {"one": 20, "two": 20}}))
    assert found[0].startswith("new and base do not differ beyond noise on any of 2 tasks (mean +0.0 points")


def test_few_seeds_and_missing_runs_are_said(bench) -> None:
    found = verdict(results(bench, {"base": {"one": 20}, "new": {"one": 36}}, seeds=1, missing=2))
    assert found[0].startswith("So far, 2 runs of the study not done yet: new is better")
    assert "Based on 1 seed. One seed does not show how much scores vary" in found[-1]


def test_one_model_is_compared_with_nothing(bench) -> None:
    found = verdict(results(bench, {"only": {"one": 20, "two": 30}}))
    assert (
        found[0] == "The study has scores of one model, so nothing is compared: only has a mean of 62.5 over 2 tasks."
    )
    assert "Better and worse" not in found[-1]


def test_several_models_begin_with_the_best_mean(bench) -> None:
    found = verdict(
        results(bench, {"base": {"one": 20, "two": 20}, "a": {"one": 30, "two": 36}, "b": {"one": 20, "two": 24}})
    )
    assert found[0].startswith("Best mean over 2 tasks: a (82.5), then b (55.0). Over tasks, the ranks of the models")
    assert [text.split(" is ")[0].split(" and ")[0] for text in found[1:3]] == ["a", "b"]


def test_joint_training_is_compared_with_each_task_alone(bench) -> None:
    for column in ("one", "two"):
        bench.classes(column, size=40)
    runs = [bench.run("m", column, seed, 10) for column in ("one", "two") for seed in (1, 2)]
    runs += [bench.run("m", ("one", "two"), seed, {"one": 36, "two": 10}, mode="together") for seed in (1, 2)]
    found = verdict(collect(bench.recipe("m", modes=["single", "together"]), runs))
    assert found[0].startswith("m trained on all tasks together is better than m trained on each alone on 1 of 2 tasks")


def test_the_verdict_is_on_the_page_and_in_the_markdown(bench, tmp_path) -> None:
    found = results(bench, {"base": {"one": 20}, "new_*": {"one": 36}})
    write_report(found, tmp_path)
    headline = verdict(read_results(tmp_path / "results.json"))[0]
    assert headline == verdict(found)[0]
    assert f"<strong>{headline}</strong>" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "table.md").read_text().startswith(r"new\_\* is better than base on one: +40.0 points")
