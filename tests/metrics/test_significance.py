from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from osler.core.errors import InputError
from osler.metrics.classification import score_classes
from osler.metrics.correlation import decomposed_pearson, pearson
from osler.metrics.scores import Decomposed, mean_of
from osler.metrics.significance import bootstrap_interval, holm, paired_bootstrap, summarise
from osler.metrics.spans import score_spans
from osler.text.document import Document, Span


def run(quality: float, seed: int, documents: int = 80) -> Decomposed:
    """Micro-F1 of a made-up tagger that finds each of some mentions with probability `quality`."""
    rng = np.random.default_rng(seed)
    text = "x" * 100
    gold = [
        Document(str(i), text, tuple(Span.at(10 * k, 10 * k + 5, "AB"[k % 2]) for k in range(1 + i % 6)))
        for i in range(documents)
    ]
    predicted = [d.with_(spans=tuple(s for s in d.spans if rng.random() < quality)) for d in gold]
    return score_spans(gold, predicted).f1()


def test_the_decomposed_score_is_the_score() -> None:
    gold = [Document(str(i), "abcdef", (Span.at(i % 3, 4, "AB"[i % 2]),)) for i in range(7)]
    predicted = [d.with_(spans=(Span.at(1, 4, "A"),)) for d in gold]
    scores = score_spans(gold, predicted)
    assert scores.f1("micro").value == pytest.approx(scores.micro.f1)
    assert scores.f1("macro").value == pytest.approx(scores.macro_f1)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_draws_equal_scoring_the_drawn_documents(average: str) -> None:
    """The vectorised path against the plain one: draw documents, score them again from their spans."""
    rng = np.random.default_rng(3)
    gold = [Document(str(i), "x" * 50, tuple(Span.at(k, k + 2, "ABC"[k % 3]) for k in range(i % 5))) for i in range(20)]
    predicted = [d.with_(spans=tuple(Span.at(s.start, s.end, "ABC"[rng.integers(3)]) for s in d.spans)) for d in gold]
    scores = score_spans(gold, predicted)
    decomposed = scores.f1(average)  # type: ignore[arg-type]
    for _ in range(20):
        picked = rng.integers(0, 20, size=20)
        weights = np.bincount(picked, minlength=20).astype(float)
        plain = score_spans([gold[i] for i in picked], [predicted[i] for i in picked], labels=scores.labels)
        want = plain.micro.f1 if average == "micro" else plain.macro_f1
        assert float(decomposed.score(weights @ decomposed.rows)) == pytest.approx(want)


def test_pearson_draws_equal_scoring_the_drawn_pairs() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(3, 1, 30)
    y = x + rng.normal(0, 1, 30)
    decomposed = decomposed_pearson(x.tolist(), y.tolist())
    for _ in range(20):
        picked = rng.integers(0, 30, size=30)
        weights = np.bincount(picked, minlength=30).astype(float)
        want = pearson(x[picked].tolist(), y[picked].tolist())
        assert float(decomposed.score(weights @ decomposed.rows)) == pytest.approx(want)


def test_the_interval_of_a_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).normal(0.8, 0.05, 60)
    ours = bootstrap_interval([mean_of(values.tolist())], seed=4)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=7).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, abs=1e-3)
    assert ours.high == pytest.approx(theirs.high, abs=1e-3)


def test_the_p_value_of_paired_means_is_close_to_a_t_test() -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(0.5, 0.2, 200)
    b = a - rng.normal(0.03, 0.2, 200)
    ours = paired_bootstrap([mean_of(a.tolist())], [mean_of(b.tolist())], seed=1)
    assert ours.difference == pytest.approx((a - b).mean())
    assert ours.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=0.02)


def test_equal_systems_do_not_differ_and_better_ones_do() -> None:
    same = paired_bootstrap([run(0.8, 1)], [run(0.8, 1)])
    assert (same.difference, same.p_value, same.excludes_zero) == (0, 1, False)
    better = paired_bootstrap([run(0.95, 1)], [run(0.6, 2)])
    assert better.difference > 0
    assert better.excludes_zero
    assert better.p_value < 0.001
    worse = paired_bootstrap([run(0.6, 2)], [run(0.95, 1)])
    assert worse.difference == pytest.approx(-better.difference)
    assert (worse.low, worse.high) == pytest.approx((-better.high, -better.low))


def test_the_same_seed_gives_the_same_numbers_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    first = paired_bootstrap([run(0.8, 1)], [run(0.75, 2)], resamples=500, seed=9)
    monkeypatch.setattr("osler.metrics.significance._CELLS", 80 * 7)
    assert paired_bootstrap([run(0.8, 1)], [run(0.75, 2)], resamples=500, seed=9) == first
    assert paired_bootstrap([run(0.8, 1)], [run(0.75, 2)], resamples=500, seed=10) != first


def test_seeds_widen_the_interval() -> None:
    lucky = [run(quality, seed) for seed, quality in enumerate((0.6, 0.8, 0.95))]
    steady = [lucky[1]] * 3
    spread, narrow = bootstrap_interval(lucky), bootstrap_interval(steady)
    assert spread.value == pytest.approx(np.mean([r.value for r in lucky]))
    assert spread.low < spread.value - 0.03
    assert spread.high > spread.value + 0.03
    assert spread.high - spread.low > 1.5 * (narrow.high - narrow.low)
    alone = bootstrap_interval([lucky[1]])
    assert (narrow.low, narrow.high) == pytest.approx((alone.low, alone.high))


def test_systems_may_have_different_numbers_of_seeds_but_not_of_documents() -> None:
    result = paired_bootstrap([run(0.8, 1), run(0.8, 2)], [run(0.5, s) for s in range(3)])
    assert result.excludes_zero
    with pytest.raises(InputError, match="70, 80"):
        paired_bootstrap([run(0.8, 1)], [run(0.8, 1, documents=70)])


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Accuracy of a classifier that is right 70 % of the time: 200 samples of 100 items."""
    rng = np.random.default_rng(11)
    held = 0
    for sample in range(200):
        right = rng.random(100) < 0.7
        scores = score_classes(["a"] * 100, ["a" if r else "b" for r in right])
        interval = bootstrap_interval([scores.decomposed_accuracy()], resamples=400, seed=sample)
        held += interval.low <= 0.7 <= interval.high
    assert 0.88 <= held / 200 <= 0.99


def test_holm_by_hand() -> None:
    # 0.01 * 4, then 0.02 * 3 = 0.06, then 0.03 * 2 = 0.06, then max(0.06, 0.5).
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([]) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_never_lowers(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(low <= high <= 1 for low, high in zip(p_values, adjusted, strict=True))
    for i, p in enumerate(p_values):
        for j, q in enumerate(p_values):
            if p < q:
                assert adjusted[i] <= adjusted[j]
    gentler = stats.false_discovery_control(p_values, method="bh")
    assert all(a >= b - 1e-12 for a, b in zip(adjusted, gentler, strict=True))


def test_summaries() -> None:
    values = [0.7, 0.9, 0.8, 0.85]
    summary = summarise(values)
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.std == pytest.approx(stats.tstd(values))
    assert summary.median == pytest.approx(0.825)
    assert (summary.n, summary.low, summary.high) == (4, 0.7, 0.9)
    assert summarise([0.5]).std == 0
    with pytest.raises(InputError, match="at least one document"):
        mean_of([])
