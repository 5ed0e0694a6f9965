from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from osler.core.errors import InputError
from osler.metrics.spans import overlapping_pairs, score_spans
from osler.text.document import Document, Span

TEXT = "x" * 40
SETTINGS = settings(max_examples=60, deadline=None)


def doc(*spans: Span, name: str = "d") -> Document:
    return Document(name, TEXT, spans)


def spans() -> st.SearchStrategy[Span]:
    return st.builds(
        lambda start, length, label: Span.at(start, start + length, label),
        st.integers(0, 30),
        st.integers(1, 8),
        st.sampled_from(["A", "B"]),
    )


def corpora(n: int = 3) -> st.SearchStrategy[list[Document]]:
    side = st.lists(st.lists(spans(), max_size=6), min_size=n, max_size=n)
    return side.map(lambda parts: [doc(*part, name=f"d{i}") for i, part in enumerate(parts)])


def test_exact_by_hand() -> None:
    gold = [doc(Span.at(0, 4, "A"), Span.at(6, 9, "B")), doc(Span.at(1, 2, "A"))]
    predicted = [doc(Span.at(0, 4, "A"), Span.at(6, 9, "A")), doc()]
    scores = score_spans(gold, predicted)
    assert (scores.micro.tp, scores.micro.fp, scores.micro.fn) == (1, 1, 2)
    assert scores.per_label["A"].f1 == pytest.approx(0.5)
    assert scores.per_label["B"].f1 == 0
    assert scores.macro_f1 == pytest.approx(0.25)
    assert scores.as_dict()["micro"]["precision"] == pytest.approx(0.5)


def test_a_mention_given_twice_counts_once() -> None:
    gold = [doc(Span.at(0, 4, "A"))]
    predicted = [doc(Span.at(0, 4, "A", id="T1"), Span.at(0, 4, "A", id="T2", score=0.3))]
    assert score_spans(gold, predicted).micro.f1 == 1


def test_discontinuous_mentions_compare_by_all_their_characters() -> None:
    gold = [doc(Span(((0, 4), (8, 10)), "A"))]
    assert score_spans(gold, [doc(Span(((0, 4), (8, 10)), "A"))]).micro.f1 == 1
    assert score_spans(gold, [doc(Span.at(0, 10, "A"))]).micro.f1 == 0
    touching = [doc(Span(((0, 4), (4, 10)), "A"))]
    assert score_spans(touching, [doc(Span.at(0, 10, "A"))]).micro.f1 == 1


def test_labels_limit_what_counts() -> None:
    gold = [doc(Span.at(0, 4, "A"), Span.at(6, 9, "B"))]
    scores = score_spans(gold, [doc(Span.at(0, 4, "A"))], labels=["A", "C"])
    assert scores.micro.f1 == 1
    assert scores.macro_f1 == pytest.approx(0.5)


def test_partial_gives_half_a_point() -> None:
    gold = [doc(Span.at(0, 4, "A"), Span.at(10, 14, "A"), Span.at(20, 24, "A"))]
    predicted = [doc(Span.at(0, 4, "A"), Span.at(11, 16, "A"), Span.at(20, 24, "B"))]
    partial = score_spans(gold, predicted, match="partial").per_label["A"]
    assert (partial.tp, partial.fp, partial.fn) == (1.5, 0.5, 1.5)


def test_one_prediction_finds_one_mention() -> None:
    gold = [doc(Span.at(0, 4, "A"), Span.at(6, 9, "A"))]
    partial = score_spans(gold, [doc(Span.at(0, 9, "A"))], match="partial").micro
    assert (partial.tp, partial.fp, partial.fn) == (0.5, 0.5, 1.5)


def test_overlap_pairs_as_many_as_possible() -> None:
    assert overlapping_pairs({((0, 10),), ((8, 20),)}, {((9, 11),), ((0, 2),)}) == 2


def test_overlap_pairs_agree_with_scipy_on_any_tangle() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        sides = [
            sorted(
                {
                    (int(s), int(s) + int(n))
                    for s, n in zip(rng.integers(0, 25, 12), rng.integers(1, 9, 12), strict=True)
                }
            )
            for _ in range(2)
        ]
        graph = csr_array([[int(a < d and c < b) for c, d in sides[1]] for a, b in sides[0]])
        want = int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())
        gold, predicted = ({(place,) for place in side} for side in sides)
        assert overlapping_pairs(gold, predicted) == want


def test_a_thousand_mentions_that_all_overlap() -> None:
    gold, predicted = {((0, 1000 + i),) for i in range(1000)}, {((i, 2001),) for i in range(1000)}
    assert overlapping_pairs(gold, predicted) == 1000


def test_different_documents_are_refused_without_quoting_them() -> None:
    secret = Document("Patient Zebulon", "Zebulon came in")
    other = Document("Patient Zebulon", "Quentin came in")
    for gold, predicted in (([secret], [other]), ([secret], [Document("x", secret.text)]), ([secret], [])):
        with pytest.raises(InputError) as error:
            score_spans(gold, predicted)
        assert "Zebulon" not in str(error.value)
        assert "Quentin" not in str(error.value)


def test_nothing_to_find_and_nothing_found_scores_zero_as_conlleval_does() -> None:
    scores = score_spans([doc()], [doc()])
    assert scores.micro.f1 == 0
    assert scores.macro_f1 == 0


@SETTINGS
@given(corpora())
def test_a_perfect_prediction_scores_one(gold: list[Document]) -> None:
    for match in ("exact", "partial"):
        scores = score_spans(gold, gold, match=match)  # type: ignore[arg-type]
        if any(document.spans for document in gold):
            assert scores.micro.precision == scores.micro.recall == scores.micro.f1 == 1
            assert scores.macro_f1 == 1


@SETTINGS
@given(corpora(), corpora())
def test_exchanging_the_sides_exchanges_precision_and_recall(gold: list[Document], predicted: list[Document]) -> None:
    for match in ("exact", "partial"):
        there = score_spans(gold, predicted, match=match).micro  # type: ignore[arg-type]
        back = score_spans(predicted, gold, match=match).micro  # type: ignore[arg-type]
        assert there.precision == pytest.approx(back.recall)
        assert there.f1 == pytest.approx(back.f1)


@SETTINGS
@given(corpora(), corpora(), st.permutations(range(3)))
def test_the_order_of_documents_and_spans_does_not_matter(
    gold: list[Document], predicted: list[Document], order: list[int]
) -> None:
    straight = score_spans(gold, predicted)
    turned = score_spans([gold[i].with_(spans=gold[i].spans[::-1]) for i in order], [predicted[i] for i in order])
    assert straight.per_label == turned.per_label
    np.testing.assert_array_equal(straight.counts[order], turned.counts)


@SETTINGS
@given(corpora(), corpora())
def test_laxer_matching_never_scores_less(gold: list[Document], predicted: list[Document]) -> None:
    exact, partial = (
        score_spans(gold, predicted, match=match).micro.f1  # type: ignore[arg-type]
        for match in ("exact", "partial")
    )
    assert exact <= partial + 1e-12
