"""The numbers of the papers: complete, consistent, and in step with task cards and recipes."""

from __future__ import annotations

import tomllib

import pytest

from osler.core.config import shipped_folder, validate
from osler.core.errors import OslerError
from osler.tasks.catalogue import load_card
from osler.tasks.published import PublishedPaper, load_published, published_papers, rows_of_models

PAPERS = published_papers()
CELLS = {"carrino2022": 144, "lewis2020": 285, "mulyar2020": 28, "peng2020": 110, "wada2020": 174}
"""Numbers that each paper's tables hold."""
ROUNDED = {
    ("lewis2020", "3", "Mean (Classif.)", "Ours-base"),  # 81.8; table 2 has 81.7, which is the mean of its tasks
    ("lewis2020", "6", "Mean (Classif.)", "Ours-base"),
}
"""Means that the paper prints differently elsewhere."""


def test_all_five_papers_are_there() -> None:
    assert CELLS.keys() == set(PAPERS)


@pytest.mark.parametrize("name", PAPERS)
def test_every_cell_is_there(name: str) -> None:
    paper = load_published(name)
    cells = [value for table in paper.tables for row in table.values.values() for value in row if value is not None]
    assert len(cells) == CELLS[name]


@pytest.mark.parametrize("name", PAPERS)
def test_tasks_and_protocols_are_oslers(name: str) -> None:
    for task, published in load_published(name).tasks.items():
        card = load_card(task)
        assert set(published.protocols) <= set(card.protocols), task


@pytest.mark.parametrize("name", PAPERS)
def test_published_means_are_the_means_of_their_tasks(name: str) -> None:
    """A wrong digit in a table would show here: every mean that a paper prints follows from its other numbers."""
    paper = load_published(name)
    checked = 0
    for table in paper.tables:
        for group in table.values.keys() & paper.groups.keys():
            for row, printed in zip(table.rows, table.values[group], strict=True):
                members = [paper.number(row, task, table.quantity) for task in paper.groups[group]]
                known = [number.value * paper.scale for number in members if number is not None]
                if len(known) == len(members) and (name, table.table, group, row) not in ROUNDED:
                    # Half a unit of the last digit, and as much again for the rounding of each number.
                    assert printed == pytest.approx(sum(known) / len(known), abs=1.01 * 10**-paper.digits), (table, row)
                    checked += 1
    assert checked == {"lewis2020": 68, "peng2020": 18, "wada2020": 1}.get(name, 0)


@pytest.mark.parametrize("name", PAPERS)
def test_a_number_printed_twice_is_the_same(name: str) -> None:
    paper = load_published(name)
    seen: dict[tuple[str, str, str], float] = {}
    for table in paper.tables:
        for task, numbers in table.values.items():
            for row, number in zip(table.rows, numbers, strict=True):
                if number is not None and (name, table.table, task, row) not in ROUNDED:
                    assert seen.setdefault((table.quantity, row, task), number) == number, (table.table, row, task)


def test_differences_of_mulyar2020_are_those_of_its_scores() -> None:
    scores, differences = load_published("mulyar2020").tables
    for task, (printed,) in differences.values.items():
        joint, single, _ = scores.values[task]
        assert printed == pytest.approx(joint - single, abs=1e-6)


def test_the_papers_recipes_name_their_paper() -> None:
    for path in sorted(shipped_folder("recipes").glob("*/*.toml")):
        recipe = tomllib.loads(path.read_text())
        layout = recipe.get("layout")
        if layout in PAPERS and "pairs" not in recipe.get("modes", ()):  # figure 2 of peng2020 has no numbers
            assert recipe.get("published") == layout, path


def test_rows_are_found_by_name_or_named() -> None:
    paper = load_published("wada2020")
    models = {"biobert": (), "BlueBERT-P+M": (), "mine": (), "other": ("ouBioBERT", "BioBERT")}
    assert rows_of_models(paper, models) == {
        "biobert": ("BioBERT",),
        "BlueBERT-P+M": ("BlueBERT-P+M",),
        "other": ("ouBioBERT", "BioBERT"),
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"values": {"other": [1.0]}}, "'other' is neither a task nor a group"),
        ({"values": {"mednli": [1.0, 2.0]}}, "'mednli' has 2 numbers for 1 rows"),
        ({"remarks": {"b/mednli": "copied"}}, "a remark on 'b/mednli', which it does not have"),
    ],
)
def test_mistakes_in_a_file_are_named(change: dict[str, object], problem: str) -> None:
    table = {"table": "1", "quantity": "F1", "statistic": "mean", "rows": ["a"], "values": {"mednli": [80.0]}}
    task = {"name": "MedNLI", "metric": "accuracy", "scored": "on test", "protocols": ["accuracy"]}
    values = {"title": "T", "scale": 100, "digits": 1, "tasks": {"mednli": task}, "tables": [table | change]}
    with pytest.raises(OslerError, match=problem):
        validate(PublishedPaper, values, where="own.toml")
