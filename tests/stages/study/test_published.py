"""Published numbers beside a study's own."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import OslerError
from osler.report.tables import Table, csv_table, shown_rows
from osler.report.terminal import table_rich
from osler.stages.study.checks import check_published
from osler.stages.study.page import LAYOUTS, study_summary, write_report
from osler.stages.study.published import compact_table, published_tables
from osler.stages.study.results import Results, collect, read_results
from osler.stages.study.verdict import verdict
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Span, TextPair


def card_of(name: str) -> TaskCard:
    """The card of a task without its counts: 20 records are all there is."""
    return load_card(name).model_copy(update={"counts": {}, "paper": None})


def pairs(bench: Any, name: str, label: str = "entailment") -> None:
    bench.task(name, card_of(name), [TextPair(str(i), "a", "b", labels=(label,)) for i in range(20)])


def mentions(bench: Any, name: str) -> None:
    card = card_of(name)
    spans = (Span.at(0, 2, card.labels[0], id="T1"),)
    bench.task(name, card, [Document(str(i), "aa bb cc", spans) for i in range(20)])


def study(bench: Any, right: dict[tuple[str, str], int], *, seeds: tuple[int, ...] = (1, 2, 3), **more: Any) -> Results:
    """Models on tasks; each seed has as many right answers of 20, the first one fewer and the last one more."""
    runs = [
        bench.run(row, column, seed, number + index - len(seeds) // 2)
        for (row, column), number in right.items()
        for index, seed in enumerate(seeds)
    ]
    return collect(bench.recipe(*dict.fromkeys(row for row, _ in right), **more), runs)


def lines(table: Table) -> list[dict[str, str]]:
    """The rows of a table as its CSV has them."""
    return list(csv.DictReader(StringIO(csv_table(table))))


def test_a_model_is_compared_with_the_row_of_its_name(bench) -> None:
    pairs(bench, "mednli")
    results = study(bench, {("roberta-BASE", "mednli"): 10}, published="lewis2020")
    [line] = lines(published_tables(results)["published"])
    assert (line["group"], line["task"], line["published row"]) == ("roberta-BASE", "mednli", "RoBERTa-base")
    assert (line["table"], float(line["published"])) == ("2, p. 5", pytest.approx(0.814))
    assert (float(line["ours"]), float(line["difference"])) == (pytest.approx(0.5), pytest.approx(0.5 - 0.814))
    assert line["same protocol and data"] == "yes"


def test_the_statistic_is_the_papers(bench) -> None:
    """lewis2020 reports the median of seeds."""
    pairs(bench, "mednli")
    runs = [bench.run("SciBERT", "mednli", seed, right) for seed, right in ((1, 4), (2, 10), (3, 11))]
    results = collect(bench.recipe("SciBERT", published="lewis2020"), runs)
    [line] = lines(published_tables(results)["published"])
    assert [float(line[name]) for name in ("ours", "ours low", "ours high")] == [0.5, 0.2, 0.55]


def test_a_model_may_name_its_row_and_others_are_listed_apart(bench) -> None:
    pairs(bench, "mednli")
    models = {"mine": {"model": "mine", "published": "BioBERT"}, "other": {"model": "other"}}
    results = study(bench, {("mine", "mednli"): 10, ("other", "mednli"): 9}, published="lewis2020", models=models)
    tables = published_tables(results)
    assert [line["published row"] for line in lines(tables["published"])] == ["BioBERT"]
    [line] = lines(tables["published-1"])
    assert (line["RoBERTa-base"], line["Ours-large"]) == ("0.814", "0.885")
    assert '--set "models.other.published=RoBERTa-base"' in tables["published-1"].note


def test_without_a_named_row_every_row_is_listed(bench) -> None:
    pairs(bench, "mednli")
    results = study(bench, {("mine", "mednli"): 10}, published="peng2020")
    tables = published_tables(results)
    assert "published" not in tables
    assert compact_table(results) == tables["published-1"]
    assert [column.name for column in tables["published-1"].fields][2:] == [
        "BlueBERT-clinical",
        "MT-BlueBERT-Refinement-clinical",
        "MT-BlueBERT-Fine-Tune-clinical",
    ]


def test_why_numbers_are_not_comparable(bench) -> None:
    mentions(bench, "bc5cdr-chem")
    mentions(bench, "linnaeus")
    pairs(bench, "mednli")
    right = {("BioBERT", column): 10 for column in ("bc5cdr-chem", "linnaeus", "mednli")}
    results = study(bench, right, published="lewis2020")

    def reasons(found: Results) -> dict[str, str]:
        return {line["task"]: line["same protocol and data"] for line in lines(published_tables(found)["published"])}

    assert reasons(results) == {
        "bc5cdr-chem": "no: conlleval or seqeval there, strict here",
        "linnaeus": "no: conlleval or seqeval there, strict here; another split",
        "mednli": "yes",
    }
    assert reasons(replace(results, split="dev"))["mednli"] == "no: dev split here"
    cells = {key: replace(cell, protocol=f"{key.column}/conlleval@v1") for key, cell in results.cells.items()}
    assert reasons(replace(results, cells=cells))["bc5cdr-chem"] == "nearly: gold from token files"


def test_quoted_rows_and_remarks_are_said(bench) -> None:
    """A row of a third paper has that paper's protocol; a remark on a single number is shown with it."""
    pairs(bench, "mednli")
    models = {"mine": {"model": "mine", "published": ["State of the art", "Our best"]}}
    results = study(bench, {("mine", "mednli"): 10}, models=models, published="lewis2020")
    assert [line["same protocol and data"] for line in lines(published_tables(results)["published"])] == [
        "no: quoted from other papers there (Peng et al. 2020)",
        "yes",
    ]


def test_data_that_is_not_the_official_one_is_known_from_the_task_folder(bench, monkeypatch) -> None:
    bench.task("mednli", load_card("mednli"), [TextPair(str(i), "a", "b", labels=("entailment",)) for i in range(20)])
    results = study(bench, {("SciBERT", "mednli"): 10}, published="lewis2020")
    reason = "no: 20 of 1,422 test documents here"
    assert lines(published_tables(results)["published"])[0]["same protocol and data"] == reason

    opened = TaskFolder.open

    def marked(path: Path) -> TaskFolder:
        task = opened(path)
        task.artifact.manifest.counts["synthetic"] = True
        return task

    monkeypatch.setattr(TaskFolder, "open", marked)
    results = study(bench, {("SciBERT", "mednli"): 10}, published="lewis2020")
    assert lines(published_tables(results)["published"])[0]["same protocol and data"] == "no: synthetic data here"


def test_joint_runs_are_compared_with_joint_rows(bench) -> None:
    """mulyar2020: one model for all tasks has its own row, and so has one model for each."""
    pairs(bench, "mednli")
    pairs(bench, "medrqe", "true")
    runs = [bench.run("mine", column, 1, 10) for column in ("mednli", "medrqe")]
    runs.append(bench.run("mine", ("mednli", "medrqe"), 1, 8, mode="together"))
    model = {"model": "mine", "published": ["MT-Clinical BERT", "Optimized Clinical BERT"]}
    recipe = bench.recipe("mine", published="mulyar2020", models={"mine": model}, modes=["single", "together"])
    found = lines(published_tables(collect(recipe, runs))["published"])
    assert [(line["group"], line["task"], line["published row"], line["published"]) for line in found] == [
        ("mine", "mednli", "Optimized Clinical BERT", "0.828"),
        ("mine", "medrqe", "Optimized Clinical BERT", "0.801"),
        ("mine, all tasks together", "mednli", "MT-Clinical BERT", "0.805"),
        ("mine, all tasks together", "medrqe", "MT-Clinical BERT", "0.765"),
    ]


def test_means_over_tasks_are_compared_if_the_study_has_all_of_them(bench) -> None:
    names = ("clinicalsts-2018", "i2b2-2010-relations", "mednli", "share-clef-2013")
    for name in names:  # any task of that name does
        bench.classes(name)
    right = {("BlueBERT-clinical", name): number for name, number in zip(names, (10, 12, 14, 16), strict=True)}
    results = study(bench, right, published="peng2020", layout="peng2020")
    table = published_tables(results)["published"]
    found = {line["task"]: line for line in lines(table)}
    assert float(found["Avg (clinical)"]["ours"]) == pytest.approx(0.65)
    assert found["Avg (clinical)"]["same protocol and data"] == "no: 4 of 4 tasks differ"
    # Scores from 0 to 1, as in all tables of this layout.
    assert shown_rows(table)[-1][3].text == "0.806"
    part = {key: cell for key, cell in results.cells.items() if key.column != "mednli"}
    assert "Avg (clinical)" not in csv_table(published_tables(replace(results, cells=part))["published"])


def test_both_numbers_of_carrino2022(bench) -> None:
    mentions(bench, "pharmaconer")
    points = [{"train.lr": 1e-5}, {"train.lr": 5e-5}]
    runs = [bench.run("mBERT", "pharmaconer", seed, 8, point=points[0], chosen=False) for seed in (1, 2)]
    runs += [bench.run("mBERT", "pharmaconer", seed, 12, point=points[1]) for seed in (1, 2)]
    recipe = bench.recipe("mBERT", published="carrino2022", score="all")
    found = lines(published_tables(collect(recipe, runs))["published"])
    assert [line["group"] for line in found] == [
        "mBERT: F1, average of all configurations",
        "mBERT: F1, best on development set",
    ]
    assert [float(line["published"]) for line in found] == [0.8671, 0.8729]
    assert float(found[0]["published std"]) == 0.01
    assert float(found[0]["ours"]) < float(found[1]["ours"])


def test_published_numbers_change_nothing_of_the_study(bench) -> None:
    """No published number is in a mean, a comparison, a verdict, or a table of the study's own scores."""
    for name in ("mednli", "medrqe"):
        pairs(bench, name, "entailment" if name == "mednli" else "true")
    right = {(row, name): number for row, number in (("BioBERT", 9), ("SciBERT", 12)) for name in ("mednli", "medrqe")}
    plain = study(bench, right, layout="lewis2020", groups={"all": ["mednli", "medrqe"]})
    beside = replace(
        study(bench, right, layout="lewis2020", groups={"all": ["mednli", "medrqe"]}, published="lewis2020")
    )
    assert LAYOUTS["lewis2020"](plain) == LAYOUTS["lewis2020"](beside)
    assert verdict(plain) == verdict(beside)
    values = beside.to_dict()
    assert values.pop("published")
    assert values == plain.to_dict()
    for table in published_tables(beside).values():
        assert table.style == "published"
        assert not any(cell.best for row in shown_rows(table) for cell in row)


def test_the_files_and_the_page(bench, tmp_path: Path) -> None:
    pairs(bench, "mednli")
    results = study(bench, {("SciBERT", "mednli"): 10, ("mine", "mednli"): 12}, published="lewis2020")
    folder = tmp_path / "study"
    write_report(results, folder)
    assert read_results(folder / "results.json").published == results.published
    assert "Published by Lewis et al. 2020, and ours" in (folder / "table.md").read_text()
    names = {path.name for path in (folder / "tables").glob("published*.csv")}
    assert names == {"published.csv", "published-1.csv", "published-2.csv", "published-protocols.csv"}
    page = (folder / "report.html").read_text()
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page)[:2] == ["Scores", "Published numbers"]
    figures = re.findall(r'<figure class="[^"]*published[^"]*">.*?</figure>', page, re.DOTALL)
    assert len(figures) == 4
    assert "<strong>" not in "".join(figures)
    summary = study_summary(folder)
    assert summary.published is not None
    assert [column.header.plain for column in table_rich(summary.published).columns] == [
        "task",
        "published",
        "ours",
        "difference",
        "same protocol and data",
    ]


def test_a_study_without_tasks_of_the_paper_says_so(bench, tmp_path: Path) -> None:
    bench.classes("mine")
    write_report(study(bench, {("a", "mine"): 10}, published="lewis2020"), tmp_path / "study")
    assert "Lewis et al. 2020 has no number on any task of this study." in (tmp_path / "study/report.html").read_text()


def test_names_are_checked_before_the_first_run(bench) -> None:
    bench.classes("one")
    check_published(bench.recipe("a", published="lewis2020"))
    with pytest.raises(OslerError, match=r"no numbers of 'lewis2022'") as caught:
        check_published(bench.recipe("a", published="lewis2022"))
    assert caught.value.fix == "Did you mean 'lewis2020'? Known: carrino2022, lewis2020, mulyar2020, peng2020, wada2020"
    models = {"a": {"model": "a", "published": "SciBERTT"}}
    with pytest.raises(OslerError, match=r"models.a.published: Lewis et al. 2020 has no row 'SciBERTT'") as caught:
        check_published(bench.recipe("a", models=models, published="lewis2020"))
    assert caught.value.fix == "Did you mean 'SciBERT'?"
    with pytest.raises(OslerError, match=r"models.a.published names a row, but the study names no paper"):
        check_published(bench.recipe("a", models=models))


def test_a_study_keeps_its_identity(bench) -> None:
    """Studies made before have neither field; naming a paper changes tables, not runs."""
    bench.classes("one")
    plain = bench.recipe("a").identity()
    assert "published" not in plain
    assert "published" not in plain["models"]["a"]
    assert bench.recipe("a", published="lewis2020").identity() == plain | {"published": "lewis2020"}
