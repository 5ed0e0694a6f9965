"""Card of an exported head: its scores in osler and in transformers, and how to load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osler.artifacts.bundle_spec import BundleSpec
from osler.tasks.card import Kind
from osler.tasks.instances.base import Builder


@dataclass(frozen=True)
class Measured:
    """Scores of a head, in points of 100: in osler, in the folder's own pipeline, and in a stock pipeline."""

    where: str
    """The data it was measured on."""
    metric: str
    """Metric of the task's protocol, or `agreement` with osler without gold data."""
    records: int
    osler: float
    own: float
    stock: float
    strategy: str
    """Best `aggregation_strategy` for this head; "" for heads that label texts."""

    @property
    def loss(self) -> float:
        """Points lost with the folder's own pipeline."""
        return round(self.osler - self.own, 6)

    @property
    def stock_loss(self) -> float:
        """Points lost with a stock pipeline."""
        return round(self.osler - self.stock, 6)


WITHIN = 0.5
"""Points within which the card calls two scores equal."""


def head_card(name: str, builder: Builder, spec: BundleSpec, measured: Sequence[Measured]) -> str:
    """Write README.md of an exported head."""
    card = builder.card
    tagging = card.kind is Kind.TAGGING
    task = "token-classification" if tagging else "text-classification"
    return f"""---
library_name: transformers
pipeline_tag: {task}
language: {card.language}
tags: [biomedical, clinical, osler]
---

# {name}

{card.title}. One head of a bundle made with osler: {", ".join(card.labels) or "a number"}.
Trained under {card.protocol_id(spec.heads[name].protocol)}. Licence of the training data: {card.licence}.

{_scores(measured)}

## The folder's own pipeline

`osler_pipeline.py` reads and decodes text as osler does: the same words, windows and tag sequences. It needs numpy, tokenizers, torch and
transformers, but not osler. You import it yourself, so that `trust_remote_code` is not needed.

```python
{_own_code(builder)}
```

## The stock pipeline

```python
{_stock_code(builder, spec, measured)}
```

{_differences(builder, measured)}
"""


def _scores(measured: Sequence[Measured]) -> str:
    if measured[0].metric == "agreement":
        [one] = measured
        return (
            f"**No score was measured**, because no task folder was given to `osler export` (`--task FOLDER`). On {one.records} sample "
            f"texts, {one.own:.1f} % of the predictions of the folder's own pipeline and of osler are the same, and {one.stock:.1f} % "
            "with a stock pipeline."
        )
    rows = "\n".join(
        f"| {m.where} | {m.metric} | {m.records:,} | {m.osler:.1f} | {m.own:.1f} | {m.stock:.1f} |" for m in measured
    )
    return (
        "Measured at export, on plain text, in points of 100:\n\n"
        "| data | metric | records | osler | own pipeline | stock pipeline |\n|---|---|---|---|---|---|\n" + rows
    )


def _own_code(builder: Builder) -> str:
    tagging = builder.card.kind is Kind.TAGGING
    kind = "OslerTokenClassification" if tagging else "OslerTextClassification"
    task = "token-classification" if tagging else "text-classification"
    return f"""import sys
from transformers import pipeline

folder = "."  # this folder
sys.path.insert(0, folder)
from osler_pipeline import {kind}

read = pipeline("{task}", model=folder, pipeline_class={kind})
print(read({_example(builder)}))"""


def _stock_code(builder: Builder, spec: BundleSpec, measured: Sequence[Measured]) -> str:
    if builder.card.kind is not Kind.TAGGING:
        return f"""from transformers import pipeline

read = pipeline("text-classification", model=".")
print(read({_example(builder)}, truncation=True, top_k=None))"""
    return f"""from transformers import pipeline

read = pipeline("token-classification", model=".", aggregation_strategy="{measured[0].strategy}", stride={spec.overlap})
print(read({_example(builder)}))"""


def _example(builder: Builder) -> str:
    return '"Text"' if builder.card.record == "document" else '{"text": "One text", "text_pair": "Another"}'


def _differences(builder: Builder, measured: Sequence[Measured]) -> str:
    worst = max(measured, key=lambda each: each.stock_loss)
    what = "agreement with osler" if worst.metric == "agreement" else worst.metric
    if worst.stock_loss <= WITHIN:
        return f"Here it is within {WITHIN} points of osler: either pipeline will do."
    lost = f"**It loses {worst.stock_loss:.1f} points of {what}**, so use the folder's own pipeline."
    if builder.card.kind is Kind.TAGGING:
        return (
            f"{lost} A stock pipeline predicts every token by itself, where osler predicts words and only legal sequences of tags; it "
            "takes text between two spaces for a word unless the vocabulary is WordPiece; and it cuts long texts at other places."
        )
    return f"{lost} A stock pipeline reads the beginning of a long text only, and a pair in one order only."
