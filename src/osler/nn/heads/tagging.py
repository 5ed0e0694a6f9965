"""Heads with one row per token: independent labels, a linear-chain CRF, or any number of attributes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from osler.nn.heads.base import IGNORED, Head, linear, total
from osler.nn.packing import Packed
from osler.text.tags import Scheme, transitions


class Tagging(Head):
    """A linear layer over every token; targets [T], where -100 (padding, special, non-first sub-words) has no loss."""

    kind = "tagging"
    level = "token"

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__(hidden_size, num_labels, dropout)
        self.classifier = linear(hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(hidden))
        return logits

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        losses = cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none")
        return total(losses, targets != IGNORED, weights)


class Attributes(Tagging):
    """Any number of attributes of each token; targets [T], where bit n is attribute n and -100 has no loss."""

    kind = "attributes"

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Binary cross-entropy, averaged over the attributes of a token."""
        known = targets != IGNORED
        answers = attribute_bits(torch.where(known, targets, 0), self.num_labels)
        losses = binary_cross_entropy_with_logits(logits.float(), answers, reduction="none")
        return total(losses.mean(dim=1), known, weights)


def attribute_bits(targets: Tensor, attributes: int) -> Tensor:
    """Bits [T, L] of targets [T], as 0.0 and 1.0."""
    return (targets[:, None] >> torch.arange(attributes, device=targets.device) & 1).float()


# Finite, since differences of infinities are NaN; its exp is zero, so a forbidden path still has probability zero.
_FORBIDDEN = -1e4


class LinearChain(Tagging):
    """A CRF: scores of tags from each word's hidden state, and of each pair of neighbouring tags; targets [T], -100 is skipped."""

    kind = "crf"

    allowed: Tensor
    may_start: Tensor
    may_end: Tensor

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__(hidden_size, num_labels, dropout)
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))
        # Rebuilt from the labels, so not part of the saved weights.
        everything = torch.ones(num_labels, dtype=torch.bool)
        self.register_buffer("allowed", everything.expand(num_labels, -1).clone(), persistent=False)
        self.register_buffer("may_start", everything.clone(), persistent=False)
        self.register_buffer("may_end", everything.clone(), persistent=False)

    def name_outputs(self, labels: Sequence[str]) -> None:
        """Forbid transitions that the scheme of these tags does not allow; without labels all are allowed."""
        if labels:
            scheme = Scheme.BIOES if any(label[:2] in ("E-", "S-") for label in labels) else Scheme.BIO
            legal = transitions(labels, scheme)
            self.allowed.copy_(torch.tensor(legal.allowed))
            self.may_start.copy_(torch.tensor(legal.start))
            self.may_end.copy_(torch.tensor(legal.end))

    def steps(self) -> Tensor:
        return self.transitions.detach().float()

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Loss of rows that form a single chain."""
        borders = torch.tensor([0, len(targets)], device=targets.device)
        return self._loss(logits, targets, borders, len(targets), weights)

    def batch_loss(
        self, logits: Tensor, targets: Tensor, batch: Packed, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood of all chains, one per sequence, and the number of their words."""
        return self._loss(logits, targets, batch.cu_seqlens[: batch.num_sequences + 1], batch.max_length, weights)

    def _loss(
        self, logits: Tensor, targets: Tensor, borders: Tensor, longest: int, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if weights is not None:
            raise ValueError("class weights are not supported with a CRF head")
        with torch.autocast(logits.device.type, enabled=False):  # bf16 is too coarse for a sum over hundreds of words
            likelihood = self._log_likelihood(*_rows(logits.float(), targets, borders.long(), longest))
        return -likelihood.sum(), (targets != IGNORED).sum().float()

    def _log_likelihood(self, scores: Tensor, gold: Tensor, real: Tensor) -> Tensor:
        """Log-probability of each gold chain [N] for scores [N, W, L]; the cells marked in `real` [N, W] come first in a row.

        A chain without words has the probability 1.
        """
        steps = self.transitions.float()
        legal = steps + _FORBIDDEN * ~self.allowed
        last = gold.gather(1, (real.sum(dim=1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
        lifted = ~self.allowed[gold[:, :-1], gold[:, 1:]]

        of_gold = scores.gather(2, gold[:, :, None]).squeeze(2)
        taken = torch.where(real[:, 1:], steps[gold[:, :-1], gold[:, 1:]], 0.0)
        path = torch.where(real, of_gold, 0.0).sum(dim=1) + taken.sum(dim=1)

        first = scores[:, 0] + _unless(self.may_start, gold[:, 0])
        onward = torch.where(lifted[:, :, None, None], steps, legal) + scores[:, 1:, None, :]
        advance = _by_halves if scores.shape[2] <= _FEW_TAGS[scores.device.type == "cuda"] else _one_by_one
        every_path = torch.logsumexp(advance(first, onward, real[:, 1:]) + _unless(self.may_end, last), dim=1)
        return torch.where(real[:, 0], path - every_path, 0.0)


_FEW_TAGS = (9, 16)
"""Up to this many tags, on a CPU and on a GPU, products of whole transition matrices cost less than one short step for each word."""


def _one_by_one(total: Tensor, onward: Tensor, real: Tensor) -> Tensor:
    """Scores of all paths by their last tag [N, L], word by word; `onward` [N, W, L, L] scores each step, `real` [N, W] marks words."""
    for place in range(onward.shape[1]):
        reached = torch.logsumexp(total[:, :, None] + onward[:, place], dim=1)
        total = torch.where(real[:, place, None], reached, total)
    return total


def _by_halves(total: Tensor, onward: Tensor, real: Tensor) -> Tensor:
    """The same as `_one_by_one`, joining neighbouring steps until one is left: a few large operations instead of hundreds of small ones."""
    stay = _FORBIDDEN * (1.0 - torch.eye(onward.shape[2], device=onward.device))
    steps = torch.where(real[:, :, None, None], onward, stay)
    while steps.shape[1] > 1:
        if steps.shape[1] % 2:
            steps = torch.cat([steps, stay.expand(len(steps), 1, -1, -1)], dim=1)
        steps = torch.logsumexp(steps[:, 0::2, :, :, None] + steps[:, 1::2, None, :, :], dim=3)
    return torch.logsumexp(total[:, :, None] + steps[:, 0], dim=1) if steps.shape[1] else total


def _unless(allowed: Tensor, gold: Tensor) -> Tensor:
    """Penalty of each tag [N, L] at one end of the chain; zero where the gold tag itself is forbidden there."""
    return torch.where(allowed[gold][:, None], _FORBIDDEN * ~allowed, 0.0)


def _rows(scores: Tensor, gold: Tensor, borders: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Turn tokens laid end to end into one row of words per chain: scores [N, W, L], gold [N, W], and which cells are words [N, W].

    On a GPU no shape depends on the values: reading one would stall the GPU and rule out CUDA graphs. There a row has a cell for each
    token of the longest sequence, on a CPU for each word of the longest chain.
    """
    is_word = gold != IGNORED
    counted = torch.nn.functional.pad(is_word.cumsum(0), (1, 0))
    chain = torch.searchsorted(borders[1:], torch.arange(len(gold), device=gold.device), right=True)
    before = counted[borders]
    chains = len(borders) - 1
    width = longest if scores.is_cuda else max(1, int(before.diff().max()))
    # Tokens that are not words go to a row of their own, which is cut off.
    row = torch.where(is_word, chain, chains)
    column = torch.where(is_word, counted[:-1] - before[chain], 0)
    size = (chains + 1, width)
    real = torch.zeros(size, dtype=torch.bool, device=gold.device).index_put((row, column), is_word)
    tags = gold.new_zeros(size).index_put((row, column), gold.clamp(min=0))
    rows = scores.new_zeros(*size, scores.shape[1]).index_put((row, column), scores)
    return rows[:chains], tags[:chains], real[:chains]
