"""Every published number against the text of its paper, if that is here."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from osler.tasks.published import PublishedTable, load_published

pytestmark = pytest.mark.realdata
SHARED = Path(os.environ.get("OSLER_DATA", Path(__file__).parents[3] / "shared" / "data")).parent
TITLES = {
    "carrino2022": "Clinical NLP in Spanish",
    "lewis2020": "Understanding and Extending",
    "mulyar2020": "MT-Clinical BERT",
    "peng2020": "MT-BlueBERT-Fine-Tune",
}


def text_of(name: str) -> str:
    for path in sorted((SHARED / "papers").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if TITLES[name] in text.partition("References")[0]:
            return text
    pytest.skip("the text of the paper is not here")


def numbers(text: str) -> str:
    """All numbers of a text, in order, each between blanks."""
    found = re.findall(r"\d+e-\d+|\d+(?:\.\d+)?", text)
    return f" {' '.join(found)} "


def printed(value: float | None, digits: int) -> str:
    assert value is not None
    if 0 < value < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:g}" if value >= 1 and value == int(value) and digits > 1 else f"{abs(value):.{digits}f}"


def test_carrino2022_line_by_line() -> None:
    """F1, precision, recall and the best F1, each with its deviation, then learning rate and epoch."""
    paper, text = load_published("carrino2022"), text_of("carrino2022")
    found = numbers(re.sub(r"</?(?:b|sub)>", " ", text[text.index("Average of all configurations") :]))
    for task in paper.tasks:
        for place, row in enumerate(paper.rows):
            line = []
            for table in paper.tables:
                line.append(printed(table.values[task][place], 4))
                line += (
                    [printed(table.spread[task][place], 2) if table.spread[task][place] else "0.00"]
                    if table.spread
                    else []
                )
            assert f" {' '.join(line)} " in found, (task, row)


def test_lewis2020_line_by_line() -> None:
    paper, text = load_published("lewis2020"), text_of("lewis2020")
    found = numbers(text)
    two, three, five, six = paper.tables
    for task, values in two.values.items():
        assert f" {' '.join(printed(value, 1) for value in values)} " in found, task
    for table in (three, six):  # a line per model, the groups across
        for place, row in enumerate(table.rows):
            assert f" {' '.join(printed(values[place], 1) for values in table.values.values())} " in found, row
    for task, values in five.values.items():
        assert f" {' '.join(printed(value, 1) for value in values)} " in found, task


def test_mulyar2020_line_by_line() -> None:
    paper, text = load_published("mulyar2020"), text_of("mulyar2020")
    scores, differences = paper.tables
    for task, (joint, single, quoted) in scores.values.items():
        [change] = differences.values[task]
        sign = "+" if change and change > 0 else "−"
        last = "-" if quoted is None else printed(quoted, 1)
        line = f"{paper.tasks[task].name}\t{printed(joint, 1)} ({sign}{printed(change, 1)})\t{printed(single, 1)}\t{last}\n"
        assert line in text, task


def test_peng2020_column_by_column() -> None:
    """The text of its tables runs down the columns: tables 2 to 5 by task, table 6 by model."""
    paper, text = load_published("peng2020"), text_of("peng2020")
    found = numbers(text)
    for table in paper.tables:
        columns = list(table.values.values())
        average = columns.pop() if table.table == "6" else None  # printed apart
        for values in zip(*columns, strict=True) if average else columns:
            assert f" {' '.join(printed(value, 3) for value in values)} " in found, (table.table, values)
        for value in average or ():
            assert f" {printed(value, 3)} " in found


def test_wada2020_cell_by_cell() -> None:
    """The repository's tables: learning rate, epochs, dev and test of every model on every task; then the totals."""
    path = SHARED / "reference" / "seed-systems.md"
    if not path.is_file():
        pytest.skip("the tables of the repository are not here")
    text, paper = path.read_text(encoding="utf-8"), load_published("wada2020")
    test, dev, rates, epochs, seeds = paper.tables
    names = {"i2b2 2010": "i2b2-2010 RE"}
    for task, published in paper.tasks.items():
        line = next(
            line for line in text.splitlines() if line.startswith(f"| {names.get(published.name, published.name)} |")
        )
        cells = [re.sub(r" \(.*\)", "", cell.strip()) for cell in line.split("|")[2:-1]]
        assert cells == [_cell(task, place, rates, epochs, dev, test) for place in range(4)], task
    for row, total, spread in zip(seeds.rows, seeds.values["Total"], seeds.spread["Total"], strict=True):
        assert re.search(rf"{re.escape(row.removesuffix(' v1.1'))}(?: total)? {total}±{spread}", text), row


def _cell(task: str, place: int, rates: PublishedTable, epochs: PublishedTable, *scores: PublishedTable) -> str:
    count = epochs.values[task][place]
    texts = [
        printed(rates.values[task][place], 0),
        f"{count:g}",
        *(f"{table.values[task][place]:.1f}" for table in scores),
    ]
    return " / ".join(texts)
