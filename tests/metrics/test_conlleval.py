from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2, IOBES

from osler.core.errors import InputError
from osler.metrics.conlleval import Scorer, chunks, score_tags
from osler.text import tags as text_tags
from osler.text.tags import Repair, Scheme

SETTINGS = settings(max_examples=100, deadline=None)


def sentences(prefixes: str, n: int) -> st.SearchStrategy[list[tuple[list[str], list[str]]]]:
    tag = st.sampled_from(["O", *(f"{p}-{t}" for p in prefixes if p != "O" for t in ("X", "Y"))])
    pair = st.integers(1, 9).flatmap(lambda k: st.tuples(*(st.lists(tag, min_size=k, max_size=k) for _ in range(2))))
    return st.lists(pair, min_size=1, max_size=n)


def seqeval_counts(gold: list[list[str]], predicted: list[list[str]], **more: object) -> tuple[float, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not any(tag != "O" for tags in gold + predicted for tag in tags):
            return 0.0, 0.0, 0.0
        found = (score(gold, predicted, zero_division=0, **more) for score in (precision_score, recall_score, f1_score))
        return tuple(float(value) for value in found)


def ours(gold: list[list[str]], predicted: list[list[str]], scorer: Scorer, scheme: Scheme) -> tuple[float, ...]:
    micro = score_tags(gold, predicted, scorer=scorer, scheme=scheme).micro
    return micro.precision, micro.recall, micro.f1


@SETTINGS
@given(sentences("BIO", 4))
def test_bio_agrees_with_seqeval_on_any_sequence(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    assert ours(gold, predicted, "conlleval", Scheme.BIO) == pytest.approx(seqeval_counts(gold, predicted))
    strict = seqeval_counts(gold, predicted, mode="strict", scheme=IOB2)
    assert ours(gold, predicted, "strict", Scheme.BIO) == pytest.approx(strict)


@SETTINGS
@given(sentences("BIOES", 4))
def test_bioes_agrees_with_seqeval_on_any_sequence(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    assert ours(gold, predicted, "conlleval", Scheme.BIOES) == pytest.approx(seqeval_counts(gold, predicted))
    strict = seqeval_counts(gold, predicted, mode="strict", scheme=IOBES)
    assert ours(gold, predicted, "strict", Scheme.BIOES) == pytest.approx(strict)


@SETTINGS
@given(sentences("BIO", 4))
def test_macro_agrees_with_seqeval(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    scores = score_tags(gold, predicted, scorer="conlleval")
    if scores.labels:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert scores.macro_f1 == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0))


@SETTINGS
@given(sentences("BIOES", 1))
def test_the_decoder_reads_tags_as_the_scorer_does(pairs: list[tuple[list[str], list[str]]]) -> None:
    tags = pairs[0][0]
    for scorer, repair in (("strict", Repair.STRICT), ("conlleval", Repair.CONLLEVAL)):
        read = [(label, tuple(range(a, b))) for a, b, label in text_tags.chunks(tags, Scheme.BIOES, repair)]
        assert chunks(tags, scorer, Scheme.BIOES) == read  # type: ignore[arg-type]


# What the CoNLL-2000 script does with improper sequences, worked out by hand from its rules for chunk starts and ends.
@pytest.mark.parametrize(
    ("tags", "conlleval", "strict"),
    [
        ("I-X I-X O", [("X", (0, 1))], []),
        ("O I-X O I-X", [("X", (1,)), ("X", (3,))], []),
        ("B-X I-Y I-Y", [("X", (0,)), ("Y", (1, 2))], [("X", (0,))]),
        ("B-X I-X I-Y", [("X", (0, 1)), ("Y", (2,))], [("X", (0, 1))]),
        ("B-X B-X I-X", [("X", (0,)), ("X", (1, 2))], [("X", (0,)), ("X", (1, 2))]),
        ("B-X I-X O I-X", [("X", (0, 1)), ("X", (3,))], [("X", (0, 1))]),
        ("I-X B-X", [("X", (0,)), ("X", (1,))], [("X", (1,))]),
    ],
)
def test_improper_bio_by_hand(tags: str, conlleval: list[object], strict: list[object]) -> None:
    assert chunks(tags.split(), "conlleval") == conlleval
    assert chunks(tags.split(), "strict") == strict


# The worked example of wada2020's repository: four sentences, positions 0-4, 6-11, 13-15 and 17-19.
GOLD = [s.split() for s in ("O O B I O", "O B I O I O", "B I I", "I I O")]
PREDICTED = [s.split() for s in ("O O B I O", "O B I O O O", "B I I", "I O I")]


def test_the_published_b_anchored_example() -> None:
    scores = score_tags(GOLD, PREDICTED, scorer="b-anchored")
    assert (scores.micro.tp, scores.micro.fp, scores.micro.fn) == (1, 2, 2)
    assert round(scores.micro.precision, 2) == round(scores.micro.recall, 2) == round(scores.micro.f1, 2) == 0.33
    assert chunks([t for s in GOLD for t in s], "b-anchored") == [
        ("", (2, 3)),
        ("", (6, 7, 9)),
        ("", (11, 12, 13, 14, 15)),
    ]


def test_the_other_scorers_on_the_same_example() -> None:
    # conlleval: gold 2-3 | 7-8, 10 | 13-15 | 17-18; predicted 2-3 | 7-8 | 13-15 | 17, 19.
    lenient = score_tags(GOLD, PREDICTED, scorer="conlleval").micro
    assert (lenient.tp, lenient.fp, lenient.fn) == (3, 2, 2)
    # strict: only chunks that begin with B.
    strict = score_tags(GOLD, PREDICTED, scorer="strict").micro
    assert (strict.tp, strict.fp, strict.fn) == (3, 0, 0)


def test_an_inside_tag_before_any_anchor_is_dropped() -> None:
    assert chunks(["I-X", "B-X", "I-Y", "I-X"], "b-anchored") == [("X", (1, 3))]


def test_bad_tags_are_refused_without_quoting_them() -> None:
    with pytest.raises(InputError, match="tag 2") as error:
        score_tags([["O", "Zebulon"]], [["O", "O"]])
    assert "Zebulon" not in str(error.value)
    with pytest.raises(InputError, match="sequence 1"):
        score_tags([["O", "O"]], [["O"]])
    with pytest.raises(InputError, match="unknown scorer"):
        chunks(["O"], "lenient")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="BIO tag"):
        chunks(["S-X"], "strict", Scheme.BIO)
