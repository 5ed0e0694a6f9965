"""The model as the training loop calls it: alone, or beside a teacher."""

from __future__ import annotations

from torch import nn

from osler.nn.flops import flops_per_token
from osler.nn.mlm import MaskedLM
from osler.stages.pretrain.batches import MaskedBatch
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.distill import DistillingLanguageModelling
from osler.stages.pretrain.teacher import load_teacher
from osler.tasks.mlm.vocabulary import Vocabulary
from osler.train.source import LossOutput


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


def make_objective(recipe: PretrainRecipe, model: MaskedLM, vocabulary: Vocabulary) -> Objective:
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
