"""Pretraining losses: masked language modelling, alone, with next-sentence prediction or with a teacher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from osler.nn.cost import flops_per_token
from osler.nn.distillation import SoftTargets, misalignment, projection_between
from osler.nn.masking import IGNORED, MaskingVocabulary
from osler.nn.mlm import BertLM, MaskedLM, masked_loss
from osler.stages.pretrain.config import Distillation, PretrainRecipe
from osler.stages.pretrain.data import MaskedBatch
from osler.train.source import LossOutput


class MaskedLanguageModelling(nn.Module):
    """Summed cross-entropy of the masked tokens."""

    uses_every_parameter: bool

    def __init__(self, model: MaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, payload: MaskedBatch) -> LossOutput:
        return LossOutput(self.model(payload.batch, payload.positions, payload.targets)[0])


class NextSentenceModelling(nn.Module):
    """BERT's two losses: the mean cross-entropy of the masked tokens plus that of next-sentence prediction.

    As in DistillingLanguageModelling, the second mean is multiplied by the number of masked positions. In evaluation mode the loss
    covers the masked tokens only, so it is comparable with other runs; sums over the pairs are logged.
    """

    uses_every_parameter: bool

    def __init__(self, model: BertLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, payload: MaskedBatch) -> LossOutput:
        batch, second_texts = payload.batch, payload.second_texts
        assert second_texts is not None
        hidden = self.model.hidden(batch)
        mlm, masked = masked_loss(self.model.padded_head(hidden.index_select(0, payload.positions)), payload.targets)
        # Slots without a sequence point past the last token; their target is IGNORED.
        first_tokens = batch.cu_seqlens[:-1].long().clamp(max=batch.num_tokens - 1)
        scores = self.model.second_text_scores(hidden.index_select(0, first_tokens)).float()
        nsp, pairs = masked_loss(scores, second_texts)
        if not self.training:
            correct = (scores.argmax(1) == second_texts).sum()
            return LossOutput(mlm, {"nsp": nsp, "correct": correct, "pairs": pairs})
        nsp = nsp / pairs.clamp(min=1)
        logs = {"loss/mlm": mlm.detach() / masked.clamp(min=1), "loss/nsp": nsp.detach()}
        return LossOutput(mlm + masked * nsp, logs)


class DistillingLanguageModelling(nn.Module):
    """A student with a frozen teacher.

    The training loop divides the sum of the returned losses by the masked positions of all micro-batches of a step, M = ΣM_b. To
    make the quotient

        mlm · mean(cross-entropy) + kl · mean(KL · T²) + cosine · mean(1 - cos)

    the first two terms are returned as sums over the M_b masked positions of micro-batch b. The third is a mean over the N_b real
    tokens, returned times M_b, so a step gives Σ M_b·mean_b / ΣM_b. Batches of one shape have equal M_b and equal N_b, so that is
    the mean over all real tokens of the step.

    The teacher runs once per micro-batch, without gradients. Its hidden states serve both the divergence (its head runs on the
    masked positions only) and the alignment. Only the loss targets are kept for the backward pass, so memory does not grow
    with accumulation. In evaluation mode the teacher does not run: the loss is that of plain masked language modelling, and
    comparable with a run that has no teacher.
    """

    uses_every_parameter: bool

    def __init__(
        self, model: MaskedLM, teacher: MaskedLM, settings: Distillation, vocabulary: MaskingVocabulary, *, seed: int
    ) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.pad_id = vocabulary.pad_id
        widths = model.hidden_size, teacher.hidden_size
        self.projection = projection_between(*widths, seed=seed) if settings.cosine else None
        # Tables of different sizes are compared on the tokenizer's entries. Tables of equal size are padded alike, and padding has no
        # probability, so cutting it off would waste a pass over the scores.
        self.entries = None if model.vocab_size == teacher.vocab_size else vocabulary.size
        # A tuple hides the teacher from torch: it is in no optimiser, checkpoint or gradient exchange.
        self._teacher = (teacher.eval().requires_grad_(False),)

    @property
    def teacher(self) -> MaskedLM:
        return self._teacher[0]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the teacher to another device together with the student."""
        self.teacher._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def forward(self, payload: MaskedBatch) -> LossOutput:
        """Return the loss of one micro-batch. Its three terms are logged as means, before their weights."""
        batch, positions, targets = payload.batch, payload.positions, payload.targets
        if not self.training:
            return LossOutput(self.model(batch, positions, targets)[0])
        settings = self.settings
        with torch.no_grad():
            teacher_hidden = self.teacher.hidden(batch)
            teacher_scores = self.teacher.padded_head(teacher_hidden.index_select(0, positions))
            soft = SoftTargets.of(teacher_scores[:, : self.entries], settings.temperature, settings.top_k)
        hidden = self.model.hidden(batch)
        scores = self.model.padded_head(hidden.index_select(0, positions)).float()
        known = targets != IGNORED
        masked = known.sum().float()
        mlm = cross_entropy(scores, targets, ignore_index=IGNORED, reduction="sum")
        kl = torch.where(known, soft.divergence(scores[:, : self.entries]), 0.0).sum()
        loss = settings.mlm * mlm + settings.kl * kl
        count = masked.clamp(min=1)
        logs: dict[str, Tensor | float] = {"loss/mlm": mlm.detach() / count, "loss/kl": kl.detach() / count}
        if settings.cosine:
            projected = hidden if self.projection is None else self.projection(hidden)
            # Select real tokens by id, not by count, so that a compiled pass sees one shape for all batches.
            cosine = misalignment(projected, teacher_hidden, batch.input_ids != self.pad_id)
            loss = loss + settings.cosine * masked * cosine
            logs["loss/cosine"] = cosine.detach()
        return LossOutput(loss, logs)


Objective = MaskedLanguageModelling | NextSentenceModelling | DistillingLanguageModelling


def make_objective(recipe: PretrainRecipe, model: MaskedLM, vocabulary: MaskingVocabulary) -> Objective:
    """Make the objective of a recipe, loading the teacher if it has one."""
    if isinstance(model, BertLM):
        return NextSentenceModelling(model)
    if recipe.distill is None:
        return MaskedLanguageModelling(model)
    teacher = MaskedLM.load(recipe.distill.teacher)
    return DistillingLanguageModelling(model, teacher, recipe.distill, vocabulary, seed=recipe.train.seed)


def training_flops(recipe: PretrainRecipe, objective: Objective) -> float:
    """Return the FLOPs per token of training: the model forward and backward, a teacher forward only."""
    rate, length = recipe.masking.rate, recipe.max_length
    flops = flops_per_token(objective.model.config, masked_fraction=rate, length=length)
    if isinstance(objective, DistillingLanguageModelling):
        flops += flops_per_token(objective.teacher.config, masked_fraction=rate, length=length, backward=False)
    return flops
