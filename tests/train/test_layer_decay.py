"""The learning rate of each layer relative to the one above it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from train_toys import config, learning_rates

from osler.train.optim import BEHIND, EMBEDDINGS, OPTIMISERS, Optimiser, count_layers, depths


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


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
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
