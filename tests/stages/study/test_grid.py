"""A choice at the edge of the grid is marked and explained."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from osler.stages.study.grid import edge_text, edges
from osler.stages.study.page import write_report
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.results import collect
from osler.stages.study.run import run


def tried(name: str, *values: Any) -> list[dict[str, Any]]:
    return [{name: value} for value in values]


@pytest.mark.parametrize(
    ("name", "chosen", "values", "edge"),
    [
        ("train.lr", 1e-4, (1e-4, 3e-4), "lowest"),
        ("train.lr", 3e-4, (3e-4, 1e-4, 2e-4), "highest"),
        ("train.lr", 2e-4, (1e-4, 2e-4, 3e-4), None),
        ("epochs", 20, (5, 20), "highest"),
        ("train.lr", 1e-4, (1e-4, 1e-4), None),  # one value has no edge
        ("tagger", "crf", ("crf", "linear"), None),
        ("reinitialise", True, (True, False), None),
        ("freeze", 2, ("nothing", 2, 4), None),  # what no order holds of
        ("dropout", 0.0, (0.0, 0.1), None),  # nothing lies below
        ("epochs", 1, (1, 2), None),
        ("train.layer_decay", 1.0, (0.9, 1.0), None),  # nothing lies above
        ("train.layer_decay", 0.8, (0.8, 1.0), "lowest"),
    ],
)
def test_which_values_are_at_an_edge(name: str, chosen: Any, values: tuple[Any, ...], edge: str | None) -> None:
    assert edges({name: chosen}, tried(name, *values)) == ({name: edge} if edge else {})


def test_the_note_says_each_thing_once() -> None:
    text = edge_text([("lr", "lowest"), ("epochs", "highest"), ("lr", "lowest")])
    assert text == (
        "↓ lr was chosen at the lowest value of the grid: lower values may do better. "
        "↑ epochs was chosen at the highest value of the grid: higher values may do better. "
        "Widen the grid there; only the new runs are done."
    )
    assert edge_text([]) == ""


def choices(bench: Any, folder: Path, points: list[dict[str, Any]], *chosen: int) -> tuple[list[str], str]:
    """What the table says was chosen for the tasks, whose chosen points are given by number, and the table as Markdown."""
    runs = []
    for number, winner in enumerate(chosen):
        column = bench.classes(f"task{number}")
        for place, point in enumerate(points):
            best = place == winner
            runs.append(bench.run("m", column, 1, 10 if best else None, point=point, chosen=best))
    write_report(collect(bench.recipe("m"), runs, 0), folder)
    rows = csv.DictReader((folder / "tables" / "choices.csv").open())
    return [row["chosen"] for row in rows], (folder / "tables" / "choices.md").read_text()


def test_the_table_of_choices_marks_edges_and_its_note_explains_them(bench, tmp_path: Path) -> None:
    points = [{"train.lr": rate, "tagger": "crf"} for rate in (1e-5, 2e-5, 3e-5)]
    chosen, text = choices(bench, tmp_path, points, 0, 1, 2)
    assert chosen == ["tagger crf, lr 1e-5 ↓", "tagger crf, lr 2e-5", "tagger crf, lr 3e-5 ↑"]
    assert "↓ lr was chosen at the lowest value of the grid: lower values may do better." in text
    assert "↑ lr was chosen at the highest value of the grid: higher values may do better." in text


def test_without_a_choice_at_an_edge_the_note_has_no_marks(bench, tmp_path: Path) -> None:
    chosen, text = choices(bench, tmp_path, tried("tagger", "crf", "linear"), 0)
    assert chosen == ["tagger crf"]
    assert "edge" not in text
    assert "the grid" not in text


def test_choices_json_has_the_edges_too(bench, tmp_path: Path, fake) -> None:
    bench.spans("one")
    values = {"models": {"m": {"model": "m"}}, "tasks": list(bench.tasks["one"]), "seeds": [1, 2]}
    values |= {"workers": 1, "grid": {"train.lr": [0.1, 0.2, 0.3], "tagger": ["linear", "crf"]}}
    fake(dev={"m 0.1 linear": 0.9, "m 0.1 crf": 0.8})
    made = run(StudyRecipe.model_validate(values), tmp_path / "study")
    [choice] = json.loads((made.path / "choices.json").read_text())["choices"]
    assert choice["point"] == {"train.lr": 0.1, "tagger": "linear"}
    assert choice["at_edge"] == {"train.lr": "lowest"}
