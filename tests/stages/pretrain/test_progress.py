from __future__ import annotations

import math

import numpy as np
import pytest

from osler.stages.pretrain.progress import PlateauWatch, unigram_entropy


def test_the_entropy_is_that_of_the_frequencies():
    parts = [np.array([0, 0, 1, 1], dtype=np.uint16), np.array([2, 2, 3, 3], dtype=np.uint16)]
    assert unigram_entropy(parts, 10) == pytest.approx(math.log(4))
    assert unigram_entropy(parts, 10, limit=4) == pytest.approx(math.log(2))


def follow(losses: list[float], entropy: float = 7.6, every: int = 10) -> PlateauWatch:
    watch = PlateauWatch(entropy)
    for number, loss in enumerate(losses):
        watch.see(every * (number + 1), loss)
    return watch


def test_a_run_that_stays_at_the_frequencies_is_noticed_once(caplog):
    falling = list(np.linspace(10.5, 7.6, 20))
    watch = follow([*falling, *[7.56 + 0.01 * (n % 3) for n in range(60)]])
    assert watch.found_at is not None
    assert watch.found_at > 200
    [record] = [record for record in caplog.records if "unigram_plateau" in record.message]
    assert "train.lr" in record.sentence


def test_a_run_that_learns_is_left_alone():
    falling = list(np.linspace(10.5, 7.6, 20))
    assert follow([*falling, *np.linspace(7.6, 5.0, 60)]).found_at is None
    assert follow([*np.linspace(10.5, 4.0, 40), *[3.0] * 60]).found_at is None  # converged far below


def test_loss_lines_without_a_value_are_passed_over():
    watch = PlateauWatch(7.6)
    watch.see(10, None)
    assert watch.found_at is None


@pytest.mark.parametrize(("every", "noticed"), [(1, 181), (25, 225), (50, 400), (100, 800), (500, 4000)])
def test_it_is_noticed_however_seldom_losses_are_logged(every, noticed):
    assert follow([7.58] * 300, every=every).found_at == noticed
    assert follow([*np.linspace(10.5, 7.6, 20), *np.linspace(7.6, 5.0, 60)], every=every).found_at is None
