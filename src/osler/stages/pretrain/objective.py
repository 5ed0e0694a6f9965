"""The loss of pretraining: masked language modelling, alone or with a teacher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from osler.nn.cost import flops_per_token
from osler.nn.distillation import SoftTargets, misalignment, projection_between, real_positions
from osler.nn.masking import MaskingVocabulary
from osler.nn.mlm import IGNORED, MaskedLM
from osler.stages.pretrain.config import Distillation, PretrainRecipe
from osler.stages.pretrain.data import MaskedBatch
from osler.stages.pretrain.model import load_teacher
from osler.train.source import LossOutput


class DistillingLanguageModelling(nn.Module):
    """A student beside a frozen teacher, as the training loop calls it.

    The loop divides what this returns by the masked positions of all micro-batches of a step, M = ΣM_b. So that the quotient is

        mlm · mean(cross-entropy) + kl · mean(KL · T²) + cosine · mean(1 - cos)

    the first two are returned as sums over the M_b masked positions of micro-batch b, and the third, whose mean is over its N_b
    real tokens, as M_b times that mean. Over a step the third is then Σ M_b·mean_b / ΣM_b; batches of one shape have equal M_b and
    equal N_b, which makes it the mean over all real tokens of the step.

    The teacher makes one pass over a micro-batch, without gradients, and its hidden states serve both the divergence (its head runs on
    the masked positions alone) and the alignment. Nothing of it is kept for the backward pass but what the losses compare with,
    so its memory does not grow with accumulation, and it is never run a second time. In evaluation mode it does not run at all: the
    loss is the plain one of the masked language model, and compares with a run that has no teacher.
    """

    uses_every_parameter: bool

    def __init__(
        self, model: MaskedLM, teacher: MaskedLM, settings: Distillation, vocabulary: MaskingVocabulary, *, seed: int
    ) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.entries = vocabulary.size
        self.alike = model.vocab_size == teacher.vocab_size
        self.pad_id = vocabulary.pad_id
        widths = model.hidden_size, teacher.hidden_size
        self.projection = projection_between(*widths, seed=seed) if settings.cosine else None
        # In a tuple, which hides it from torch: not a part of this module, so in no optimiser, checkpoint or exchange of weights.
        self._teacher = (teacher,)

    @property
    def teacher(self) -> MaskedLM:
        """The frozen teacher."""
        return self._teacher[0]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Take the teacher along to another device."""
        self.teacher._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def forward(self, payload: MaskedBatch) -> LossOutput:
        """The loss of one micro-batch; its three parts are logged as means, before their weights."""
        batch, positions, targets = payload.batch, payload.positions, payload.targets
        if not self.training:
            return LossOutput(self.model(batch, positions, targets)[0])
        settings = self.settings
        with torch.no_grad():
            seen = self.teacher.hidden(batch)
            soft = SoftTargets.of(
                self._entries(self.teacher.padded_head(seen.index_select(0, positions))),
                settings.temperature,
                settings.top_k,
            )
        hidden = self.model.hidden(batch)
        scores = self.model.padded_head(hidden.index_select(0, positions)).float()
        known = targets != IGNORED
        masked = known.sum().float()
        mlm = cross_entropy(scores, targets, ignore_index=IGNORED, reduction="sum")
        kl = torch.where(known, soft.divergence(self._entries(scores)), 0.0).sum()
        loss = settings.mlm * mlm + settings.kl * kl
        count = masked.clamp(min=1)
        logs: dict[str, Tensor | float] = {"loss/mlm": mlm.detach() / count, "loss/kl": kl.detach() / count}
        if settings.cosine:
            own = hidden if self.projection is None else self.projection(hidden)
            cosine = misalignment(own, seen, real_positions(batch, self.pad_id))
            loss = loss + settings.cosine * masked * cosine
            logs["loss/cosine"] = cosine.detach()
        return LossOutput(loss, logs)

    def _entries(self, scores: Tensor) -> Tensor:
        """The scores of real entries, where the tables differ in what they hold beyond them.

        Tables of one size are padded alike, and padding has no probability: cutting it off would be a pass over the scores for nothing.
        """
        return scores if self.alike else scores[:, : self.entries]


class MaskedLanguageModelling(nn.Module):
    """The summed cross-entropy of the masked tokens."""

    uses_every_parameter: bool

    def __init__(self, model: MaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, payload: MaskedBatch) -> LossOutput:
        """The loss of one micro-batch."""
        loss_sum, _ = self.model(payload.batch, payload.positions, payload.targets)
        return LossOutput(loss_sum)


Objective = MaskedLanguageModelling | DistillingLanguageModelling


def make_objective(recipe: PretrainRecipe, model: MaskedLM, vocabulary: MaskingVocabulary) -> Objective:
    """What the recipe trains the model by."""
    if recipe.distill is None:
        return MaskedLanguageModelling(model)
    teacher = load_teacher(recipe.distill)
    return DistillingLanguageModelling(model, teacher, recipe.distill, vocabulary, seed=recipe.train.seed)


def training_flops(recipe: PretrainRecipe, objective: Objective) -> float:
    """Operations a token costs in training: the model's both ways, a teacher's forward."""
    rate, length = recipe.masking.rate, recipe.max_length
    own = flops_per_token(objective.model.config, masked_fraction=rate, length=length)
    if not isinstance(objective, DistillingLanguageModelling):
        return own
    return own + flops_per_token(objective.teacher.config, masked_fraction=rate, length=length, backward=False)
