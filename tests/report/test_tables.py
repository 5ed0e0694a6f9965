from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from lxml import html

from osler.core.errors import InputError
from osler.report.tables import (
    Column,
    Table,
    Value,
    alignments,
    csv_table,
    html_table,
    latex_table,
    markdown_table,
    shown_rows,
)

TABLE = Table(
    [
        "Model",
        Column("F1", 1, 100, best="max", group="Test"),
        Column("Loss", 2, best="min", group="Test"),
        "Runs",
        "Done",
    ],
    [
        ["tiny_a", Value(0.8731, std=0.0042, mark="*"), 0.31, 1200, True],
        ["b|c & 5%", Value(0.8729, low=0.861, high=0.884), 0.3149, np.int64(5), False],
        ["d", None, np.float64(-0.001), 7, True],
    ],
    caption="Two models",
    note="Scores times 100.",
    headings={0: "Ours", 2: "Theirs"},
)


def test_cells_are_shown_with_their_uncertainty() -> None:
    plain = [[cell.plain for cell in row] for row in shown_rows(TABLE)]
    assert plain[0] == ["tiny_a", "87.3 ± 0.4*", "0.31", "1,200", "yes"]
    assert plain[1] == ["b|c & 5%", "87.3 [86.1, 88.4]", "0.31", "5", "no"]
    assert plain[2] == ["d", "–", "0.00", "7", "yes"]
    assert shown_rows(Table(["x"], [[float("nan")]]))[0][0].text == "–"
    assert shown_rows(Table([Column("x", 1)], [[-0.26]]))[0][0].text == "−0.3"


def test_an_interval_that_excludes_zero_does_not_seem_to_hold_it() -> None:
    rows = [
        [Value(-0.02, low=-0.0361, high=-0.0004)],
        [Value(0.02, low=0.0, high=0.03)],
        [Value(0.02, low=1e-9, high=0.03)],
    ]
    shown = [row[0].plain for row in shown_rows(Table([Column("x", 1, 100)], rows))]
    assert shown == ["−2.0 [−3.6, −0.04]", "2.0 [0.0, 3.0]", "2.0 [0.0000, 3.0]"]


def test_ties_as_shown_are_both_best() -> None:
    best = [[cell.best for cell in row] for row in shown_rows(TABLE)]
    assert [row[1] for row in best] == [True, True, False]
    assert [row[2] for row in best] == [False, False, True]


def test_best_along_rows() -> None:
    columns = ["Task", Column("a", best="max"), Column("b", best="max")]
    table = Table(columns, [["x", 0.1, 0.2], ["y", 0.3, 0.2], ["z", 0.3, None]], best_along="row")
    assert [[cell.best for cell in row] for row in shown_rows(table)] == [
        [False, False, True],
        [False, True, False],
        [False, False, False],
    ]


def test_the_best_of_a_section() -> None:
    table = Table(
        ["m", Column("s", digits=0, best="max")],
        [["a", 1.0], ["b", 2.0], ["a", 9.0], ["b", 8.0]],
        headings={0: "first", 2: "second"},
        best_along="section",
    )
    assert [row[1].best for row in shown_rows(table)] == [False, True, True, False]


def test_numbers_stand_right() -> None:
    assert alignments(TABLE) == ["left", "right", "right", "right", "right"]
    assert alignments(Table([Column("x", align="center")], [[1]])) == ["center"]
    assert alignments(Table(["x"], [])) == ["left"]


def test_html() -> None:
    figure = html.fromstring(html_table(TABLE))
    rows = figure.xpath(".//tbody/tr")
    assert len(rows) == 5
    assert [row.text_content().strip() for row in rows if row.get("class") == "heading"] == ["Ours", "Theirs"]
    group = figure.xpath(".//thead//th[@scope='colgroup']")
    assert [(th.text, th.get("colspan")) for th in group] == [("Test", "2")]
    assert figure.findtext("p") == "Scores times 100."


def test_markdown() -> None:
    lines = markdown_table(TABLE).splitlines()
    assert lines[0] == "**Two models**"
    assert lines[2] == "| Model | Test F1 | Test Loss | Runs | Done |"
    assert lines[3] == "| :-- | --: | --: | --: | --: |"
    assert lines[4].startswith("| **Ours** |")
    assert lines[5] == r"| tiny_a | **87.3** ± 0.4\* | 0.31 | 1,200 | yes |"
    assert r"b\|c & 5%" in lines[6]
    assert {line.replace(r"\|", "").count("|") for line in lines[2:9]} == {6}
    assert lines[-1] == "Scores times 100."
    assert r"\<script\>" in markdown_table(Table(["x"], [["<script>\nalert"]]))


def test_csv_keeps_full_precision() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(TABLE))))
    assert rows[0]["Test F1"] == "0.8731"
    assert rows[0]["Test F1 std"] == "0.0042"
    assert rows[0]["Test F1 mark"] == "*"
    assert rows[1]["Test F1 low"] == "0.861"
    assert rows[1]["Model"] == "b|c & 5%"
    assert rows[2]["Test F1"] == ""
    assert [row["group"] for row in rows] == ["Ours", "Ours", "Theirs"]
    assert "x std" in csv_table(Table(["x"], [[Value(1.0, std=0.0)]]))


def test_latex() -> None:
    text = latex_table(TABLE)
    assert r"\begin{tabular}{lrrrr}" in text
    assert r"\multicolumn{2}{c}{Test}" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"tiny\_a & \textbf{87.3} $\pm$ 0.4\textsuperscript{*} & 0.31 & 1,200 & yes \\" in text
    assert r"b|c \& 5\%" in text
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(rule) == 1


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(InputError, match="row 2"):
        Table(["a", "b"], [[1, 2], [1]])
