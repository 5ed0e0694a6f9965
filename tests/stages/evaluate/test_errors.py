"""Every error class of every kind of task on answers made by hand, and agreement with the scorers on random ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.metrics.spans import score_spans
from osler.stages.evaluate.errors import Finding, MatchOutcome, confidences, confusions, find_errors, outcomes
from osler.tasks.card import TaskCard
from osler.tasks.scoring import score
from osler.text.document import Document, Relation, Span, TextPair

SETTINGS = settings(max_examples=150, deadline=None)
TEXT = "abcdefghijklmnopqrst"


def card(kind: str, labels: tuple[str, ...] = ("A", "B"), metric: str = "f1", **more) -> TaskCard:
    values = {"name": "hand-made", "title": "Made by hand", "kind": kind, "language": "en", "labels": labels}
    source = {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}}
    protocol = {"metric": metric, **more.pop("protocol", {})}
    return TaskCard.model_validate(values | {"source": source, "protocol": "p", "protocols": {"p": protocol}} | more)


def document(*spans: tuple[int, int, str], score: float | None = None) -> Document:
    made = tuple(Span.at(a, b, label, id=f"T{i}", score=score) for i, (a, b, label) in enumerate(spans))
    return Document("d", TEXT, made)


def told(findings: tuple[Finding, ...]) -> list[tuple[str, object, object]]:
    def one(answer) -> object:
        return None if answer is None else (*answer.extents[0][0], answer.label)

    return [(finding.outcome.value, one(finding.gold), one(finding.predicted)) for finding in findings]


def errors_of(kind_card: TaskCard, gold, predicted):
    return find_errors(kind_card, kind_card.protocol_named(), gold, predicted)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([(0, 3, "A")], [(0, 3, "A")], [("correct", (0, 3, "A"), (0, 3, "A"))]),
        ([(0, 3, "A")], [], [("missed", (0, 3, "A"), None)]),
        ([], [(0, 3, "A")], [("invented", None, (0, 3, "A"))]),
        ([(0, 3, "A")], [(1, 5, "A")], [("boundary", (0, 3, "A"), (1, 5, "A"))]),
        ([(0, 3, "A")], [(0, 3, "B")], [("type", (0, 3, "A"), (0, 3, "B"))]),
        ([(0, 3, "A")], [(1, 5, "B")], [("boundary-and-type", (0, 3, "A"), (1, 5, "B"))]),
        # Touching is not overlapping.
        ([(0, 3, "A")], [(3, 5, "A")], [("missed", (0, 3, "A"), None), ("invented", None, (3, 5, "A"))]),
        # One prediction over two mentions finds one of them: the one it shares more with.
        (
            [(0, 2, "A"), (3, 7, "A")],
            [(0, 7, "A")],
            [("missed", (0, 2, "A"), None), ("boundary", (3, 7, "A"), (0, 7, "A"))],
        ),
        # The same type comes before the same characters.
        (
            [(0, 3, "A")],
            [(0, 3, "B"), (0, 4, "A")],
            [("boundary", (0, 3, "A"), (0, 4, "A")), ("invented", None, (0, 3, "B"))],
        ),
        # A label the card does not list counts for nothing; what is said twice counts once.
        ([(0, 3, "X"), (5, 6, "A"), (5, 6, "A")], [(5, 6, "A")], [("correct", (5, 6, "A"), (5, 6, "A"))]),
    ],
)
def test_mentions_by_hand(gold, predicted, expected):
    found = errors_of(card("tagging"), [document(*gold)], [document(*predicted)]).findings
    assert told(found) == sorted(expected, key=lambda row: ((row[1] or row[2])[0], (row[1] or row[2])[1:]))


def test_a_greedy_choice_gives_way_where_one_more_pair_can_be_made():
    """The largest overlap is that of the first mention with the long prediction; taking it would leave two alone."""
    gold = document((0, 6, "A"), (8, 10, "A"))
    predicted = document((0, 1, "A"), (1, 10, "A"))
    found = errors_of(card("tagging"), [gold], [predicted]).findings
    assert [finding.outcome for finding in found] == [MatchOutcome.BOUNDARY, MatchOutcome.BOUNDARY]
    assert told(found)[0][2] == (0, 1, "A")


def test_fragments_that_touch_are_the_same_mention_and_the_best_score_counts():
    gold = Document("d", TEXT, (Span(((0, 2), (2, 4)), "A", id="T1"),))
    twice = tuple(Span.at(0, 4, "A", id=f"T{i}", score=s) for i, s in enumerate((0.2, 0.9)))
    (finding,) = errors_of(card("tagging"), [gold], [Document("d", TEXT, twice)]).findings
    assert finding.outcome is MatchOutcome.CORRECT
    assert finding.predicted.score == 0.9


SPANS = st.lists(
    st.tuples(st.integers(0, 18), st.integers(1, 8), st.sampled_from("ABC")).map(
        lambda t: (t[0], min(t[0] + t[1], 20), t[2])
    ),
    max_size=7,
)


@SETTINGS
@given(st.lists(st.tuples(SPANS, SPANS), min_size=1, max_size=3))
def test_findings_part_gold_and_predictions_and_add_up_to_the_scorers_numbers(pairs):
    kind_card = card("tagging")
    gold = [document(*want).with_(id=str(i)) for i, (want, _) in enumerate(pairs)]
    predicted = [document(*have, score=0.5).with_(id=str(i)) for i, (_, have) in enumerate(pairs)]
    found = errors_of(kind_card, gold, predicted).findings
    for side, records in (("gold", gold), ("predicted", predicted)):
        answers = [
            (f.record, getattr(f, side).extents[0][0], getattr(f, side).label) for f in found if getattr(f, side)
        ]
        wanted = {(i, s.fragments[0], s.label) for i, r in enumerate(records) for s in r.spans if s.label in "AB"}
        assert len(answers) == len(set(answers))
        assert set(answers) == wanted
    counts = outcomes(found)
    scored = score(kind_card, kind_card.protocol_named(), gold, predicted).details["micro"]
    assert counts[MatchOutcome.CORRECT] == scored["tp"]
    assert sum(1 for f in found if f.predicted and f.outcome is not MatchOutcome.CORRECT) == scored["fp"]
    assert sum(1 for f in found if f.gold and f.outcome is not MatchOutcome.CORRECT) == scored["fn"]
    partial = score_spans(gold, predicted, labels=kind_card.labels, match="partial").micro
    assert counts[MatchOutcome.CORRECT] + counts[MatchOutcome.BOUNDARY] / 2 == partial.tp
    again = errors_of(
        kind_card, [d.with_(spans=d.spans[::-1]) for d in gold], [d.with_(spans=d.spans[::-1]) for d in predicted]
    )
    assert told(again.findings) == told(found)


def related(*relations: tuple[str, str, str]) -> Document:
    spans = tuple(Span.at(i * 2, i * 2 + 1, "E", id=f"T{i}") for i in range(4))
    return Document("d", TEXT, spans, tuple(Relation(label, a, b, score=0.7) for label, a, b in relations))


def test_relations_by_hand():
    kind_card = card("relation", pairs=(("E", "E"),))
    gold = related(("A", "T0", "T1"), ("A", "T1", "T2"), ("A", "T2", "T3"))
    predicted = related(("A", "T0", "T1"), ("B", "T1", "T2"), ("B", "T3", "T2"))
    found = errors_of(kind_card, [gold], [predicted]).findings
    assert [(f.outcome.value, (f.gold or f.predicted).arguments) for f in found] == [
        ("correct", ("T0", "T1")),
        ("type", ("T1", "T2")),
        ("missed", ("T2", "T3")),
        ("invented", ("T3", "T2")),
    ]
    symmetric = card("relation", pairs=(("E", "E"),), symmetric=True)
    assert outcomes(errors_of(symmetric, [gold], [predicted]).findings)[MatchOutcome.TYPE] == 2


RELATIONS = st.lists(
    st.tuples(st.sampled_from("ABX"), st.sampled_from(["T0", "T1", "T2"]), st.sampled_from(["T0", "T1", "T2"])),
    max_size=8,
)


@SETTINGS
@given(RELATIONS, RELATIONS, st.booleans())
def test_relations_add_up_to_the_scorers_numbers(gold, predicted, symmetric):
    kind_card = card("relation", pairs=(("E", "E"),), symmetric=symmetric)
    want, have = [related(*gold)], [related(*predicted)]
    found = errors_of(kind_card, want, have).findings
    scored = score(kind_card, kind_card.protocol_named(), want, have).details["micro"]
    assert outcomes(found)[MatchOutcome.CORRECT] == scored["tp"]
    assert sum(1 for f in found if f.predicted) == scored["tp"] + scored["fp"]
    assert sum(1 for f in found if f.gold) == scored["tp"] + scored["fn"]


def labelled(*labels: str, **scores: float) -> Document:
    return Document("d", TEXT, labels=labels, scores=scores)


def qualified(*mentions: tuple[int, int, str]) -> Document:
    spans = (Span.at(a, b, "E", attributes=dict.fromkeys(names.split(), "yes")) for a, b, names in mentions)
    return Document("d", TEXT, tuple(spans))


def test_attributes_by_hand():
    kind_card = card("attributes")
    gold = [qualified((0, 1, "A"), (2, 3, "A"), (4, 5, ""), (6, 7, "A B"), (8, 9, ""))]
    predicted = [qualified((0, 1, "A"), (2, 3, "B"), (4, 5, "B"), (6, 7, "B"), (8, 9, ""), (10, 11, "A"))]
    found = errors_of(kind_card, gold, predicted)
    assert told(found.findings) == [
        ("correct", (0, 1, "A"), (0, 1, "A")),
        ("type", (2, 3, "A"), (2, 3, "B")),
        ("invented", None, (4, 5, "B")),
        ("correct", (6, 7, "B"), (6, 7, "B")),
        ("missed", (6, 7, "A"), None),
    ]
    metrics = score(kind_card, kind_card.protocol_named(), gold, predicted).metrics
    assert (metrics["precision"], metrics["recall"], metrics["accuracy"]) == (2 / 4, 2 / 4, 2 / 5)


def test_classes_by_hand():
    kind_card = card("classification", metric="accuracy")
    gold = [labelled("A"), labelled("A"), labelled("B")]
    predicted = [labelled("A", A=0.9), labelled("B", B=0.8), labelled("B", B=0.6)]
    found = errors_of(kind_card, gold, predicted)
    assert [f.outcome for f in found.findings] == [MatchOutcome.CORRECT, MatchOutcome.TYPE, MatchOutcome.CORRECT]
    assert confusions(found.findings) == {("A", "A"): 1, ("A", "B"): 1, ("B", "B"): 1}
    assert confidences(found.findings) == ([0.9, 0.8, 0.6], [True, False, True])
    assert len(found.wrong) / 3 == pytest.approx(1 - score(kind_card, kind_card.protocol_named(), gold, predicted).main)


LABELS = st.lists(st.sets(st.sampled_from("ABC")), min_size=1, max_size=6)


@SETTINGS
@given(LABELS, st.sampled_from(["all", "labelled"]), st.data())
def test_labels_add_up_to_the_scorers_numbers(gold, records, data):
    kind_card = card("multilabel", ("A", "B", "C"), protocol={"records": records})
    if records == "labelled" and not any(gold):
        gold[0] = {"A"}
    predicted = [data.draw(st.sets(st.sampled_from("ABC"))) for _ in gold]
    want, have = [labelled(*sorted(x)) for x in gold], [labelled(*sorted(x)) for x in predicted]
    found = outcomes(errors_of(kind_card, want, have).findings)
    scored = score(kind_card, kind_card.protocol_named(), want, have).details["micro"]
    assert (found[MatchOutcome.CORRECT], found[MatchOutcome.INVENTED], found[MatchOutcome.MISSED]) == (
        scored["tp"],
        scored["fp"],
        scored["fn"],
    )


def test_residuals_are_predicted_minus_gold():
    kind_card = card("regression", (), metric="pearson", record="pair")
    gold = [TextPair("1", "a", "b", value=4.0), TextPair("2", "a", "b", value=1.0)]
    predicted = [gold[0].with_(value=3.0), gold[1].with_(value=1.5)]
    found = errors_of(kind_card, gold, predicted)
    assert [residual.difference for residual in found.residuals] == [-1.0, 0.5]
    assert found.findings == ()
