"""What a student is told by a frozen teacher: divergences of distributions, distances of hidden states, a projection.

Divergences carry the factor T² of Hinton et al. (2015) and of DistilBERT's code: gradients through a softmax at temperature T shrink
by 1/T², so the factor keeps the balance with the other losses whatever the temperature. lewis2020 does not write the factor out; it
says that it follows DistilBERT's choices, and those were made with it. Softmaxes are taken in float32 whatever the
precision of training, for the tails of a vocabulary of 50,000 vanish in bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, kl_div, log_softmax, logsigmoid

from osler.core.errors import RecipeError
from osler.nn.folders import seeded
from osler.nn.heads.base import IGNORED, Head, total
from osler.nn.packing import Packed

M = TypeVar("M", bound=nn.Module)

# Probability below which the tokens outside the teacher's choice count as this much: 1 - sum is exact to about 1e-7.
_LEAST_REST = 1e-6


def frozen(model: M) -> M:
    """The model as a teacher: in evaluation mode, no parameter of it trainable."""
    return model.eval().requires_grad_(False)


@dataclass(frozen=True)
class SoftTargets:
    """The teacher's distributions at a temperature: log-probabilities [M, V], or of k tokens and the rest [M, k + 1]."""

    log_probabilities: Tensor
    tokens: Tensor | None
    temperature: float

    @classmethod
    def of(cls, logits: Tensor, temperature: float, top_k: int | None = None) -> SoftTargets:
        """Read them from the teacher's scores; with `top_k` only the k likeliest tokens of each row are kept apart."""
        everything = log_softmax(logits.float() / temperature, dim=-1)
        if top_k is None or top_k >= logits.shape[-1] - 1:  # a rest of one token or none is no saving
            return cls(everything, None, temperature)
        likeliest, tokens = everything.topk(top_k, dim=-1)
        return cls(_with_rest(likeliest), tokens, temperature)

    def divergence(self, logits: Tensor) -> Tensor:
        """KL(teacher ‖ student) x T² of each row, for the student's scores [M, V]."""
        own = log_softmax(logits.float() / self.temperature, dim=-1)
        if self.tokens is not None:
            own = _with_rest(own.gather(-1, self.tokens))
        return kl_div(own, self.log_probabilities, reduction="none", log_target=True).sum(-1) * self.temperature**2


def _with_rest(log_probabilities: Tensor) -> Tensor:
    """Put the probability that is left over behind the others, so that a row is a distribution again."""
    rest = (1.0 - log_probabilities.exp().sum(-1, keepdim=True)).clamp(min=_LEAST_REST).log()
    return torch.cat([log_probabilities, rest], dim=-1)


def misalignment(student: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
    """The mean of 1 - cosine between hidden states [T, H] over the positions that are real, one number."""
    distances = 1.0 - cosine_similarity(student.float(), teacher.float(), dim=-1)
    return torch.where(real, distances, 0.0).sum() / real.sum().clamp(min=1)


def real_positions(batch: Packed, pad_id: int) -> Tensor:
    """Which tokens are text: by their id, not by their number, so that a compiled pass sees one shape for all batches."""
    return batch.input_ids != pad_id


def projection_between(student: int, teacher: int, *, seed: int) -> nn.Linear | None:
    """The linear layer that brings the student's hidden states to the teacher's width; none where they are equal."""
    if student == teacher:
        return None
    with seeded(seed, "projection"):
        return nn.Linear(student, teacher)


def soft_loss(head: Head, logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """The summed loss of a task head against its teacher's outputs, over the rows that `head.loss` counts.

    Of the gold targets only their presence is read: a row without one (padding, a continued word) has no loss here either, so
    hard and soft losses are sums over the same rows and may be mixed. One label of many: KL x T². Each label yes or no: the KL
    of its two outcomes x T², averaged over the known labels of a row. A number: the squared distance, without a temperature.
    """
    if head.kind in ("tagging", "classification", "markers"):
        return total(SoftTargets.of(teacher, temperature).divergence(logits), targets != IGNORED, None)[0]
    if head.kind == "multilabel":
        known = ~torch.isnan(targets)
        losses = _binary_divergence(logits.float() / temperature, teacher.float() / temperature) * known
        labels = known.sum(dim=1)
        return total(losses.sum(dim=1) * temperature**2 / labels.clamp(min=1), labels > 0, None)[0]
    if head.kind == "regression":
        return total((logits.float() - teacher.float()).squeeze(1).square(), ~torch.isnan(targets), None)[0]
    raise RecipeError(
        f"osler does not know how a {head.kind} head learns from a teacher",
        fix="Leave the teacher out, or distil tagging, classification, multilabel and regression heads",
    )


def _binary_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """KL between two outcomes, label by label: the cross-entropy less the teacher's own entropy."""
    likely = torch.sigmoid(teacher)
    entropy = -(likely * logsigmoid(teacher) + (1.0 - likely) * logsigmoid(-teacher))
    return binary_cross_entropy_with_logits(student, likely, reduction="none") - entropy
