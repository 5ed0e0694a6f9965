"""Losses between a student and a frozen teacher, for language models and task heads.

Divergences carry the factor T² of Hinton et al. (2015) and of DistilBERT's code: gradients through a softmax at temperature T shrink
by 1/T², so the factor keeps the balance with the other losses at any temperature. lewis2020 does not write the factor out, but says
that it follows DistilBERT, which has it. Softmaxes are computed in float32 at any training precision, because the tails of a
vocabulary of 50,000 vanish in bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, kl_div, log_softmax, logsigmoid

from osler.core.errors import RecipeError
from osler.nn.folders import seeded
from osler.nn.heads.base import IGNORED, Head, total

# Smallest probability of the tokens outside the top k: 1 - sum is exact to about 1e-7.
_LEAST_REST = 1e-6


@dataclass(frozen=True)
class SoftTargets:
    """The teacher's distributions at a temperature: log-probabilities [M, V], or [M, k + 1] for k tokens and the rest."""

    log_probabilities: Tensor
    tokens: Tensor | None
    temperature: float

    @classmethod
    def of(cls, logits: Tensor, temperature: float, top_k: int | None = None) -> SoftTargets:
        """Build the targets from the teacher's scores. With `top_k`, all but the k most likely tokens count as one."""
        full = log_softmax(logits.float() / temperature, dim=-1)
        if top_k is None or top_k >= logits.shape[-1] - 1:  # merging one token or none saves nothing
            return cls(full, None, temperature)
        likeliest, tokens = full.topk(top_k, dim=-1)
        return cls(_with_rest(likeliest), tokens, temperature)

    def divergence(self, logits: Tensor) -> Tensor:
        """Return KL(teacher ‖ student) x T² of each row, for the student's scores [M, V]."""
        own = log_softmax(logits.float() / self.temperature, dim=-1)
        if self.tokens is not None:
            own = _with_rest(own.gather(-1, self.tokens))
        return kl_div(own, self.log_probabilities, reduction="none", log_target=True).sum(-1) * self.temperature**2


def _with_rest(log_probabilities: Tensor) -> Tensor:
    """Append the remaining probability to make each row a distribution again."""
    rest = (1.0 - log_probabilities.exp().sum(-1, keepdim=True)).clamp(min=_LEAST_REST).log()
    return torch.cat([log_probabilities, rest], dim=-1)


def misalignment(student: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
    """Return the mean of 1 - cosine between hidden states [T, H], over the real positions."""
    distances = 1.0 - cosine_similarity(student.float(), teacher.float(), dim=-1)
    return torch.where(real, distances, 0.0).sum() / real.sum().clamp(min=1)


def projection_between(student: int, teacher: int, *, seed: int) -> nn.Linear | None:
    """Return a linear layer from the student's width to the teacher's; None if they are equal."""
    if student == teacher:
        return None
    with seeded(seed, "projection"):
        return nn.Linear(student, teacher)


def soft_loss(head: Head, logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Return the summed loss of a task head against its teacher's outputs, over the rows that `head.loss` counts.

    `targets` only says which rows have gold: a row without it (padding, a later sub-word of a word) has no loss here either, so
    hard and soft losses are sums over the same rows and can be mixed. For one label of many the loss is KL x T². For multilabel
    heads it is the KL of each label's two outcomes x T², averaged over the known labels of a row. For regression it is the squared
    distance, without a temperature.
    """
    if head.kind in ("tagging", "classification", "markers"):
        return total(SoftTargets.of(teacher, temperature).divergence(logits), targets != IGNORED, None)[0]
    if head.kind == "multilabel":
        known = ~torch.isnan(targets)
        losses = _binary_divergence(logits.float() / temperature, teacher.float() / temperature) * known
        labels = known.sum(dim=1)
        return total(losses.sum(dim=1) * temperature**2 / labels.clamp(min=1), labels > 0, None)[0]
    if head.kind == "attributes":
        losses = _binary_divergence(logits.float() / temperature, teacher.float() / temperature).mean(dim=1)
        return total(losses * temperature**2, targets != IGNORED, None)[0]
    if head.kind == "regression":
        return total((logits.float() - teacher.float()).squeeze(1).square(), ~torch.isnan(targets), None)[0]
    raise RecipeError(
        f"distillation is not supported for a {head.kind} head",
        fix="Leave the teacher out; tagging, attribute, classification, multilabel and regression heads are supported",
    )


def _binary_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the KL divergence of each label: the cross-entropy minus the teacher's own entropy."""
    likely = torch.sigmoid(teacher)
    entropy = -(likely * logsigmoid(teacher) + (1.0 - likely) * logsigmoid(-teacher))
    return binary_cross_entropy_with_logits(student, likely, reduction="none") - entropy
