from __future__ import annotations

import pytest
import torch
from torch import nn
from train_toys import Toy, ToySource, config, learning_rates, same, weights

from osler.core.errors import ArtifactError
from osler.train.loop import train
from osler.train.optim import (
    BEHIND,
    EMBEDDINGS,
    Muon,
    Optimiser,
    count_layers,
    depths,
    orthogonal,
    parameter_groups,
)

DECOUPLED = ["adamax", "adamw", "muon"]
OPTIMISERS = [*DECOUPLED, "lamb"]
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


@pytest.mark.parametrize("name", DECOUPLED)
def test_weights_decay_apart_from_the_gradient(name):
    """Added to the gradient, as torch's Adam and Adamax do, the decay would take a full step where the gradient is small."""
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


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_head_changes_in_one_step(name, tmp_path):
    module = Toy(heads=["a", "b", "c"])
    before = weights(module)
    train(module, ToySource(1, micro=3, heads=["a", "b", "c"]), config(optimizer=name), folder=tmp_path)
    unchanged = [key for key, value in weights(module).items() if torch.equal(value, before[key])]
    assert unchanged == []


@pytest.mark.parametrize("name", OPTIMISERS)
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


@pytest.mark.parametrize("name", OPTIMISERS)
def test_state_travels_by_name(name):
    module = Toy(heads=["a", "b"])
    optimiser = Optimiser(module, config(optimizer=name))
    backward(module, "a")
    optimiser.step(GOOD)
    state = {key: value.clone() for key, value in optimiser.state().items()}
    assert {key.partition("/")[2] for key in state} == {key for key, _ in module.named_parameters() if ".b." not in key}

    clone = Toy(heads=["b", "a"])  # another order of parameters
    clone.load_state_dict(module.state_dict())
    other = Optimiser(clone, config(optimizer=name))
    other.load_state(state)
    for each, opt in ((module, optimiser), (clone, other)):
        each.eval()
        opt.zero_grad()
        backward(each, "a")
        opt.step(GOOD)
    assert same(weights(module), weights(clone))
    with pytest.raises(ArtifactError, match="does not train"):
        Optimiser(Toy(heads=["c"]), config(optimizer=name)).load_state(state)


def test_adamw_is_the_papers(tmp_path):
    """One step by hand: decoupled decay, bias-corrected moments."""
    module = nn.Linear(2, 1, bias=False)
    optimiser = Optimiser(module, config(lr=0.1, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01))
    start = module.weight.detach().clone()
    gradient = torch.tensor([[0.5, -2.0]])
    module.weight.grad = gradient.clone()
    optimiser.set_lr(1.0)
    optimiser.step(GOOD)
    expected = start * (1 - 0.1 * 0.01) - 0.1 * gradient / (gradient.abs() + 1e-6)
    torch.testing.assert_close(module.weight.detach(), expected)


def test_lamb_moves_a_matrix_by_its_own_size_and_a_vector_as_adam_does():
    module, adam = Toy(), Toy()
    before = weights(module)
    settings = {"lr": 0.01, "weight_decay": 0.1, "betas": (0.9, 0.999), "eps": 1e-6}
    optimiser, other = (Optimiser(m, config(optimizer=n, **settings)) for m, n in ((module, "lamb"), (adam, "adamw")))
    for seed in range(3):
        for one in (module, adam):
            for number, parameter in enumerate(one.parameters()):
                torch.manual_seed(10 * seed + number)
                parameter.grad = torch.randn_like(parameter)
        last = weights(module)
        optimiser.step(GOOD)
        other.step(GOOD)
        # You et al. 2020: the norm of the step is the learning rate times the norm of the weights.
        for name in ("embedding.weight", "layer.weight"):
            moved = weights(module)[name] - last[name]
            torch.testing.assert_close(moved.norm(), 0.01 * last[name].norm(), rtol=1e-4, atol=0.0)
    assert not same(weights(module), before)
    torch.testing.assert_close(weights(module)["norm.bias"], weights(adam)["norm.bias"])


class Stack(nn.Module):
    """The shape of a Hugging Face encoder with a head, in its names."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.embeddings = nn.ModuleDict({"word": nn.Embedding(7, 4), "norm": nn.LayerNorm(4)})
        self.encoder.layer = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.encoder.bias_table = nn.Embedding(2, 4)
        self.encoder.final_norm = nn.LayerNorm(4)
        self.heads = nn.ModuleDict({"2010": nn.Linear(4, 2)})


def rates(name: str, decay: float) -> dict[str, float]:
    optimiser = Optimiser(Stack(), config(optimizer=name, lr=0.1, layer_decay=decay, head_lr=3.0))
    optimiser.set_lr(0.5)
    return learning_rates(optimiser)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_each_layer_learns_slower_than_the_one_above_and_embeddings_slowest(name):
    found = rates(name, 0.8)
    for layer, part in enumerate((0.64, 0.8, 1.0)):
        assert found[f"encoder.layer.{layer}.weight"] == pytest.approx(0.05 * part)
        assert found[f"encoder.layer.{layer}.bias"] == pytest.approx(0.05 * part)
    for key in ("embeddings.word.weight", "embeddings.norm.bias", "bias_table.weight"):
        assert found[f"encoder.{key}"] == pytest.approx(0.05 * 0.512)
    assert found["encoder.final_norm.weight"] == pytest.approx(0.05)
    assert found["heads.2010.weight"] == found["heads.2010.bias"] == pytest.approx(0.05 * 3)


def test_without_decay_all_layers_learn_alike():
    assert all(
        rate == pytest.approx(0.15 if name.startswith("heads") else 0.05) for name, rate in rates("adamw", 1.0).items()
    )


def test_the_rate_is_what_moves_the_weights():
    module = Stack()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    optimiser = Optimiser(module, config(optimizer="adamw", lr=0.1, layer_decay=0.5, weight_decay=0.0))
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.set_lr(1.0)
    optimiser.step(torch.tensor(False))
    moved = {name: (before[name] - value).abs().max().item() for name, value in module.state_dict().items()}
    assert moved["encoder.layer.2.weight"] == pytest.approx(0.1, rel=1e-3)
    assert moved["encoder.layer.0.weight"] == pytest.approx(0.025, rel=1e-3)
    assert moved["encoder.embeddings.word.weight"] == pytest.approx(0.0125, rel=1e-3)


@pytest.mark.parametrize(
    ("config_class", "layers", "embedded", "behind"),
    [
        ("BertConfig", 3, "embeddings.LayerNorm.weight", None),
        ("RobertaConfig", 3, "embeddings.position_embeddings.weight", None),
        ("ModernBertConfig", 3, "embeddings.tok_embeddings.weight", "final_norm.weight"),
        ("ElectraConfig", 3, "embeddings_project.weight", None),
        ("DebertaV2Config", 3, "embeddings.word_embeddings.weight", None),
        ("MPNetConfig", 3, "encoder.relative_attention_bias.weight", None),
        ("AlbertConfig", 1, "encoder.embedding_hidden_mapping_in.weight", None),
        ("DistilBertConfig", 3, "embeddings.word_embeddings.weight", None),
    ],
)
def test_the_depth_of_parameters_is_known_for_every_architecture(config_class, layers, embedded, behind):
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    if config_class == "DistilBertConfig":
        sizes = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64}
    if config_class in ("AlbertConfig", "ElectraConfig"):
        sizes["embedding_size"] = 16
    if config_class == "ModernBertConfig":
        sizes |= {"pad_token_id": 1, "cls_token_id": 2, "sep_token_id": 3}
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(getattr(transformers, config_class)(vocab_size=60, **sizes))
    model.pooler = None
    known = depths(model)
    assert count_layers(known) == layers
    assert known[embedded] == EMBEDDINGS
    assert [name for name, depth in known.items() if depth == BEHIND and name != behind] == []
    if behind:
        assert known[behind] == BEHIND


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


def test_one_step_is_that_of_torch():
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

    clone = Layers()
    clone.load_state_dict(module.state_dict())
    other = Optimiser(clone, config(optimizer="muon", lr=0.01))
    other.load_state(state)
    for each, opt in ((module, optimiser), (clone, other)):
        fill(each, 5)
        opt.step(torch.tensor(False))
    assert same(dict(module.named_parameters()), dict(clone.named_parameters()))
