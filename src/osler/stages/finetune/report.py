"""The model card of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osler.artifacts.bundle import BundleSpec
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.card import Kind


def bundle_card(recipe: FinetuneRecipe, spec: BundleSpec, counts: Mapping[str, Any]) -> str:
    """Write README.md of a bundle."""
    rows = []
    for task, (name, protocol_name) in spec.tasks.items():
        head = spec.heads[name]
        protocol = head.card.protocol_named(protocol_name)
        if task in counts["dev"]:
            score = f"{counts['dev'][task]:.4f} {protocol.metric}"
        else:
            score = "none: trained on dev" if task in counts["trained_on"] else "as in the original bundle"
        read = head.options.other_decoding(protocol.decoding) if head.card.kind is Kind.TAGGING else ""
        own = f"{task}/{protocol_name}+{read}" if read else f"{task}/{protocol_name}"
        shown = head.card.protocol_id(protocol_name, read) if task == name else own
        lost = sum(counts["not_expressible"].get(task, {}).values())
        rows.append(f"| {name} | {head.card.kind} | {head.card.language} | {shown} | {score} | {lost} |")
    table = "\n".join(rows)
    return f"""---
library_name: osler
tags: [biomedical, clinical, osler]
---

# Bundle of {len(spec.heads)} head(s) on one encoder

Annotate raw text with `osler annotate FILE --bundle THIS_FOLDER`. Load the encoder with `AutoModel.from_pretrained(folder)`.
Export one head as a stock Hugging Face model with `osler export --to hf`.

| head | kind | language | protocol | dev score | gold annotations it cannot express |
|---|---|---|---|---|---|
{table}

The checkpoint with the best mean dev score was kept (the last one if no task has a dev split left).
It is from step {counts["best_step"]} of {counts["steps"]}. Test data was not read.

Trained for {recipe.epochs} epochs with batches of {recipe.batch_size} and windows of {spec.max_length} tokens (overlap {spec.overlap}):
{recipe.train.optimizer}, learning rate {recipe.train.lr:g}, seed {recipe.train.seed}, {recipe.mixing.order} mixing.
{"".join(f"{chr(10)}{line}{chr(10)}" for line in _details(recipe, counts))}"""


def _details(recipe: FinetuneRecipe, counts: Mapping[str, Any]) -> list[str]:
    lines = []
    if len(counts["batches_trained"]) > 1:
        batches = ", ".join(f"{name} {count:,}" for name, count in counts["batches_trained"].items())
        lines.append(f"Batches by task: {batches}.")
    if sum(counts["leaked_removed"].values()):
        removed = ", ".join(f"{name} {count:,}" for name, count in counts["leaked_removed"].items() if count)
        lines.append(f"Training documents removed because a task holds them out for dev or test: {removed}.")
    for head, members in recipe.joint.items():
        lines.append(
            f"The joint head {head} has the entity types of {', '.join(members)}; each task annotates only its own types."
        )
    if recipe.mlm:
        lines.append("Masked language modelling on raw text (`mlm`) was an additional task; its head is not included.")
    if recipe.rehearse:
        lines.append("The new tasks were added to an existing bundle, whose tasks were trained again (rehearsed).")
    elif recipe.add_to:
        lines.append("The new heads were added to an existing bundle, whose encoder and heads did not change.")
    if choices(recipe):
        lines.append(f"Options: {'; '.join(choices(recipe))}.")
    if recipe.teacher:
        lines.append(
            f"Distilled: {recipe.teacher.weight:.0%} of the loss is on the soft labels of a fine-tuned teacher, "
            f"at temperature {recipe.teacher.temperature:g}."
        )
    return lines


def choices(recipe: FinetuneRecipe) -> list[str]:
    """Options that differ from the default, one phrase each."""
    frozen = f"embeddings and the first {recipe.freeze} layers" if isinstance(recipe.freeze, int) else recipe.freeze
    lora = recipe.lora
    phrases = {
        "CRF tagger": recipe.tagger == "crf",
        f"{recipe.decoding} decoding of tags": recipe.decoding != "protocol",
        "relations read at entity markers": recipe.relations == "markers",
        "balanced class weights": recipe.class_weights == "balanced",
        f"frozen: {frozen}": recipe.freeze != "nothing",
        f"low-rank adapters of rank {lora.rank}, merged" if lora else "": lora is not None,
        f"{recipe.fraction:.2%} of the training documents": recipe.fraction < 1.0,
        f"learning rate of each layer {recipe.train.layer_decay:g} times the one above": recipe.train.layer_decay < 1.0,
    }
    return [phrase for phrase, applies in phrases.items() if applies]
