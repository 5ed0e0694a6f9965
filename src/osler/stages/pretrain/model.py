"""The model of a run: new, loaded, or with another vocabulary."""

from __future__ import annotations

from osler.core.errors import ArtifactError
from osler.nn.mlm import MaskedLM
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.vocabulary import Vocabulary


def make_model(recipe: PretrainRecipe, vocabulary: Vocabulary) -> MaskedLM:
    """The model at the start of the run, the same for the same recipe."""
    if recipe.start_from:
        model = MaskedLM.load(recipe.start_from)
        if model.config.vocab_size < vocabulary.size:
            raise ArtifactError(
                f"the checkpoint knows {model.config.vocab_size:,} tokens, the tokenizer has {vocabulary.size:,}",
                where=recipe.start_from,
                fix="Continue with the checkpoint's own tokenizer",
            )
        return model
    return MaskedLM.from_preset(
        recipe.preset,
        vocab_size=vocabulary.size,
        max_length=recipe.max_length,
        pad_token_id=vocabulary.pad_id,
        seed=recipe.train.seed,
    )
