"""The page in a real browser: it shows the note, says nothing on the console and asks for nothing."""

from __future__ import annotations

from typing import Any

import pytest
from browsers import opened

from osler.report.page import ListedRecord, Page
from osler.report.plots import Bar, bars_with_intervals, curves
from osler.report.tables import Links, Table
from osler.text.document import Document, Relation, Span

pytestmark = pytest.mark.browser

TEXT = "Mrs. Okafor took warfarin with ibuprofen.\r\n<script>document.title = 'run'</script>\nNo chest pain."
NOTE = Document(
    "d",
    TEXT,
    (
        Span.at(5, 11, "PATIENT", id="T1"),
        Span.at(17, 25, "DRUG", id="T2"),
        Span.at(31, 40, "DRUG", id="T3"),
        Span.at(17, 40, "OCCURRENCE", id="T4"),
        Span.at(TEXT.index("chest"), TEXT.index("chest") + 10, "PROBLEM", id="T5", attributes={"assertion": "absent"}),
    ),
    (Relation("DDI-effect", "T2", "T3"),),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    page = (
        Page("Browser test")
        .heading("Plots")
        .figure(curves({"a": [(0, 1), (1, 2)], "b": [(0, 2), (1, 1)]}, xlabel="x", ylabel="y"), "Curves")
        .figure(bars_with_intervals([Bar("a", 0.5, 0.4, 0.6, (0.5,))], xlabel="x"), "Bars")
        .heading("Table")
        .table(Table([f"a long column name {i}" for i in range(12)], [list(range(12))], "Wide"))
        .heading("Note")
        .note(NOTE, "One note")
    )
    return page.write(tmp_path_factory.mktemp("page") / "report.html").as_uri()


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixty long notes; every third has an error on a drug, the others on a dose."""
    text = "Line of a long note.\n" * 200
    items = []
    for number in range(60):
        label = "DRUG" if number % 3 == 0 else "DOSE"
        note = Document(f"d{number}", text, (Span.at(3000, 3004, "missed", id="T1"),))
        items.append(ListedRecord(note, f"note {number}", [(["missed"], [label]), (["invented"], ["FORM"])]))
    page = Page("Listing").heading("Table")
    page.table(Table(["where", "link"], [["last", Links((("60", "n60-s0"),))]]))
    page.heading("Documents").listing(items, filters=("Error", "Label"))
    return page.write(tmp_path_factory.mktemp("listing") / "errors.html").as_uri()


def shown(tab: Any) -> list[str]:
    return list(tab.locator(".listed:visible .note-caption").all_text_contents())


def test_a_listing_is_paged_filtered_and_reached_by_links(browser: Any, listing: str) -> None:
    tab, events = opened(browser, listing, viewport={"width": 390, "height": 900}, reduced_motion="reduce")
    assert events == [listing]
    assert tab.evaluate("document.documentElement.scrollHeight") < 20_000
    assert shown(tab) == [f"note {number}" for number in range(20)]
    tab.locator("[data-step='1']").first.click()
    assert shown(tab)[0] == "note 20"
    label = tab.locator("select").nth(1)
    assert label.locator("option").all_text_contents() == ["all", "DOSE (40)", "DRUG (20)", "FORM (60)"]
    label.select_option("DRUG")
    assert shown(tab) == [f"note {number}" for number in range(0, 60, 3)]
    # One error must have both values: no drug was invented.
    tab.locator("select").first.select_option("invented")
    assert shown(tab) == []
    assert tab.locator(".pager span").first.text_content() == "No document matches"
    tab.locator("a.to").click()
    assert shown(tab)[-1] == "note 59"
    assert tab.locator("#n60-s0").evaluate("e => e.getBoundingClientRect().top > 0")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.context.close()


def test_a_listing_shows_its_first_page_and_linked_notes_without_a_script(browser: Any, listing: str) -> None:
    tab, _ = opened(browser, listing, java_script_enabled=False)
    assert tab.locator(".listed:visible").count() == 20
    assert tab.locator("noscript").text_content().startswith("The first 20 of 60 documents.")
    assert not tab.locator(".filters").is_visible()
    tab.locator("a.to").click()
    assert tab.locator("#n60").is_visible()
    tab.context.close()


def test_wide_tables_scroll_beside_their_first_column_and_plots_fit(browser: Any, address: str) -> None:
    tab, _ = opened(browser, address, viewport={"width": 390, "height": 900})
    assert tab.locator(".plot .scroll").evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)")
    scroll, first = tab.locator(".table .scroll"), tab.locator("tbody th").first
    before = first.bounding_box()["x"]
    scroll.evaluate("e => { e.scrollLeft = 300 }")
    assert scroll.evaluate("e => e.scrollLeft") == 300
    assert first.bounding_box()["x"] == before
    assert tab.locator("caption span").bounding_box()["x"] >= 0
    tab.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_quiet_and_shows_the_note(browser: Any, address: str, scheme: str, width: int) -> None:
    tab, events = opened(browser, address, color_scheme=scheme, viewport={"width": width, "height": 900})
    assert events == [address]
    assert tab.title() == "Browser test"
    drug = tab.locator("mark[data-span='T2']")
    assert drug.is_visible()
    assert drug.evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"
    assert "DRUG" in drug.evaluate("e => getComputedStyle(e, '::after').content")
    shown = tab.locator(".note-text").evaluate(
        "e => { e = e.cloneNode(true); e.querySelectorAll('a').forEach(a => a.remove()); return e.textContent }"
    )
    assert shown == TEXT
    assert tab.locator("img").evaluate_all("all => all.every(i => i.complete && i.naturalWidth > 100)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width, "the page must not scroll sideways"
    tab.context.close()


def test_hovering_a_relation_lights_up_its_arguments(browser: Any, address: str) -> None:
    tab, _ = opened(browser, address, viewport={"width": 1280, "height": 900})
    style = "e => getComputedStyle(e).outlineStyle"
    drug, patient = tab.locator("#n1-s1"), tab.locator("#n1-s0")
    assert drug.evaluate(style) == "none"
    tab.locator("#n1-r1").hover()
    assert drug.evaluate(style) == "solid"
    assert patient.evaluate(style) == "none"
    tab.mouse.move(0, 0)
    tab.locator("#n1-r1 a").last.click()
    assert tab.locator("#n1-s2").evaluate(style) == "solid"
    tab.context.close()


def test_text_has_enough_contrast_in_both_schemes(browser: Any, address: str) -> None:
    # WCAG 2 contrast of each kind of text with the card it stands on; 4.5 is what level AA asks for.
    measure = """() => {
      const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
      const luminance = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(channel);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ratio = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((p, q) => p - q);
        return (high + 0.05) / (low + 0.05);
      };
      const style = selector => getComputedStyle(document.querySelector(selector));
      const kinds = [".note-text", ".note-caption", ".count", "caption", "thead th", "figcaption"];
      return kinds.map(kind => ratio(style(kind).color, style(".note").backgroundColor));
    }"""
    for scheme in ("light", "dark"):
        tab, _ = opened(browser, address, color_scheme=scheme)
        assert min(tab.evaluate(measure)) >= 4.5
        tab.context.close()
