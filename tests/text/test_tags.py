"""Spans to tags and back: identity for flat spans, losses handed back, and each repair policy by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import InputError
from osler.text.document import Span
from osler.text.tags import Repair, Scheme, chunks, label_set, spans_to_tags, tags_to_spans, transitions
from osler.text.words import words

BIO, BIOES = Scheme.BIO, Scheme.BIOES
STRICT, CONLLEVAL, DISCARD = Repair.STRICT, Repair.CONLLEVAL, Repair.DISCARD
LABELS = ["DRUG", "DDI-effect", "X"]
TEXT = "No ibuprofeno 10mg p.o. since May"
WORDS = words(TEXT)  # No ibuprofeno 10 mg p . o . since May


@st.composite
def flat(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Span]]:
    """Words with gaps between them or none, and labelled runs of them that do not touch each other's words."""
    position, ranges = 0, []
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=14)):
        ranges.append((position + gap, position + gap + length))
        position += gap + length
    edges = sorted(draw(st.sets(st.integers(0, len(ranges)), max_size=8)))
    spans = []
    for first, last in itertools.pairwise(edges):
        label = draw(st.sampled_from([*LABELS, ""]))
        if label:
            spans.append(Span.at(ranges[first][0], ranges[last - 1][1], label))
    return ranges, spans


@settings(max_examples=100, deadline=None)
@given(flat(), st.sampled_from(Scheme), st.sampled_from(Repair), st.randoms(use_true_random=False))
def test_flat_spans_come_back(case: tuple, scheme: Scheme, repair: Repair, random: object) -> None:
    ranges, spans = case
    shuffled = list(spans)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    result = spans_to_tags(shuffled, ranges, scheme)
    assert result.unexpressed == []
    assert result.inexact == []
    assert tags_to_spans(result.tags, ranges, scheme, repair) == spans


any_span = st.builds(
    lambda edges, label: Span(tuple(zip(edges[::2], edges[1::2], strict=True)), label),
    st.sampled_from([2, 4]).flatmap(
        lambda n: st.lists(st.integers(0, len(TEXT)), min_size=n, max_size=n, unique=True).map(sorted)
    ),
    st.sampled_from(LABELS),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(any_span, max_size=6), st.sampled_from(Scheme))
def test_every_span_is_expressed_or_handed_back(spans: list[Span], scheme: Scheme) -> None:
    result = spans_to_tags(spans, WORDS, scheme)
    back = tags_to_spans(result.tags, WORDS, scheme, STRICT)
    lost = {span.key for span in [*result.unexpressed, *result.inexact]}
    assert {span.key for span in spans} - lost <= {span.key for span in back}
    assert len(back) == len({span.key for span in spans}) - len(result.unexpressed)
    assert not {s.key for s in result.unexpressed} & {s.key for s in result.inexact}


def test_both_schemes() -> None:
    spans = [Span.at(3, 13, "DRUG"), Span.at(14, 18, "DOSE")]
    assert spans_to_tags(spans, WORDS, BIO).tags == ["O", "B-DRUG", "B-DOSE", "I-DOSE", *"OOOOOO"]
    assert spans_to_tags(spans, WORDS, BIOES).tags == ["O", "S-DRUG", "B-DOSE", "E-DOSE", *"OOOOOO"]


def test_the_longest_of_overlapping_spans_is_kept() -> None:
    outer, inner, crossing = Span.at(3, 18, "X"), Span.at(3, 13, "DRUG"), Span.at(16, 23, "Y")
    result = spans_to_tags([inner, crossing, outer], WORDS, BIO)
    assert [s.key for s in tags_to_spans(result.tags, WORDS, BIO, STRICT)] == [outer.key]
    assert result.unexpressed == [inner, crossing]


def test_one_place_with_two_labels_keeps_the_first_label() -> None:
    result = spans_to_tags([Span.at(3, 13, "Y"), Span.at(3, 13, "X"), Span.at(3, 13, "X", id="T9")], WORDS, BIO)
    assert result.tags[1] == "B-X"
    assert result.unexpressed == [Span.at(3, 13, "Y")]


def test_of_copies_the_first_is_handed_back() -> None:
    copies = [Span.at(3, 13, "X", id="T1"), Span.at(3, 13, "X", id="T2")]
    assert spans_to_tags([*copies, Span.at(3, 18, "Y")], WORDS, BIO).unexpressed == copies[:1]


def test_discontinuous_spans() -> None:
    gap = Span(((3, 13), (19, 23)), "X")
    assert spans_to_tags([gap], WORDS, BIO).unexpressed == [gap]
    # Broken at a line end only: no word lies between the fragments.
    touching = Span(((3, 13), (14, 18)), "X")
    assert spans_to_tags([touching], WORDS, BIO).inexact == [touching]


def test_edges_inside_words_and_spans_of_whitespace() -> None:
    inside, blank = Span.at(5, 13, "X"), Span.at(2, 3, "X")
    result = spans_to_tags([inside, blank], WORDS, BIO)
    assert result.tags[1] == "B-X"
    assert result.inexact == [inside]
    assert result.unexpressed == [blank]


# tags; then what STRICT, CONLLEVAL and DISCARD read: label and words, "X01" is label X on words 0 and 1.
IMPROPER_BIO = [
    ("O I-X I-X", "", "X12", ""),
    ("I-X O B-X", "X2", "X0 X2", "X2"),
    ("B-X I-Y", "X0", "X0 Y1", ""),
    ("B-X I-Y I-X", "X0", "X0 Y1 X2", ""),
    ("B-X I-X I-Y I-Y O", "X01", "X01 Y23", ""),
    ("B-X B-X I-X", "X0 X12", "X0 X12", "X0 X12"),
    ("B-X B-Y I-X", "X0 Y1", "X0 Y1 X2", "X0"),
    ("I-X B-X", "X1", "X0 X1", "X1"),
]
IMPROPER_BIOES = [
    ("O I-X E-X", "", "X12", ""),
    ("E-X O", "", "X0", ""),
    ("B-X O", "", "X0", ""),
    ("B-X I-X", "", "X01", ""),
    ("B-X I-Y E-Y", "", "X0 Y12", ""),
    ("B-X E-Y", "", "X0 Y1", ""),
    ("B-X S-X E-X", "X1", "X0 X1 X2", "X1"),
    ("S-X I-X", "X0", "X0 X1", "X0"),
    ("S-X E-X", "X0", "X0 X1", "X0"),
    ("B-X E-X E-X", "X01", "X01 X2", "X01"),
    ("B-X E-X I-X", "X01", "X01 X2", "X01"),
    ("B-X B-X E-X", "X12", "X0 X12", "X12"),
    ("I-X S-Y", "Y1", "X0 Y1", "Y1"),
]


@pytest.mark.parametrize(
    ("scheme", "case"), [*((BIO, case) for case in IMPROPER_BIO), *((BIOES, case) for case in IMPROPER_BIOES)]
)
def test_improper_sequences(scheme: Scheme, case: tuple[str, str, str, str]) -> None:
    tags = case[0].split()
    for repair, expected in zip((STRICT, CONLLEVAL, DISCARD), case[1:], strict=True):
        found = chunks(tags, scheme, repair)
        read = " ".join(label + "".join(map(str, range(start, end))) for start, end, label in found)
        assert read == expected, repair


def test_scores_are_means_of_the_words() -> None:
    ranges = [(0, 2), (3, 5), (6, 8)]
    spans = tags_to_spans(["B-X", "I-X", "B-Y"], ranges, BIO, STRICT, [0.5, 1.0, 0.25])
    assert [(span.key, span.score) for span in spans] == [((((0, 5),), "X"), 0.75), ((((6, 8),), "Y"), 0.25)]
    assert tags_to_spans(["B-X", "O", "O"], ranges, BIO, STRICT)[0].score is None


@pytest.mark.parametrize("scheme", Scheme)
def test_transitions_allow_exactly_the_proper_sequences(scheme: Scheme) -> None:
    tags = label_set(["X", "Y"], scheme)
    steps = transitions(tags, scheme)
    ranges = [(i, i + 1) for i in range(3)]
    legal = 0
    for path in itertools.product(range(len(tags)), repeat=3):
        allowed = steps.start[path[0]] and steps.end[path[-1]]
        allowed = allowed and all(steps.allowed[a][b] for a, b in itertools.pairwise(path))
        sequence = [tags[i] for i in path]
        spans = tags_to_spans(sequence, ranges, scheme, CONLLEVAL)
        assert allowed == (spans_to_tags(spans, ranges, scheme).tags == sequence)
        legal += allowed
    assert 0 < legal < len(tags) ** 3


def test_label_set() -> None:
    assert label_set(["X", "A-b"], BIO) == ["O", "B-X", "I-X", "B-A-b", "I-A-b"]
    assert label_set(["X"], BIOES) == ["O", "B-X", "I-X", "E-X", "S-X"]
    with pytest.raises(InputError, match="every label once"):
        label_set(["X", "X"], BIO)


@pytest.mark.parametrize("tag", ["E-X", "B", "B-", "SECRET", "", "i-X"])
def test_a_wrong_tag_is_placed_and_not_quoted(tag: str) -> None:
    with pytest.raises(InputError, match=r"tag 1: .*BIO") as caught:
        chunks(["O", tag], BIO, STRICT)
    assert "SECRET" not in str(caught.value)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 words"):
        tags_to_spans(["O"], [(0, 1), (2, 3)], BIO, STRICT)


def test_a_predicted_span_does_not_begin_or_end_with_a_bidi_mark() -> None:
    text = "\u200fאספירין\u200f 100\u202c mg"
    places = words(text)
    (drug, dose) = tags_to_spans(["B-DRUG", "B-X", "I-X"], places, BIO, STRICT)
    assert text[drug.start : drug.end] == "אספירין"
    assert text[dose.start : dose.end] == "100\u202c mg"


def test_fragments_are_tagged_only_if_asked_for_and_a_mention_between_them_is_reported():
    ranges = [(n * 2, n * 2 + 1) for n in range(6)]
    broken = Span(((0, 3), (8, 9)), "X")
    between = Span.at(6, 7, "X")
    assert spans_to_tags([broken], ranges, BIO).unexpressed == [broken]
    result = spans_to_tags([broken], ranges, BIO, tag_fragments=True)
    assert result.tags == ["B-X", "I-X", "O", "O", "I-X", "O"]
    assert result.unexpressed == result.inexact == []
    assert spans_to_tags([broken], ranges, BIOES, tag_fragments=True).tags == ["B-X", "I-X", "O", "O", "E-X", "O"]
    # The I- after the second B- would be read as part of the second mention.
    crossed = spans_to_tags([broken, between], ranges, BIO, tag_fragments=True)
    assert crossed.tags == ["B-X", "I-X", "O", "B-X", "I-X", "O"]
    assert crossed.unexpressed == [broken]


def test_b_anchored_reads_as_conlleval_and_marks_what_does_not_begin_with_b():
    tags = ["O", "I-X", "B-X", "I-Y", "O", "O", "B-Y", "I-Y", "O", "I-Y"]
    plain = tags_to_spans(tags, WORDS, BIO, CONLLEVAL)
    marked = tags_to_spans(tags, WORDS, BIO, Repair.B_ANCHORED)
    assert [span.key for span in marked] == [span.key for span in plain]
    assert [bool(span.attributes) for span in marked] == [True, False, True, False, True]
    assert not any(span.attributes for span in plain)
