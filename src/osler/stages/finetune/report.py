"""The model card of a bundle, generated from the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osler.artifacts.bundle import BundleSpec
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.card import Kind


def bundle_card(recipe: FinetuneRecipe, spec: BundleSpec, counts: Mapping[str, Any]) -> str:
    """README.md of the bundle folder."""
    rows = []
    for name, head in spec.heads.items():
        for task, protocol_name in (head.members or {name: head.protocol}).items():
            protocol = head.card.protocol_named(protocol_name)
            lost = sum(counts["not_expressible"].get(task, {}).values())
            score = (
                f"{counts['dev'][task]:.4f} {protocol.metric}" if task in counts["dev"] else _without_dev(task, counts)
            )
            read = head.options.read_otherwise(protocol.decoding) if head.card.kind is Kind.TAGGING else ""
            own = f"{task}/{protocol_name}+{read}" if read else f"{task}/{protocol_name}"
            shown = head.card.protocol_id(protocol_name, read) if task == name else own
            rows.append(f"| {name} | {head.card.kind} | {head.card.language} | {shown} | {score} | {lost} |")
    table = "\n".join(rows)
    return f"""---
library_name: osler
tags: [biomedical, clinical, osler]
---

# Bundle of {len(spec.heads)} head(s) on one encoder

Annotate raw text with `osler annotate FILE --bundle THIS_FOLDER`; load the encoder with stock `AutoModel.from_pretrained(folder)`;
turn one head into a stock Hugging Face model with `osler export --to hf`.

| head | kind | language | protocol | dev score | gold mentions or relations it could not be taught |
|---|---|---|---|---|---|
{table}

Best epoch chosen by the mean of the dev scores (the last one where no head has dev left), at update {counts["best_step"]} of
{counts["steps"]}; test data was not read.
{recipe.epochs} epochs, batches of {recipe.batch_size}, windows of {spec.max_length} tokens overlapping by {spec.overlap},
{recipe.train.optimizer} at {recipe.train.lr:g}, seed {recipe.train.seed}, mixing {recipe.mixing.order}.
{_several(recipe, counts)}{_choices(recipe)}{_teacher(recipe)}"""


def _without_dev(task: str, counts: Mapping[str, Any]) -> str:
    return "none: trained on dev" if task in counts["trained_on"] else "as in the bundle it comes from"


def _several(recipe: FinetuneRecipe, counts: Mapping[str, Any]) -> str:
    lines = []
    if len(counts["batches_trained"]) > 1:
        turns = ", ".join(f"{name} {count:,}" for name, count in counts["batches_trained"].items())
        lines.append(f"Batches trained on, by task: {turns}.")
    if sum(counts["leaked_removed"].values()):
        removed = ", ".join(f"{name} {count:,}" for name, count in counts["leaked_removed"].items() if count)
        lines.append(f"Training documents removed because some task holds them out for choosing or testing: {removed}.")
    for head, members in recipe.joint.items():
        lines.append(
            f"The head {head} has the types of {', '.join(members)}; none of them taught that another's are absent."
        )
    if recipe.mlm:
        lines.append(
            "Raw text was one more task (masked language modelling, `mlm`); its head is not part of the bundle."
        )
    if recipe.rehearse:
        lines.append("The new tasks were added to an older bundle, whose tasks were rehearsed.")
    elif recipe.add_to:
        lines.append("The new heads were added to an older bundle, whose encoder and heads are unchanged.")
    return "".join(f"\n{line}\n" for line in lines)


def choices(recipe: FinetuneRecipe) -> list[str]:
    """What was chosen about heads and training that is not the usual way, a phrase each."""
    frozen = f"embeddings and the first {recipe.freeze} layers" if isinstance(recipe.freeze, int) else recipe.freeze
    lora = recipe.lora
    said = {
        "tags as a chain (CRF)": recipe.tagger == "crf",
        f"{recipe.decoding} decoding of tags": recipe.decoding != "protocol",
        "relations read at entity marks": recipe.relations == "markers",
        "balanced class weights": recipe.class_weights == "balanced",
        f"frozen: {frozen}": recipe.freeze != "nothing",
        f"low-rank adapters of rank {lora.rank}, merged" if lora else "": lora is not None,
        f"{recipe.fraction:.2%} of the training documents": recipe.fraction < 1.0,
        f"each layer at {recipe.train.layer_decay:g} of the rate above it": recipe.train.layer_decay < 1.0,
    }
    return [phrase for phrase, holds in said.items() if holds]


def _choices(recipe: FinetuneRecipe) -> str:
    made = choices(recipe)
    return f"\nChosen: {'; '.join(made)}.\n" if made else ""


def _teacher(recipe: FinetuneRecipe) -> str:
    if recipe.teacher is None:
        return ""
    share, heat = recipe.teacher.weight, recipe.teacher.temperature
    return f"\nDistilled: {share:.0%} of the loss came from the soft labels of a fine-tuned teacher, at temperature {heat:g}.\n"
