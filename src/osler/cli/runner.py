"""One run of a study: a fine-tuning and its evaluation. Here, because stages do not know each other and the command line knows both."""

from __future__ import annotations

import json
from pathlib import Path

from osler.core.artifact import Artifact
from osler.core.config import validate
from osler.stages.study.runs import RunSpec


class LocalRunner:
    """Runs in this process; it has no state, so it can be sent to another."""

    def identify(self, model: str) -> str:
        """A digest of the weights, the shape and the vocabulary."""
        from osler.nn.folders import model_digest, resolve

        return model_digest(resolve(model))

    def __call__(self, spec: RunSpec, folder: Path) -> Artifact:
        """Fine-tune, then score the study's split once."""
        from osler.stages.evaluate import run as evaluate
        from osler.stages.evaluate.config import EvaluateRecipe
        from osler.stages.finetune import run as finetune
        from osler.stages.finetune.config import FinetuneRecipe

        settings = json.loads(spec.settings)
        train = {**settings.pop("train", {}), "seed": spec.seed}
        values = {**settings, "model": spec.model, "tasks": [spec.task], "train": train}
        recipe = validate(FinetuneRecipe, values, where="the study's finetune settings")
        finetune.run(recipe, folder / "bundle")
        evaluation = EvaluateRecipe(bundle=folder / "bundle", task=spec.task, split=spec.split)
        return evaluate.run(evaluation, folder / "evaluation")
