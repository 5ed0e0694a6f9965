from __future__ import annotations

import json
from pathlib import Path

import fsdp_worker
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from train_toys import Toy
from two_processes import assert_same_run, notes, run_by_two

from osler.core.config import validate
from osler.core.errors import RecipeError
from osler.train.config import TrainConfig
from osler.train.parallel import Sharded, World, layers


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The same runs by one process (here) and by two with shards (torchrun, gloo), and runs that changed hands half-way."""
    out = tmp_path_factory.mktemp("fsdp")
    fsdp_worker.run(out / "one")
    fsdp_worker.run(out / "started-by-one", stop=6)
    run_by_two(fsdp_worker.__file__, out)
    fsdp_worker.run(out / "started-by-two")
    return out


def test_samples_come_in_the_same_order(runs):
    for rank in (0, 1):
        shares = [[[step, 0], [step, 2]] if rank == 0 else [[step, 1], [step, 0]] for step in range(fsdp_worker.STEPS)]
        assert notes(runs, "straight", rank)["loaded"] == [ref for share in shares for ref in share]


def test_loss_curve_evaluations_and_best_weights_equal_those_of_one_process(runs):
    for rank in (0, 1):
        assert_same_run(runs / "one", runs / "straight", rank)
        assert notes(runs, "straight", rank)["summary"] == notes(runs, "one")["summary"]
    assert notes(runs, "one")["summary"][1:3] == [12, 1.0]


def test_a_bad_step_is_skipped_on_both(runs):
    assert [notes(runs, "straight", rank)["summary"][-1] for rank in (0, 1)] == [1, 1]


def test_what_no_rank_used_is_not_moved(runs):
    start, end = fsdp_worker.Deep().state_dict(), load_file(runs / "straight" / "final-0.safetensors")
    assert torch.equal(end["idle.weight"], start["idle.weight"])
    assert not torch.equal(end["heads.c.weight"], start["heads.c.weight"])


def test_every_rank_holds_about_half(runs):
    first, second = (json.loads((runs / f"shards-{rank}.json").read_text()) for rank in (0, 1))
    for name, parameter in fsdp_worker.Deep().named_parameters():
        assert first[name] + second[name] == parameter.numel()
        assert first[name] - second[name] <= parameter[:1].numel()


def test_afterwards_the_module_is_an_ordinary_one_on_every_rank(runs):
    for rank in (0, 1):
        assert notes(runs, "straight", rank)["plain"]
        assert notes(runs, "straight", rank)["tied"]
        assert not notes(runs, "straight", rank)["mode"]


def test_only_the_first_rank_evaluates(runs):
    assert notes(runs, "straight", 0)["evaluated"] == [3, 6, 9, 12, 14, 14]  # at last the mean of several steps
    assert notes(runs, "straight", 1)["evaluated"] == []


@pytest.mark.parametrize("name", ["started-by-two", "started-by-one", "started-by-ddp"])
def test_a_checkpoint_goes_from_shards_to_one_process_and_ddp_and_back(runs, name):
    assert notes(runs, name)["loaded"][0] == [4, 0]  # from the checkpoint at step 4
    assert_same_run(runs / "one", runs / name)


def test_checkpoints_hold_the_same_tensors_as_those_of_one_process(runs):
    for part in ("model", "optimizer", "best", "mean"):
        one, two = (
            load_file(runs / name / "checkpoints" / "step-0000000014" / f"{part}.safetensors")
            for name in ("one", "straight")
        )
        assert {name: value.shape for name, value in one.items()} == {name: value.shape for name, value in two.items()}
        assert all(torch.allclose(one[name], two[name], atol=1e-6, rtol=0) for name in one)


def test_no_thread_of_the_group_outlives_it(runs):
    for rank in (0, 1):
        assert "gloo" not in (runs / f"threads-{rank}").read_text()


def test_layers_are_the_members_of_lists_inner_ones_first():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(2, 2), nn.Dropout()])

    module = nn.ModuleDict({"first": nn.Linear(2, 2), "blocks": nn.ModuleList([Block(), Block()])})
    one, two = module["blocks"]
    assert layers(module) == [two.parts[0], two, one.parts[0], one]


def test_muon_is_refused_before_any_work():
    with pytest.raises(RecipeError, match="unsharded matrices"):
        validate(TrainConfig, {"optimizer": "muon", "parallel": "fsdp"}, where="recipe")


def test_how_to_divide_the_work_is_not_part_of_the_identity():
    assert TrainConfig(parallel="fsdp").identity() == TrainConfig().identity()


def test_what_cannot_be_sharded_is_named():
    shared = fsdp_worker.Deep()
    shared.layers[1].linear.weight = shared.layers[0].linear.weight
    with pytest.raises(RecipeError, match=r"layers\.1\.linear\.weight is shared by two layers"):
        Sharded(shared, TrainConfig(), World(0, 2), torch.device("cpu"))
    with pytest.raises(RecipeError, match="no list of layers"):
        Sharded(Toy(), TrainConfig(), World(0, 2), torch.device("cpu"))
    single = fsdp_worker.Deep()
    single.factor = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(RecipeError, match="factor is a single number"):
        Sharded(single, TrainConfig(), World(0, 2), torch.device("cpu"))
