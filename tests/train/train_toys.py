"""Small modules and sources with what real ones have: dropout, norms, uneven batches, several heads, accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from osler.core.seeding import generator
from osler.train.config import TrainConfig
from osler.train.optim import Optimiser
from osler.train.source import Batch, LossOutput

VOCABULARY, LABELS = 12, 3


class Toy(nn.Module):
    """Labels tokens; `heads` share an encoder and each pass uses one of them."""

    def __init__(self, heads: Sequence[str] = ("only",), width: int = 16, dropout: float = 0.2, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(VOCABULARY, width)
            self.layer = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)
            self.dropout = nn.Dropout(dropout)
            self.heads = nn.ModuleDict({name: nn.Linear(width, LABELS) for name in heads})

    def forward(self, payload: dict[str, Any]) -> LossOutput:
        hidden = self.dropout(self.norm(torch.tanh(self.layer(self.embedding(payload["tokens"])))))
        logits = self.heads[payload["head"]](hidden)
        loss = nn.functional.cross_entropy(logits, payload["labels"], reduction="sum")
        return LossOutput(
            loss * payload.get("factor", 1.0), {f"loss/{payload['head']}": loss.detach() / len(payload["labels"])}
        )


class ToySource:
    """Batches of different sizes whose labels follow from the tokens; `micro` of them a step."""

    def __init__(self, steps: int, micro: int = 1, heads: Sequence[str] = ("only",), bad: frozenset[Any] = frozenset()):
        self._steps, self._micro, self._heads, self._bad = steps, micro, heads, bad
        self.loaded: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self._steps

    def step(self, index: int) -> Sequence[Any]:
        return [(index, place) for place in range(self._micro)]

    def load(self, ref: tuple[int, int]) -> Batch:
        self.loaded.append(ref)
        stream = generator(7, "toy", *ref)
        tokens = torch.from_numpy(stream.integers(0, VOCABULARY, size=int(stream.integers(2, 9))))
        head = self._heads[ref[1] % len(self._heads)]
        payload = {"tokens": tokens, "labels": (tokens + self._heads.index(head)) % LABELS, "head": head}
        if ref[0] in self._bad or ref in self._bad:
            payload["factor"] = float("nan")
        return Batch(payload, weight=float(len(tokens)), tokens=len(tokens))


def config(**values: Any) -> TrainConfig:
    """Settings for the toys: everything often, checkpoints only when asked for."""
    plain = {"lr": 0.01, "log_every": 1, "checkpoint_every": 0, "device": "cpu", "threads": 1}
    return TrainConfig(**(plain | values))


def learning_rates(optimiser: Optimiser) -> dict[str, float]:
    """Learning rate of every parameter, by name."""
    return {
        name: settings["lr"]
        for optimizer, groups in optimiser._inners
        for group, settings in zip(groups, optimizer.param_groups, strict=True)
        for name in group.names
    }


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of all weights."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of weights are equal bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
