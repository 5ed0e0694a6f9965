"""Outputs do not depend on the batch: with torch to the last bit, and with any other runner one by one if need be."""

from __future__ import annotations

import multiprocessing
import os
import random

import numpy as np
import pytest
import torch
from encoders import preset_encoder

from osler.artifacts.runner import SteadyRunner, TorchRunner, run_heads
from osler.nn.multihead import MultiHeadModel
from osler.nn.presets import PRESETS
from osler.tasks.instances.base import Instance

HEADS = ["tags", "label", "pair"]
LENGTHS = (2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 31, 32, 33, 40, 64, 64, 64, 65, 90, 127, 128)


def instances(random: random.Random, lengths=LENGTHS) -> list[Instance]:
    ids = [np.array([0, *(random.randrange(5, 400) for _ in range(n - 2)), 2]) for n in lengths]
    return [Instance(row, 0, marks=(0, 1)) for row in ids]


@pytest.fixture(scope="module", params=["tiny", "bert-base"])
def model(request) -> MultiHeadModel:
    shape = PRESETS[request.param].changed(layers=2)
    encoder = preset_encoder(shape, vocab_size=400, pad_token_id=1, seed=0, max_length=128)
    model = MultiHeadModel(encoder).eval()
    model.add_head("tags", "tagging", 5, seed=0, labels=list("abcde"))
    model.add_head("label", "classification", 3, seed=0, labels=list("abc"))
    model.add_head("pair", "markers", 2, seed=0, labels=list("ab"))
    return model


def test_outputs_are_the_same_to_the_last_bit_in_every_batch(model):
    draw = random.Random(0)
    known = instances(draw)
    alone = [run_heads(model, [instance], HEADS) for instance in known]
    for _ in range(25):
        chosen = [draw.randrange(len(known)) for _ in range(draw.choice([2, 3, 5, 16, 40]))]
        found = run_heads(model, [known[number] for number in chosen], HEADS)
        for head in HEADS:
            for number, row in zip(chosen, found[head], strict=True):
                assert np.array_equal(row, alone[number][head][0]), (head, known[number].length, chosen)


class Padding:
    """A runner whose outputs depend on the longest instance of the batch, as those of a padded one do in their last bits."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def outputs(self, instances, heads, advance=None):
        self.sizes.append(len(instances))
        longest = max(instance.length for instance in instances)
        if advance:
            advance(len(instances))
        return {head: [np.array([instance.length, longest]) for instance in instances] for head in heads}

    def begin(self, instances, heads):
        raise AssertionError("begun together")

    def transitions(self, head):
        return np.ones(1)


def test_a_runner_whose_outputs_depend_on_the_batch_computes_one_at_a_time():
    probe, inner = instances(random.Random(0), (5, 9)), Padding()
    runner = SteadyRunner(inner, lambda: (probe, ["a"]))
    runner.outputs(probe[:1], ["a"])
    assert inner.sizes == [1]  # one alone needs no test
    inner.sizes.clear()
    done: list[int] = []
    found = runner.outputs(instances(random.Random(1), (3, 7, 5)), ["a"], done.append)["a"]
    assert [row.tolist() for row in found] == [[3, 3], [7, 7], [5, 5]]
    assert inner.sizes[-3:] == [1, 1, 1]
    assert done == [1, 1, 1]
    waited = runner.begin(instances(random.Random(1), (3, 7)), ["a"])
    assert [row.tolist() for row in waited()["a"]] == [[3, 3], [7, 7]]
    assert runner.transitions("a") == 1


def test_a_forked_process_does_not_wait_for_the_threads_of_its_parent(model):
    runner, known = TorchRunner(model), instances(random.Random(1), [128] * 16)
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # with one, there is nothing to wait for
    try:
        expected = runner.outputs(known, ["tags"])["tags"]

        def check() -> None:
            found = runner.outputs(known, ["tags"])["tags"]
            os._exit(0 if all(np.allclose(*pair, atol=1e-5) for pair in zip(found, expected, strict=True)) else 1)

        child = multiprocessing.get_context("fork").Process(target=check)
        child.start()
        child.join(30)
        code = child.exitcode
        child.kill()
    finally:
        torch.set_num_threads(before)
    assert code == 0


def test_torch_computes_batches(model):
    probe = instances(random.Random(0), (3, 20, 70))
    runner = SteadyRunner(TorchRunner(model), lambda: (probe, HEADS))
    assert runner.together
    assert runner.model is model
