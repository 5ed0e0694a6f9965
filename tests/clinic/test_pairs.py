"""Sentence pairs are reproducible and balanced, and the hypothesis alone does not give the label away."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from osler.clinic import entailment_pairs, similarity_pairs
from osler.clinic.labels import ENTAILMENT_LABELS, LANGUAGES, SPLITS, Language
from osler.clinic.pairs import FAMILIES, similarity
from osler.text.document import TextPair

BOTH = pytest.mark.parametrize("language", LANGUAGES)


@BOTH
@pytest.mark.parametrize("make", [entailment_pairs, similarity_pairs])
def test_pairs_are_stable_and_differ_between_splits(
    make: Callable[..., Iterator[TextPair]], language: Language
) -> None:
    long = list(make(60, language=language, seed=4, split="train"))
    assert list(make(9, language=language, seed=4, split="train")) == long[:9]
    texts = {(pair.first, pair.second) for pair in long}
    assert len(texts) == len(long)
    for split in SPLITS[1:]:
        assert not texts & {(pair.first, pair.second) for pair in make(60, language=language, seed=4, split=split)}
    assert all(pair.first.strip() == pair.first and pair.second.strip() == pair.second for pair in long)


@BOTH
def test_entailment_labels_are_balanced_and_in_every_family(language: Language) -> None:
    pairs = list(entailment_pairs(900, language=language, seed=4, split="dev"))
    assert Counter(pair.labels for pair in pairs) == {(label,): 300 for label in ENTAILMENT_LABELS}
    for family in FAMILIES:
        counts = Counter(pair.labels[0] for pair in pairs if pair.meta["family"] == family)
        assert set(counts) == set(ENTAILMENT_LABELS)


def _words(pair: TextPair) -> set[str]:
    return set(re.findall(r"\w+", pair.second.lower()))


@BOTH
def test_the_hypothesis_alone_does_not_tell_the_label(language: Language) -> None:
    train = list(entailment_pairs(1500, language=language, seed=4, split="train"))
    test = list(entailment_pairs(600, language=language, seed=4, split="test"))
    counts = {label: Counter[str]() for label in ENTAILMENT_LABELS}
    for pair in train:
        counts[pair.labels[0]].update(_words(pair))

    def guess(pair: TextPair) -> str:
        return max(counts, key=lambda label: sum(math.log(counts[label][word] + 1) for word in _words(pair)))

    right = sum(guess(pair) == pair.labels[0] for pair in test)
    assert right / len(test) < 0.45


@BOTH
def test_doses_and_thresholds_follow_arithmetic(language: Language) -> None:
    times = {"once": 1, "twice": 2, "three": 3, "four": 4, "una": 1, "dos": 2, "tres": 3, "cuatro": 4}
    checked = 0
    for pair in entailment_pairs(1200, language=language, seed=4, split="test"):
        if pair.meta["family"] != "dose" or pair.labels[0] == "neutral":
            continue
        amount = int(re.search(r"(\d+) mg", pair.first)[1])  # type: ignore[index]
        count = next(times[word] for word in re.findall(r"\w+", pair.first.split(" mg ", 1)[1]) if word in times)
        total = int(re.search(r"(\d+) mg", pair.second)[1])  # type: ignore[index]
        assert (amount * count == total) == (pair.labels[0] == "entailment")
        checked += 1
    assert checked > 20


@BOTH
def test_similarity_takes_every_half_from_0_to_5(language: Language) -> None:
    pairs = list(similarity_pairs(900, language=language, seed=4, split="test"))
    assert {pair.value for pair in pairs} == {half / 2 for half in range(11)}
    assert all(not pair.labels for pair in pairs)
    same = [pair for pair in pairs if pair.value == 5]
    assert all(pair.first != pair.second for pair in same)


@BOTH
def test_similar_pairs_share_more_words_but_words_do_not_decide(language: Language) -> None:
    def shared(pair: TextPair) -> float:
        first, second = (set(re.findall(r"\w+", text.lower())) for text in (pair.first, pair.second))
        return len(first & second) / len(first | second)

    pairs = list(similarity_pairs(900, language=language, seed=4, split="train"))
    close = [shared(pair) for pair in pairs if pair.value is not None and pair.value >= 4]
    far = [shared(pair) for pair in pairs if pair.value is not None and pair.value <= 1]
    assert sum(close) / len(close) > sum(far) / len(far) + 0.2
    assert min(close) < max(far)


def test_facts_of_one_kind_count_half() -> None:
    weights = {"drug": 6.0, "year": 4.0}
    facts = {"drug": ("metoprolol", "beta-blocker"), "year": ("2001", "400")}
    assert similarity(weights, facts, facts) == 5.0
    assert similarity(weights, facts, {**facts, "drug": ("atenolol", "beta-blocker")}) == 3.5
    assert similarity(weights, facts, {**facts, "drug": ("aspirin", "antiplatelet")}) == 2.0
    assert similarity(weights, facts, {"drug": ("aspirin", ""), "year": ("1999", "")}) == 0.0
