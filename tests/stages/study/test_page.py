"""The page and the files of a study."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.report.tables import html_table
from osler.stages.study.page import study_markdown, study_summary, write_report
from osler.stages.study.results import collect, read_results


@pytest.fixture
def written(bench, tmp_path: Path) -> Path:
    for column in ("one", "two", "three"):
        bench.classes(column)
    runs = []
    for row, right in (("base", 6), ("good", 17)):
        for seed in (1, 2):
            runs += [
                bench.run(row, column, seed, right + seed, point={"train.lr": 5e-5})
                for column in ("one", "two", "three")
            ]
            runs.append(bench.run(row, "one", seed, None, point={"train.lr": 1e-5}, chosen=False, dev=0.1))
            runs += [bench.run(row, "one", seed, right - 4, fraction=share) for share in (0.1, 0.5)]
    out = tmp_path / "study"
    out.mkdir()
    write_report(collect(bench.recipe("base", "good", title="A study", fractions=[0.1, 0.5]), runs, 1), out)
    return out


def test_the_page_holds_every_section_and_needs_nothing_else(written: Path) -> None:
    page = (written / "report.html").read_text()
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    wanted = ["Scores", "Intervals", "Against base", "Ranks over tasks", "Less data", "Choices and training", "Cost"]
    assert titles == wanted
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "1 run of the study not done yet" in page
    assert "one/pair@v1" in page


def test_tables_are_markdown_csv_and_latex(written: Path) -> None:
    names = {path.stem for path in (written / "tables").iterdir()}
    assert names == {"intervals", "differences", "ranks", "learning-one", "choices", "cost"}
    for name in names:
        assert {path.suffix for path in (written / "tables").glob(f"{name}.*")} == {".md", ".csv", ".tex"}
    rows = list(csv.DictReader((written / "table.csv").open()))
    assert rows[1]["model"] == "good"
    # Seeds 18 and 19 of 20, with full precision.
    assert float(rows[1]["one (accuracy)"]) == pytest.approx(0.925)
    assert rows[1]["one (accuracy) mark"] == "*"
    assert r"\begin{tabular}" in (written / "table.tex").read_text()


def test_others_show_the_tables_and_the_verdict_of_the_study_itself(written: Path) -> None:
    """The demo's page and the terminal use what is in the study's own page, to the letter."""
    found = study_summary(written)
    page = (written / "report.html").read_text()
    assert all(html_table(table) in page for table in found.tables)
    assert all(text in page for text in found.verdict)
    assert found.compact.rows[0][0] == "one"  # three tasks and two models: tasks are rows


def test_learning_curves_by_share(written: Path) -> None:
    rows = {row["model"]: row for row in csv.DictReader((written / "tables" / "learning-one.csv").open())}
    shares = [rows["good"][f"share of the training data {share}"] for share in ("0.1", "0.5", "1")]
    assert [float(share) for share in shares] == pytest.approx([0.65, 0.65, 0.925])


def test_choices_name_the_setting_and_what_it_was_chosen_from(written: Path) -> None:
    rows = list(csv.DictReader((written / "tables" / "choices.csv").open()))
    assert [(row["model"], row["task"], row["configurations"], row["chosen"]) for row in rows] == [
        ("base", "one", "2", "lr 5e-5 ↑"),
        ("good", "one", "2", "lr 5e-5 ↑"),
    ]
    assert (float(rows[0]["dev"]), float(rows[0]["worst on dev"])) == (0.5, 0.1)


def test_cost_counts_runs_that_were_not_chosen(written: Path) -> None:
    cost = {
        (row["model"], row["task"], row["trained"]): row
        for row in csv.DictReader((written / "tables" / "cost.csv").open())
    }
    assert (cost["good", "one", "alone"]["runs done"], cost["good", "one", "alone"]["runs chosen"]) == ("4", "2")
    assert "FLOP" not in cost["good", "one", "alone"]  # not known, so not shown
    times = (written / "logs" / "cost.md").read_text()
    assert "| good | one | alone | 1.00 | 4 | 40.0 | 0.0 | 2 | 10.0 | cpu |" in times


def test_cost_adds_up_the_work_of_the_whole_search_each_run_once(bench, tmp_path: Path) -> None:
    bench.classes("one")
    bench.classes("two")
    counted = {"tokens": 1000, "flops": 2e9}
    runs = [bench.run("a", "one", 1, 10, point={"train.lr": 5e-5}, counts=counted)]
    runs.append(bench.run("a", "one", 1, None, point={"train.lr": 1e-5}, chosen=False, counts=counted))
    runs.append(bench.run("a", ("one", "two"), 1, 10, mode="together", counts=counted, device="GPU", processes=2))
    runs.append(bench.run("a", ("one", "two"), 1, None, mode="refine", only_start=True, counts=counted))
    write_report(collect(bench.recipe("a"), runs, 0), tmp_path)
    cost = {(row["task"], row["trained"]): row for row in csv.DictReader((tmp_path / "tables" / "cost.csv").open())}
    assert set(cost) == {("one", "alone"), ("one", "all tasks together"), ("two", "all tasks together")}
    alone = cost["one", "alone"]
    assert (alone["FLOP of a chosen run"], alone["FLOP of all runs"], alone["tokens"]) == (
        "2.00e+09",
        "4.00e+09",
        "1000",
    )
    text = (tmp_path / "tables" / "cost.md").read_text()
    assert "each run counted once and refinements included: 4 runs, 4,000 tokens, 8.00e+09 FLOP." in text
    times = {
        tuple(time["columns"]): time["gpu_seconds"]
        for time in json.loads((tmp_path / "logs" / "cost.json").read_text())
        if time["mode"] != "refine"
    }
    assert times == {("one",): 0.0, ("one", "two"): 20.0}


def test_a_page_in_markdown_needs_only_the_results(written: Path, tmp_path: Path) -> None:
    about = tmp_path / "about.md"
    about.write_text("One laptop, 2026.\n")
    text = study_markdown(read_results(written / "results.json"), about.read_text())
    assert text.startswith("# A study\n\nOne laptop, 2026.\n\n")
    for name in ("intervals", "differences", "ranks", "learning-one", "choices", "cost"):
        assert (written / "tables" / f"{name}.md").read_text().strip() in text
    out = tmp_path / "page.md"
    command = ["study", "page", str(written / "results.json"), "--about", str(about), "--out", str(out)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert out.read_text() == text
    about.write_bytes(b"\xff")
    assert "cannot be read as UTF-8 text" in str(CliRunner().invoke(app, command).exception)
    assert out.read_text() == text
