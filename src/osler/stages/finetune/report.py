"""The model card of a bundle, generated from the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osler.bundle.spec import BundleSpec
from osler.stages.finetune.config import FinetuneRecipe


def bundle_card(recipe: FinetuneRecipe, spec: BundleSpec, counts: Mapping[str, Any]) -> str:
    """README.md of the bundle folder."""
    rows = []
    for name, head in spec.heads.items():
        protocol = head.card.protocol_named(head.protocol)
        lost = sum(counts["not_expressible"].get(name, {}).values())
        score = f"{counts['dev'][name]:.4f} {protocol.metric}" if name in counts["dev"] else "none: trained on dev"
        rows.append(
            f"| {name} | {head.card.kind} | {head.card.language} | {head.card.protocol_id(head.protocol)} | {score} | {lost} |"
        )
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
{_teacher(recipe)}"""


def _teacher(recipe: FinetuneRecipe) -> str:
    if recipe.teacher is None:
        return ""
    share, heat = recipe.teacher.weight, recipe.teacher.temperature
    return f"\nDistilled: {share:.0%} of the loss came from the soft labels of a fine-tuned teacher, at temperature {heat:g}.\n"
