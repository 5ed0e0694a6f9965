from __future__ import annotations

import pytest
import torch
from torch import nn
from train_toys import config, same

from osler.train.optim import Muon, Optimiser, orthogonal, parameter_groups


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 16)])


def fill(module: nn.Module, seed: int = 0) -> None:
    stream = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=stream)


def test_it_trains_the_matrices_of_layers_and_adamw_the_rest():
    kinds = {name: g.optimizer for g in parameter_groups(Layers(), config(optimizer="muon")) for name in g.names}
    assert {name for name, kind in kinds.items() if kind == "muon"} == {f"layers.{n}.weight" for n in range(3)}
    assert {kind for name, kind in kinds.items() if "bias" in name or "embedding" in name} == {"adamw"}


def test_the_update_has_singular_values_near_one_and_keeps_the_singular_vectors():
    matrices = torch.randn(3, 24, 10, generator=torch.Generator().manual_seed(1))
    result = orthogonal(matrices)
    values = torch.linalg.svdvals(result)
    assert values.min() > 0.5
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrices[0], full_matrices=False)
    inside = u.T @ result[0] @ v.T
    assert (inside - torch.diag(inside.diagonal())).abs().max() < 1e-3


def test_one_update_is_that_of_torch():
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon of its own")
    ours, theirs = Layers(), Layers()
    matrices = [module.weight for module in theirs.layers]
    stock = torch.optim.Muon(
        matrices, lr=0.1, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw"
    )
    own = Muon([module.weight for module in ours.layers], lr=0.1, weight_decay=0.1)
    for seed in range(3):
        for module, optimiser in ((ours, own), (theirs, stock)):
            fill(module, seed)
            optimiser.step()
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        # torch iterates in bfloat16 everywhere, we only on a GPU.
        torch.testing.assert_close(one.weight, other.weight, rtol=0.0, atol=0.02)


def test_a_bad_step_changes_nothing_and_state_travels():
    module = Layers()
    optimiser = Optimiser(module, config(optimizer="muon", lr=0.01))
    fill(module)
    optimiser.step(torch.tensor(False))
    weights = {name: value.detach().clone() for name, value in module.named_parameters()}
    state = {name: value.clone() for name, value in optimiser.state().items()}
    assert {name for name in state if name.startswith("momentum/")} == {f"momentum/layers.{n}.weight" for n in range(3)}
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, float("nan"))
    optimiser.step(torch.tensor(True))
    assert same(dict(module.named_parameters()), weights)
    assert same(optimiser.state(), state)

    twin = Layers()
    twin.load_state_dict(module.state_dict())
    other = Optimiser(twin, config(optimizer="muon", lr=0.01))
    other.load_state(state)
    for each, opt in ((module, optimiser), (twin, other)):
        fill(each, 5)
        opt.step(torch.tensor(False))
    assert same(dict(module.named_parameters()), dict(twin.named_parameters()))
