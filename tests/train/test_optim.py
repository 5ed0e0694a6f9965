from __future__ import annotations

import pytest
import torch
from torch import nn
from train_toys import Toy, ToySource, config, learning_rates, same, weights

from osler.core.errors import ArtifactError
from osler.train.loop import train
from osler.train.optim import OPTIMISERS, Optimiser, parameter_groups

GOOD, BAD = torch.tensor(False), torch.tensor(True)


def backward(module: nn.Module, head: str = "a") -> None:
    payload = dict(ToySource(1, heads=[head]).load((0, 0)).payload)
    module(payload).loss_sum.backward()


def test_every_trainable_parameter_is_in_exactly_one_group():
    module = Toy(heads=["a", "b"])
    module.layer.weight.requires_grad_(False)
    groups = parameter_groups(module, config(head_lr=5.0))
    names = [name for group in groups for name in group.names]
    assert len(names) == len(set(names))
    assert set(names) == {name for name, value in module.named_parameters() if value.requires_grad}


def test_matrices_decay_and_vectors_do_not():
    groups = parameter_groups(Toy(), config(weight_decay=0.1))
    decay = {name: group.weight_decay for group in groups for name in group.names}
    assert {name for name, value in decay.items() if value} == {"embedding.weight", "layer.weight", "heads.only.weight"}
    assert set(decay.values()) == {0.0, 0.1}
    everything = parameter_groups(Toy(), config(weight_decay=0.1, decay_vectors=True))
    assert {group.weight_decay for group in everything} == {0.1}


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_weights_decay_apart_from_the_gradient(name):
    """Added to the gradient, as torch's Adam and Adamax do, the decay would take a whole step where the gradient is small."""
    module = Toy()
    before = weights(module)
    optimiser = Optimiser(module, config(optimizer=name, lr=0.01, weight_decay=0.1))
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step(GOOD)
    after = weights(module)
    torch.testing.assert_close(after["embedding.weight"], before["embedding.weight"] * (1 - 0.01 * 0.1))
    torch.testing.assert_close(after["norm.bias"], before["norm.bias"])


def test_tied_parameters_are_optimised_once():
    module = Toy()
    module.copy = nn.Linear(16, 16)
    module.copy.weight = module.layer.weight
    names = [name for group in parameter_groups(module, config()) for name in group.names]
    assert "copy.weight" not in names
    assert "copy.bias" in names


def test_heads_can_learn_faster():
    module = Toy(heads=["a"])
    optimiser = Optimiser(module, config(lr=0.1, head_lr=3.0))
    optimiser.set_lr(0.5)
    rates = learning_rates(optimiser)
    assert rates["heads.a.weight"] == rates["heads.a.bias"] == pytest.approx(0.15)
    assert rates["layer.weight"] == rates["norm.bias"] == pytest.approx(0.05)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_every_head_changes_in_one_step(name, tmp_path):
    module = Toy(heads=["a", "b", "c"])
    before = weights(module)
    train(module, ToySource(1, micro=3, heads=["a", "b", "c"]), config(optimizer=name), folder=tmp_path)
    unchanged = [key for key, value in weights(module).items() if torch.equal(value, before[key])]
    assert unchanged == []


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_a_bad_step_changes_neither_weights_nor_state(name):
    module = Toy(heads=["a"])
    optimiser = Optimiser(module, config(optimizer=name))
    backward(module)
    optimiser.step(GOOD)
    before, state = weights(module), {key: value.clone() for key, value in optimiser.state().items()}
    for parameter in optimiser.parameters:
        parameter.grad = torch.full_like(parameter, float("nan"))
    optimiser.step(BAD)
    assert same(weights(module), before)
    assert same(optimiser.state(), state)
    backward(module)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_state_travels_by_name(name):
    module = Toy(heads=["a", "b"])
    optimiser = Optimiser(module, config(optimizer=name))
    backward(module, "a")
    optimiser.step(GOOD)
    state = {key: value.clone() for key, value in optimiser.state().items()}
    assert {key.partition("/")[2] for key in state} == {key for key, _ in module.named_parameters() if ".b." not in key}

    twin = Toy(heads=["b", "a"])  # another order of parameters
    twin.load_state_dict(module.state_dict())
    other = Optimiser(twin, config(optimizer=name))
    other.load_state(state)
    for each, opt in ((module, optimiser), (twin, other)):
        each.eval()
        opt.zero_grad()
        backward(each, "a")
        opt.step(GOOD)
    assert same(weights(module), weights(twin))
    with pytest.raises(ArtifactError, match="does not train"):
        Optimiser(Toy(heads=["c"]), config(optimizer=name)).load_state(state)


def test_adamw_is_the_papers(tmp_path):
    """One update by hand: decoupled decay, bias-corrected moments."""
    module = nn.Linear(2, 1, bias=False)
    optimiser = Optimiser(module, config(lr=0.1, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01))
    start = module.weight.detach().clone()
    gradient = torch.tensor([[0.5, -2.0]])
    module.weight.grad = gradient.clone()
    optimiser.set_lr(1.0)
    optimiser.step(GOOD)
    expected = start * (1 - 0.1 * 0.01) - 0.1 * gradient / (gradient.abs() + 1e-6)
    torch.testing.assert_close(module.weight.detach(), expected)
