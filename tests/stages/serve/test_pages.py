"""Pages of annotated notes: self-contained, with the very text of the notes, a bounded number of them on each page."""

from __future__ import annotations

import re
from html import unescape

from osler.formats.base import configure
from osler.formats.registry import get_format
from osler.text.document import Document, Relation, Span, TextPair

TEXT = "No <b>fever</b> & 😀 aspirin\r\nagain"
NOTE = Document(
    "n<1>",
    TEXT,
    (
        Span.at(6, 11, "Problem", id="T1", score=0.875, attributes={"negated": "yes", "head": "h"}),
        Span.at(20, 27, "Drug", id="T2"),
    ),
    (Relation("for", "T2", "T1", "R1", 0.5),),
    ("ward:ED",),
)


def test_one_page_is_the_index_and_loads_nothing(tmp_path):
    loss = get_format("html").write([NOTE, TextPair("p", "He rests.", "He runs.", labels=("no",))], tmp_path / "out")
    assert not loss
    [page] = (tmp_path / "out").iterdir()
    shown = page.read_text(encoding="utf-8")
    assert page.name == "index.html"
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", shown)
    assert not re.search(r"url\(|@import|<script", shown)
    text = re.search(r'<div class="note-text"[^>]*>(.*?)</div>', shown, re.DOTALL)[1]
    bare = unescape(re.sub(r"<a class=\"ref\".*?</a>|</?mark[^>]*>", "", text))
    assert bare == TEXT
    assert 'data-chip="Problem · negated"' in shown
    assert "score 0.88" in shown
    assert "n&lt;1&gt;" in shown
    assert "He runs." in shown


def test_many_notes_are_on_several_pages_with_an_index(tmp_path):
    notes = [Document(f"n{number}", "Aspirin.") for number in range(5)]
    configure(get_format("html"), {"per_page": 2, "title": "A & B"}).write(notes, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["index.html", "notes-00001.html", "notes-00002.html", "notes-00003.html"]
    index = (tmp_path / "out" / "index.html").read_text()
    assert re.findall(r'href="(.*?)">(.*?)<', index) == [
        ("notes-00001.html", "n0 … n1"),
        ("notes-00002.html", "n2 … n3"),
        ("notes-00003.html", "n4"),
    ]
    assert "A &amp; B" in index
    assert "n3" in (tmp_path / "out" / "notes-00002.html").read_text()
    assert get_format("html").detect(tmp_path / "out")


def test_a_long_note_has_a_page_of_its_own(tmp_path):
    notes = [Document("a", "x"), Document("b", "x" * (1 << 20)), Document("c", "x")]
    get_format("html").write(notes, tmp_path / "out")
    assert len(list((tmp_path / "out").glob("notes-*.html"))) == 3
