"""Sections of a long text: they cover it, and what is found in them comes together without a cut or a double mention."""

from __future__ import annotations

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from osler.text.document import Document, Relation, Span
from osler.text.sections import Section, cut_sections, join_sections

TEXTS = st.text(alphabet="mm. ab\n😀e\u0301", max_size=400)


@given(text=TEXTS, size=st.integers(8, 60), overlap=st.integers(0, 80))
def test_sections_cover_the_text_in_order_and_are_not_too_long(text, size, overlap):
    found = cut_sections(text, size, overlap)
    assert (found[0].start, found[-1].end) == (0, len(text))
    for before, after in itertools.pairwise(found):
        assert before.start < after.start <= before.end < after.end
        assert before.end - after.start >= min(overlap, size // 2)
    assert all(end - start <= size for start, end in found)


def test_sections_are_cut_between_lines_or_words():
    text = "aaa bbb ccc\nddd eee fff ggg hhh iii jjj"
    assert cut_sections(text, 16, 0) == [Section(0, 16), Section(16, 32), Section(32, 39)]
    assert cut_sections(text, 17, 8)[1] == Section(8, 24)
    assert all(start % 5 == 0 and end % 5 == 0 for start, end in cut_sections("word " * 20, 48, 8))
    assert cut_sections("x" * 30, 16, 4) == [Section(0, 16), Section(12, 28), Section(24, 30)]
    assert cut_sections("", 10, 2) == [Section(0, 0)]


def mentions(text: str) -> Document:
    """Every run of m is a mention, related to the one before it in the text."""
    spans = tuple(
        Span.at(*match.span(), "M", id=f"T{number}") for number, match in enumerate(re.finditer("m+", text), 1)
    )
    relations = tuple(Relation("next", a.id, b.id, f"R{n}") for n, (a, b) in enumerate(itertools.pairwise(spans), 1))
    return Document("d", text, spans, relations)


@settings(max_examples=300)
@given(text=TEXTS, size=st.integers(40, 90))
def test_what_sections_find_alike_is_what_the_whole_text_gives(text, size):
    text = re.sub("m{6,}", "mmmmm", text)  # no mention longer than half of an overlap
    whole = mentions(text)
    sections = cut_sections(text, size, 24)
    joined = join_sections(Document("d", text), sections, [mentions(text[start:end]) for start, end in sections])
    edges = {place for section in sections for place in section}
    cut = any(span.start < edge < span.end for span in whole.spans for edge in edges)
    assert [(span.id, span.key) for span in joined.spans] == [(span.id, span.key) for span in whole.spans] or cut
    assert {relation.key for relation in joined.relations} <= {relation.key for relation in whole.relations} or cut


@settings(max_examples=300)
@given(text=st.text(alphabet="ab \n.", min_size=80, max_size=300), data=st.data())
def test_sections_that_disagree_give_no_overlapping_mentions(text, data):
    sections = cut_sections(text, 60, 24)
    found = []
    for start, end in sections:
        edges = sorted(data.draw(st.sets(st.integers(0, end - start), max_size=8)))
        spans = tuple(
            Span.at(low, high, "M", id=f"T{number}")
            for number, (low, high) in enumerate(zip(edges[::2], edges[1::2], strict=False))
        )
        found.append(Document("d", text[start:end], spans))
    joined = join_sections(Document("d", text), sections, found)
    given_spans = {
        (section.start + span.start, section.start + span.end)
        for section, part in zip(sections, found, strict=True)
        for span in part.spans
    }
    ends = 0
    for span in joined.spans:
        assert (span.start, span.end) in given_spans  # whole, as one of the sections has it
        assert span.start >= ends
        ends = span.end


def test_a_seam_is_between_sentences_so_that_relations_in_a_sentence_stay():
    sentence = "Aspirin mm helped mmm well here. "
    text = sentence * 12
    sections = cut_sections(text, 150, 70)
    joined = join_sections(Document("d", text), sections, [mentions(text[start:end]) for start, end in sections])
    inside = [
        r
        for r in joined.relations
        if joined.span(r.head).start // len(sentence) == joined.span(r.tail).start // len(sentence)
    ]
    assert len(inside) == 12
