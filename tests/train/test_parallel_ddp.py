from __future__ import annotations

from pathlib import Path

import ddp_worker
import pytest
from two_processes import assert_same_run, notes, run_by_two


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The same runs by one process (here) and by two (torchrun, gloo), and runs that changed hands half-way."""
    out = tmp_path_factory.mktemp("ddp")
    ddp_worker.run(out / "one")
    ddp_worker.run(out / "started-by-one", stop=6)
    run_by_two(ddp_worker.__file__, out)
    ddp_worker.run(out / "started-by-two")
    return out


def test_samples_come_in_the_same_order(runs):
    everything = [[step, place] for step in range(ddp_worker.STEPS) for place in range(3)]
    assert notes(runs, "one")["loaded"] == everything
    for rank in (0, 1):
        shares = [[[step, 0], [step, 2]] if rank == 0 else [[step, 1], [step, 0]] for step in range(ddp_worker.STEPS)]
        assert notes(runs, "straight", rank)["loaded"] == [ref for share in shares for ref in share]


def test_loss_curve_and_weights_equal_those_of_one_process(runs):
    assert_same_run(runs / "one", runs / "straight")
    assert_same_run(runs / "one", runs / "straight", rank=1)
    assert notes(runs, "straight", 1)["summary"] == notes(runs, "one")["summary"]
    assert notes(runs, "one")["summary"][1:3] == [12, 1.0]


def test_only_the_first_rank_evaluates_and_both_skip_together(runs):
    assert notes(runs, "straight", 0)["evaluated"] == [3, 6, 9, 12, 14]
    assert notes(runs, "straight", 1)["evaluated"] == []
    assert notes(runs, "straight", 0)["summary"][-1] == notes(runs, "straight", 1)["summary"][-1] == 1


def test_no_thread_of_the_group_outlives_it(runs):
    """One that does aborts the process at exit, now and then, after all the work is done."""
    for rank in (0, 1):
        assert "gloo" not in (runs / f"threads-{rank}").read_text()


@pytest.mark.parametrize("name", ["started-by-two", "started-by-one"])
def test_the_number_of_processes_can_change_on_the_way(runs, name):
    assert notes(runs, name)["loaded"][0] == [4, 0]  # from the checkpoint at step 4
    assert_same_run(runs / "one", runs / name)
