"""Pretrain an encoder with the masked language model, and write it as a Hugging Face folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress, training_status
from osler.core.errors import ArtifactError
from osler.core.files import fingerprint, remove_tree, write_atomic
from osler.nn.flops import flops_per_token
from osler.nn.mlm import MaskedLM
from osler.stages.pretrain.batches import MaskedBatch, PretrainSource, validation_batches
from osler.stages.pretrain.config import Masking, PretrainRecipe
from osler.stages.pretrain.masking import Masker
from osler.stages.pretrain.report import model_card
from osler.stages.pretrain.stream import PieceStream
from osler.stages.pretrain.tokens import TokenisedDocuments, tokenise
from osler.tasks.tokens import Tokens, copy_tokenizer
from osler.train.loop import train
from osler.train.run import StepReport
from osler.train.selection import BestOf
from osler.train.source import LossOutput, move


def plan(recipe: PretrainRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    start = (
        f"continue from {recipe.start_from}"
        if recipe.start_from
        else f"a new {recipe.preset} encoder from random weights"
    )
    steps = recipe.train.steps or 0
    seen = steps * recipe.accumulate * recipe.batch_tokens
    return [
        f"pretrain {start} on {recipe.corpus} with the vocabulary of {recipe.tokenizer}",
        f"{steps:,} updates of {recipe.accumulate} x {recipe.batch_tokens:,} tokens = {seen:,} tokens, context {recipe.max_length}",
        f"masking {recipe.masking.rate:.0%} (validation always 15%), peak rate {recipe.train.lr:g}, {recipe.train.schedule} schedule",
        f"write it to {out}",
    ]


def run(recipe: PretrainRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the encoder artifact."""
    corpus = Artifact.open(recipe.corpus, kind="corpus")
    tokenizer_json = recipe.tokenizer / "tokenizer.json"
    tokens = Tokens.load(recipe.tokenizer)
    parents: dict[str, str | Artifact] = {"corpus": corpus, "tokenizer": fingerprint([tokenizer_json])}
    if recipe.start_from:
        parents["start_from"] = fingerprint(sorted(recipe.start_from.glob("*.safetensors")))

    def build(work: Workspace) -> None:
        shards = tokenise(
            corpus, tokenizer_json, recipe.tokens or out.with_name(f"{out.name}.tokens"), recipe.validation_share
        )
        _Pretraining(recipe, tokens, shards).run(work)

    return produce(out, kind="encoder", recipe=recipe, parents=parents, build=build, force=force, together=True)


class _Objective(nn.Module):
    """The model as the loop calls it."""

    uses_every_parameter: bool

    def __init__(self, model: MaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, payload: MaskedBatch) -> LossOutput:
        loss_sum, _ = self.model(payload.batch, payload.positions, payload.targets)
        return LossOutput(loss_sum)


class _Pretraining:
    def __init__(self, recipe: PretrainRecipe, tokens: Tokens, shards: Artifact) -> None:
        self.recipe = recipe
        self.shards = shards
        tokenizer = tokens.tokenizer
        self.pad_id = _special(tokenizer, "<pad>", "[PAD]")
        self.mask_id = _special(tokenizer, "<mask>", "[MASK]")
        self.special_ids = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self.vocab_size = tokenizer.get_vocab_size()
        self.streams = {
            split: PieceStream(
                TokenisedDocuments.open(shards.path, split),
                recipe.max_length,
                tokens.prefix,
                tokens.suffix,
                recipe.train.seed if split == "train" else None,
            )
            for split in ("train", "validation")
        }
        self.masker = Masker(self.mask_id, self.special_ids, self.vocab_size, recipe.masking)
        self.validation_masker = Masker(self.mask_id, self.special_ids, self.vocab_size, Masking())

    def run(self, work: Workspace) -> None:
        recipe = self.recipe
        model = self._model()
        source = PretrainSource(
            self.streams["train"],
            self.masker,
            seed=recipe.train.seed,
            batch_tokens=recipe.batch_tokens,
            accumulate=recipe.accumulate,
            steps=recipe.train.steps or self._epoch_steps(),
            max_length=recipe.max_length,
            pad_id=self.pad_id,
        )
        objective = _Objective(model)
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

    def _model(self) -> MaskedLM:
        recipe = self.recipe
        if recipe.start_from:
            model = MaskedLM.load(recipe.start_from)
            if model.config.vocab_size < self.vocab_size:
                raise ArtifactError(
                    f"the checkpoint knows {model.config.vocab_size:,} tokens, the tokenizer has {self.vocab_size:,}",
                    where=recipe.start_from,
                    fix="Continue with the checkpoint's own tokenizer",
                )
            return model
        return MaskedLM.from_preset(
            recipe.preset,
            vocab_size=self.vocab_size,
            max_length=recipe.max_length,
            pad_token_id=self.pad_id,
            seed=recipe.train.seed,
        )

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
            pad_id=self.pad_id,
        )
        with torch.inference_mode():
            for batch in batches:
                loss += float(module(move(batch.payload, device)).loss_sum)
                weight += batch.weight
        mean = loss / max(1.0, weight)
        return {"validation_loss": mean, "perplexity": math.exp(min(mean, 50.0))}


def _special(tokenizer: Tokenizer, *names: str) -> int:
    for name in names:
        number = tokenizer.token_to_id(name)
        if number is not None:
            return int(number)
    raise ArtifactError(f"the tokenizer has no {names[0]} token", fix="Train one with osler vocab, or add the token")
