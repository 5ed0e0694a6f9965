"""Pretrain an encoder with the masked language model, and write it as a Hugging Face folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress, training_status
from osler.core.files import fingerprint, remove_tree, write_atomic
from osler.nn.flops import flops_per_token
from osler.stages.pretrain.batches import PretrainSource, validation_batches
from osler.stages.pretrain.config import Masking, PretrainRecipe
from osler.stages.pretrain.masking import Masker
from osler.stages.pretrain.model import make_model
from osler.stages.pretrain.objective import MaskedLanguageModelling
from osler.stages.pretrain.report import model_card
from osler.stages.pretrain.stream import PieceStream
from osler.stages.pretrain.tokens import TokenisedDocuments, tokenise
from osler.stages.pretrain.vocabulary import Vocabulary
from osler.tasks.tokens import Tokens, copy_tokenizer
from osler.train.loop import train
from osler.train.run import StepReport
from osler.train.selection import BestOf
from osler.train.source import move


def run(recipe: PretrainRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the encoder artifact."""
    corpus = Artifact.open(recipe.corpus, kind="corpus")
    tokenizer_json = recipe.tokenizer / "tokenizer.json"
    vocabulary = Vocabulary.of(Tokens.load(recipe.tokenizer))
    parents: dict[str, str | Artifact] = {"corpus": corpus, "tokenizer": fingerprint([tokenizer_json])}
    if recipe.start_from:
        parents["start_from"] = fingerprint(sorted(recipe.start_from.glob("*.safetensors")))

    def build(work: Workspace) -> None:
        shards = tokenise(
            corpus, tokenizer_json, recipe.tokens or out.with_name(f"{out.name}.tokens"), recipe.validation_share
        )
        _Pretraining(recipe, vocabulary, shards).run(work)

    return produce(out, kind="encoder", recipe=recipe, parents=parents, build=build, force=force, together=True)


class _Pretraining:
    def __init__(self, recipe: PretrainRecipe, vocabulary: Vocabulary, shards: Artifact) -> None:
        self.recipe = recipe
        self.vocabulary = vocabulary
        self.shards = shards
        self.streams = {
            split: PieceStream(
                TokenisedDocuments.open(shards.path, split),
                recipe.max_length,
                vocabulary.prefix,
                vocabulary.suffix,
                recipe.train.seed if split == "train" else None,
            )
            for split in ("train", "validation")
        }
        self.masker = Masker(vocabulary, recipe.masking)
        self.validation_masker = Masker(vocabulary, Masking())

    def run(self, work: Workspace) -> None:
        recipe = self.recipe
        model = make_model(recipe, self.vocabulary)
        source = PretrainSource(
            self.streams["train"],
            self.masker,
            seed=recipe.train.seed,
            batch_tokens=recipe.batch_tokens,
            accumulate=recipe.accumulate,
            steps=recipe.train.steps or self._epoch_steps(),
            max_length=recipe.max_length,
            pad_id=self.vocabulary.pad_id,
        )
        objective = MaskedLanguageModelling(model)
        # Our own presets have no idle weights; of a checkpoint from elsewhere that is not known.
        objective.uses_every_parameter = recipe.start_from is None
        with progress("pretrain", len(source)) as bar:

            def show(report: StepReport) -> None:
                bar.update(completed=report.step, status=training_status(report.loss, report.tokens_per_second))

            result = train(
                objective,
                source,
                recipe.train,
                folder=work.path,
                evaluate=self._validate,
                best=BestOf("validation_loss", "min"),
                flops_per_token=flops_per_token(
                    model.config, masked_fraction=recipe.masking.rate, length=recipe.max_length
                ),
                on_step=show,
            )
        if not work.main:
            return
        remove_tree(work.path / "checkpoints")
        model.save(work.path)
        copy_tokenizer(recipe.tokenizer, work.path)
        loss = float(result.best_value if result.best_value is not None else math.nan)
        work.counts.update(
            parameters=sum(p.numel() for p in model.parameters()),
            steps=result.step,
            best_step=result.best_step,
            tokens_seen=result.step * recipe.accumulate * recipe.batch_tokens,
            validation_loss=round(loss, 6),
            perplexity=round(math.exp(loss), 4),
        )
        write_atomic(work.path / "README.md", model_card(recipe, self.shards, work.counts))
        write_atomic(work.path / "history.json", json.dumps(list(result.history), indent=1) + "\n")

    def _epoch_steps(self) -> int:
        return max(1, self.streams["train"].epoch_tokens // (self.recipe.batch_tokens * self.recipe.accumulate))

    def _validate(self, module: nn.Module, step: int) -> Mapping[str, float]:
        device = next(module.parameters()).device
        loss = weight = 0.0
        batches = validation_batches(
            self.streams["validation"],
            self.validation_masker,
            batch_tokens=self.recipe.batch_tokens,
            limit=self.recipe.validation_tokens,
            max_length=self.recipe.max_length,
            pad_id=self.vocabulary.pad_id,
        )
        with torch.inference_mode():
            for batch in batches:
                loss += float(module(move(batch.payload, device)).loss_sum)
                weight += batch.weight
        mean = loss / max(1.0, weight)
        return {"validation_loss": mean, "perplexity": math.exp(min(mean, 50.0))}
