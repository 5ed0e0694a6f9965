from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from osler.core.errors import InputError
from osler.metrics.classification import score_classes, score_multilabel

CLASSES = ["CPR:3", "CPR:4", "false"]
SETTINGS = settings(max_examples=60, deadline=None)
PAIRS = st.lists(st.tuples(*(st.sampled_from(CLASSES) for _ in range(2))), min_size=1, max_size=40)


@SETTINGS
@given(PAIRS)
def test_classes_agree_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    scores = score_classes(gold, predicted)
    positives = score_classes(gold, predicted, labels=CLASSES, ignore={"false"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert scores.accuracy == pytest.approx(sk.accuracy_score(gold, predicted))
        assert scores.micro.f1 == pytest.approx(scores.accuracy)
        assert scores.macro_f1 == pytest.approx(sk.f1_score(gold, predicted, average="macro", zero_division=0))
        for average, ours in (("micro", positives.micro.f1), ("macro", positives.macro_f1)):
            want = sk.f1_score(gold, predicted, labels=CLASSES[:2], average=average, zero_division=0)
            assert ours == pytest.approx(want)
    assert scores.decomposed_accuracy().value == pytest.approx(scores.accuracy)


@SETTINGS
@given(st.lists(st.tuples(*(st.sets(st.sampled_from("abc")) for _ in range(2))), min_size=1, max_size=20))
def test_multilabel_agrees_with_scikit_learn(pairs: list[tuple[set[str], set[str]]]) -> None:
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    scores = score_multilabel(gold, predicted, labels=list("abc"))
    y, z = (np.array([[name in names for name in "abc"] for names in side]) for side in (gold, predicted))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert scores.micro.f1 == pytest.approx(sk.f1_score(y, z, average="micro", zero_division=0))
        assert scores.macro_f1 == pytest.approx(sk.f1_score(y, z, average="macro", zero_division=0))
        assert scores.accuracy == pytest.approx(sk.accuracy_score(y, z))
        for index, name in enumerate("abc"):
            assert scores.per_label[name].recall == pytest.approx(
                sk.recall_score(y[:, index], z[:, index], zero_division=0)
            )
    assert scores.as_dict()["accuracy"] == scores.accuracy


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError):
        score_classes(["a"], [])
    with pytest.raises(InputError):
        score_multilabel([{"a"}], [])
