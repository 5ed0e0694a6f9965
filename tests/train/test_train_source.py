from __future__ import annotations

import pytest
import torch

from osler.train.mixing import mix
from osler.train.parallel import World
from osler.train.source import Batch, EpochSource, move, packed_batches


def source(sizes, accumulate):
    return EpochSource(
        lambda epoch: [(epoch, index) for index in range(sizes[epoch % len(sizes)])],
        lambda ref: Batch(ref, 1.0, 1),
        epochs=3,
        accumulate=accumulate,
    )


def test_epochs_of_different_lengths_are_cut_into_steps():
    plan = source([5, 2, 4], 2)
    assert len(plan) == 3 + 1 + 2
    flat = [ref for step in range(len(plan)) for ref in plan.step(step)]
    assert flat == [(0, i) for i in range(5)] + [(1, i) for i in range(2)] + [(2, i) for i in range(4)]
    assert plan.step(2) == [(0, 4)]
    assert plan.step(6) == [(3, 0), (3, 1)]  # more steps than planned run on into the next epoch


def test_a_step_does_not_depend_on_those_asked_before():
    forward, backward = source([5, 2, 4], 2), source([5, 2, 4], 2)
    ahead = [forward.step(index) for index in range(6)]
    assert [backward.step(index) for index in reversed(range(6))] == ahead[::-1]


def test_an_empty_epoch_is_refused():
    with pytest.raises(ValueError, match="without batches"):
        len(source([0], 1))


def test_two_tasks_from_lengths_to_steps():
    """The parts fit: budgets make each task's batches, mixing orders them, epochs cut them into steps."""
    lengths = {"a": [7] * 30, "b": [3] * 8}

    def order(epoch):
        cut = {task: packed_batches(sizes, 21, 1, epoch) for task, sizes in lengths.items()}
        turns = mix("proportional", {task: len(batches) for task, batches in cut.items()}, 1, epoch).order
        return [(task, cut[task][index]) for task, index in turns]

    plan = EpochSource(order, lambda ref: Batch(ref, 1.0, 1), epochs=2, accumulate=4)
    for first, last in ((0, len(plan) // 2), (len(plan) // 2, len(plan))):
        seen = [(task, index) for step in range(first, last) for task, batch in plan.step(step) for index in batch]
        assert sorted(seen) == [("a", i) for i in range(30)] + [("b", i) for i in range(8)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_ranks_share_every_micro_batch_once_in_equally_many_passes(size, count):
    refs = [f"ref{index}" for index in range(count)]
    shares = [World(rank, size).share(refs) for rank in range(size)]
    assert len({len(share) for share in shares}) == 1
    counted = sorted((share.index, share.ref) for each in shares for share in each if share.counts)
    assert counted == list(enumerate(refs))
    assert all(share.ref in refs for each in shares for share in each)


def test_payloads_move_whatever_their_shape():
    class Packed:
        def to(self, device):
            return ("packed", device)

    device = torch.device("meta")
    moved = move({"a": torch.zeros(2), "b": (torch.ones(1), [Packed()]), "head": "ner"}, device)
    assert moved["a"].device == moved["b"][0].device == device
    assert moved["b"][1] == [("packed", device)]
    assert moved["head"] == "ner"
