"""Annotation in Python uses the same engine as the command line, with the same demands."""

from __future__ import annotations

import pickle

import pytest

import osler
from osler.core.errors import InputError, RecipeError

TEXT = "Aspirin 81 mg daily for chest pain."


def test_thresholds_leave_out_what_scores_lower(bundle):
    plain = osler.load(bundle, device="cpu", language="en", heads=["drugs"])(TEXT)
    scores = sorted(span.score for span in plain.spans)
    assert len(scores) > 1
    limit = scores[len(scores) // 2]
    high = osler.load(bundle, device="cpu", language="en", heads=["drugs"], min_score=limit)(TEXT)
    assert [span for span in plain.spans if span.score >= limit] == list(high.spans)
    label = plain.spans[0].label
    without = osler.load(bundle, device="cpu", language="en", heads=["drugs"], thresholds={label: 1.0})(TEXT)
    assert [span for span in plain.spans if span.label != label] == list(without.spans)


def test_what_cannot_be_met_is_told_when_the_bundle_is_loaded_in_the_words_of_python(bundle):
    with pytest.raises(RecipeError, match="does not say what it finds on dev") as caught:
        osler.load(bundle, device="cpu", heads=["drugs"], target_recall=0.9)
    assert "--" not in str(caught.value)
    with pytest.raises(RecipeError, match="contradict"):
        osler.load(bundle, device="cpu", min_score=0.5, target_recall=0.9)
    assert "not calibrated" in osler.load(bundle, device="cpu", heads=["drugs"], min_score=0.5).costs[0]


def test_a_copy_of_an_annotator_gives_the_same_results(bundle):
    annotator = osler.load(bundle, device="cpu", language="en")
    assert pickle.loads(pickle.dumps(annotator))(TEXT) == annotator(TEXT)


def test_a_batch_without_texts_is_refused_instead_of_dropping_all(bundle, pair_bundle):
    for size in (0, -1):
        with pytest.raises(InputError, match=f"batch_size is {size}"):
            list(osler.load(bundle, device="cpu").pipe([TEXT], batch_size=size))
        with pytest.raises(InputError, match=f"batch_size is {size}"):
            list(osler.load(pair_bundle, device="cpu").pairs([("a", "b")], batch_size=size))


def test_one_head_without_a_list_is_told(bundle):
    with pytest.raises(RecipeError, match="heads= must be a list of names, not 'drugs'"):
        osler.load(bundle, device="cpu", heads="drugs")


def test_it_shows_its_heads(bundle):
    assert repr(osler.load(bundle, device="cpu", heads=["drugs"])) == "Annotator(heads=['drugs'])"


def test_pairs_are_numbered_in_batches(pair_bundle):
    annotator = osler.load(pair_bundle, device="cpu")
    found = list(annotator.pairs([("a fever", "no fever")] * 5, batch_size=2))
    assert [pair.id for pair in found] == ["1", "2", "3", "4", "5"]
