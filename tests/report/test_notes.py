from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.report import notes
from osler.report.colours import HUES, LINES, dark_text_on, label_colours
from osler.report.notes import note_css
from osler.text.document import Document, Relation, Span

SETTINGS = settings(max_examples=100, deadline=None)
TEXTS = st.text(st.sampled_from("ab <>&\"'{}\n\r\té漢"), min_size=1, max_size=30)


def note_html(document: Document, **options: str) -> str:
    return notes.note_html(document, label_colours(span.label for span in document.spans), **options)


class Note(HTMLParser):
    """Reads a note back: its text, and which mention each of its characters is marked with."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""
        self.marks: list[list[dict[str, str]]] = []
        self.stack: list[dict[str, str]] = []
        self.pieces: list[dict[str, str]] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.skip = 0
        self.inside = False
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.tags.add(tag)
        self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "div" and values.get("class") == "note-text":
            self.inside = True
        if tag == "mark":
            self.stack.append(values)
            self.pieces.append(values)
        if tag == "a":
            self.skip += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "mark":
            self.stack.pop()
        if tag == "a":
            self.skip -= 1
        if tag == "div":
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside and not self.skip:
            self.text += data
            self.marks += [list(self.stack)] * len(data)


def spans_in(length: int) -> st.SearchStrategy[Span]:
    def build(cuts: list[int], label: str) -> Span:
        edges = sorted(set(cuts))
        edges = edges if len(edges) % 2 == 0 else edges[:-1]
        fragments = tuple(zip(edges[::2], edges[1::2], strict=True)) or ((0, 1),)
        return Span(fragments, label)

    return st.builds(
        build, st.lists(st.integers(0, length), min_size=2, max_size=5), st.sampled_from(["A", "B", "<i>"])
    )


@SETTINGS
@given(TEXTS.flatmap(lambda text: st.tuples(st.just(text), st.lists(spans_in(len(text)), max_size=6))))
def test_every_character_keeps_its_place_and_its_mentions(case: tuple[str, list[Span]]) -> None:
    text, spans = case
    named = tuple(Span(span.fragments, span.label, id=f"T{i}") for i, span in enumerate(spans))
    note = Note(note_html(Document("d", text, named)))
    assert note.text == text
    for place, marks in enumerate(note.marks):
        covering = {s.id for s in named if any(a <= place < b for a, b in s.fragments)}
        assert {mark["data-span"] for mark in marks} == covering
    assert len(note.ids) == len(set(note.ids))


@pytest.mark.parametrize(
    "text", ["a\r\nb", "a\rb", "\n\nstarts and ends with lines\n\n", "tab\tand  blanks", "é漢\u202e字"]
)
def test_whitespace_survives(text: str) -> None:
    assert Note(note_html(Document("d", text, (Span.at(0, 1, "A"),)))).text == text


def test_markup_in_a_document_is_inert() -> None:
    hostile = "<script>alert(1)</script> & \" ' <img src=x onerror=alert(1)> {{ 7*7 }} </div></section>"
    spans = (Span.at(0, 8, '"><script>', id="'><b>", attributes={"assertion": "<u>"}), Span.at(8, 13, "A", id="T2"))
    document = Document("<d>", hostile, spans, (Relation("<s>", "'><b>", "T2"),), labels=("<em>",))
    html = note_html(document, caption="<h1>")
    note = Note(html)
    assert note.text == hostile
    assert note.tags <= {"section", "header", "p", "ul", "li", "span", "div", "mark", "a", "ol"}
    assert "49" not in html
    assert "<script" not in html


def test_nested_mentions_nest_and_crossing_ones_are_cut_with_open_edges() -> None:
    nested = Note(note_html(Document("d", "abcdef", (Span.at(0, 6, "A", id="T1"), Span.at(2, 4, "B", id="T2")))))
    assert len(nested.pieces) == 2
    crossing = Note(note_html(Document("d", "abcdef", (Span.at(0, 4, "A", id="T1"), Span.at(2, 6, "B", id="T2")))))
    pieces = [(piece["data-span"], piece["class"].split()[3:]) for piece in crossing.pieces]
    assert pieces == [("T1", []), ("T2", ["more-right"]), ("T2", ["more-left"])]
    assert [piece.get("data-chip") for piece in crossing.pieces] == ["A", None, "B"]


def test_the_parts_of_a_discontinuous_mention_are_numbered() -> None:
    note = Note(note_html(Document("d", "left and right knee", (Span(((0, 4), (15, 19)), "PROBLEM", id="T1"),))))
    assert [piece["data-chip"] for piece in note.pieces] == ["PROBLEM 1/2", "PROBLEM 2/2"]
    assert [piece.get("id") for piece in note.pieces] == ["note-s0", None]


def test_attributes_that_change_the_meaning_are_shown() -> None:
    def chip(**attributes: str) -> str:
        spans = (Span.at(0, 4, "PROBLEM", id="T1", attributes=attributes, score=0.876),)
        piece = Note(note_html(Document("d", "pain", spans))).pieces[0]
        assert "score 0.88" in piece["title"]
        return piece["data-chip"]

    assert chip(assertion="absent") == "PROBLEM · absent"
    assert chip(assertion="present", kind="x") == "PROBLEM"


def test_relations_link_to_their_arguments_and_back() -> None:
    spans = (Span.at(0, 8, "DRUG", id="T1"), Span(((14, 17), (18, 21)), "DRUG", id="T2"))
    document = Document("d", "warfarin with asp rin", spans, (Relation("DDI-effect", "T1", "T2"),))
    html = note_html(document, name="n7")
    for link in ('href="#n7-r1"', 'id="n7-r1"', 'href="#n7-s0"', 'id="n7-s0"', 'href="#n7-s1"', 'id="n7-s1"'):
        assert link in html
    assert html.count('class="ref"') == 2
    assert "asp … rin" in html
    assert ".n7-s0,.n7-s1" in note_css(document, "n7")


def test_an_empty_note_and_one_without_mentions() -> None:
    assert Note(note_html(Document("d", ""))).text == ""
    plain = Note(note_html(Document("d", "nothing here", value=2.5)))
    assert (plain.text, plain.pieces) == ("nothing here", [])


def test_colours_are_stable_and_differ() -> None:
    labels = [f"LABEL{i}" for i in range(20)] + ["DRUG", "PROBLEM", "CHEMICAL"]
    colours = label_colours(labels)
    assert len(set(colours.values())) == len(labels)
    assert colours == label_colours(reversed(labels))
    assert label_colours(["DRUG"])["DRUG"] == colours["DRUG"] == label_colours(["DRUG", "X"])["DRUG"]
    assert label_colours(["LABEL7"]) == label_colours(["LABEL7"])
    crowd = label_colours(f"L{i}" for i in range(len(HUES) * len(LINES) + 10))
    assert len(crowd) == len(HUES) * len(LINES) + 10


def test_text_on_a_colour_has_the_better_contrast() -> None:
    assert dark_text_on((240, 228, 66))
    assert not dark_text_on((0, 0, 120))
