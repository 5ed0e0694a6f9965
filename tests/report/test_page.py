from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from lxml import html

from osler.report.page import ListedRecord, Page
from osler.report.plots import curves
from osler.report.tables import Column, Table
from osler.text.document import Document, Relation, Span

NOTE = Document(
    "note-17",
    "Zebulon took warfarin for a clot.",
    (Span.at(0, 7, "PATIENT", id="T1"), Span.at(13, 21, "DRUG", id="T2"), Span.at(28, 32, "PROBLEM", id="T3")),
    (Relation("TrAP", "T2", "T3"),),
)


def page() -> Page:
    plot = curves({"loss": [(0, 3.0), (1, 2.0)]}, xlabel="updates", ylabel="loss")
    return (
        Page("A <report>", "with a & subtitle")
        .numbers([("F1", "87.3", "5 seeds"), ("Notes", "400")])
        .text("First **strong** and `code <b>`.\n\n- one\n- two *")
        .heading("Results")
        .table(Table(["Task", Column("F1", best="max")], [["a", 0.5], ["b", 0.75]], "Scores", "n"))
        .figure(plot, "Loss while training")
        .heading("Details")
        .definitions([("Seed", "7")])
        .heading("Results")
        .note(NOTE, "The first note")
        .note(NOTE.with_(id="other"), "The second note")
    )


@pytest.fixture(scope="module")
def tree() -> html.HtmlElement:
    return html.fromstring(page().render())


class Balance(HTMLParser):
    """Fails on an element that is closed out of turn or left open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"{tag} has an attribute twice"
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_element_is_closed_in_turn() -> None:
    parser = Balance()
    parser.feed(page().render())
    parser.close()
    assert parser.open == []


def test_headings_sections_and_contents(tree: html.HtmlElement) -> None:
    assert [e.text for e in tree.iter("h1")] == ["A <report>"]
    assert [e.text for e in tree.iter("h2", "h3")] == ["Results", "Details", "Results"]
    anchors = [a.get("href") for a in tree.xpath("//nav//a")]
    assert anchors == ["#s-results", "#s-details", "#s-results-2"]
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert all(anchor[1:] in ids for anchor in tree.xpath("//a/@href") if anchor.startswith("#"))
    assert tree.get("lang") == "en"


def test_every_table_has_a_caption_and_scoped_headers(tree: html.HtmlElement) -> None:
    (table,) = tree.iter("table")
    assert table.findtext("caption/span") == "Scores"
    assert [th.get("scope") for th in table.iter("th")] == ["col", "col", "row", "row"]
    assert table.xpath(".//td[contains(@class, 'best')]/strong/text()") == ["0.750"]
    assert table.xpath(".//td/@class")[0].startswith("right")


def test_every_picture_has_an_alternative_and_is_inside_the_file(tree: html.HtmlElement) -> None:
    (image,) = tree.iter("img")
    assert "loss ends at 2" in image.get("alt")
    kind, data = image.get("src").split(",", 1)
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).startswith(b"<svg")


def test_nothing_is_asked_from_elsewhere() -> None:
    text = page().render()
    assert not re.search(r"<(script|iframe|object|embed|form|base)\b", text)
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    assert "default-src 'none'" in text


def test_text_is_escaped_everywhere() -> None:
    evil = "<script>alert(1)</script>"
    made = (
        Page(evil, evil)
        .heading(evil)
        .heading(evil)
        .heading("x")
        .text(f"{evil} **{evil}** `{evil}`\n\n- {evil}")
        .numbers([(evil, evil, evil)])
        .definitions([(evil, evil)])
        .table(Table([Column(evil, group=evil)], [[evil]], evil, evil, headings={0: evil}))
        .figure(f'<svg viewBox="0 0 1 1">{evil}</svg>', evil)
        .note(Document(evil, evil, labels=(evil,)), evil)
        .render()
    )
    assert "<script" not in made
    assert made.count("&lt;script&gt;alert(1)") > 15


def test_the_style_sheet_cannot_be_closed_by_a_label() -> None:
    hostile = NOTE.with_(spans=(Span.at(0, 7, "</style>", id="T1"),), relations=(Relation("</style>", "T1", "T1"),))
    text = Page("p").note(hostile).render()
    assert text.count("</style>") == 1


def test_document_text_stands_in_notes_only() -> None:
    tree = html.fromstring(page().render())
    for section in tree.xpath("//section[@class='note']"):
        section.getparent().remove(section)
    rest = html.tostring(tree, encoding="unicode")
    for word in ("Zebulon", "warfarin", "clot", "note-17"):
        assert word not in rest


def test_the_same_page_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = page().write(tmp_path / "a.html"), page().write(tmp_path / "deep" / "b.html")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_a_label_has_one_colour_on_the_page(tree: html.HtmlElement) -> None:
    for label in ("PATIENT", "DRUG", "PROBLEM"):
        hues = {" ".join(m.get("class").split()[:2]) for m in tree.iter("mark") if m.get("data-label") == label}
        assert len(hues) == 1


def test_short_pages_have_no_contents() -> None:
    assert "<nav" not in Page("p").heading("One").text("x").render()


def test_a_listing_lets_the_browser_run_its_own_script_only() -> None:
    record = Document("d", "A note.")
    evil = '"><script>alert(1)</script>'
    made = Page("Listing").listing([ListedRecord(record, "one", [([evil], ["X"])])], filters=(evil, "Label")).render()
    scripts = re.findall(r"<script>(.*?)</script>", made, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in made
    assert "alert(1)" in made
    assert "its only script" in made
    plain = Page("Plain").note(record).render()
    assert "script-src" not in plain
    assert "runs no script" in plain
