"""The model card of a pretrained encoder, generated from the run."""

from __future__ import annotations

from osler.core.console import flop_count
from osler.stages.pretrain.outcome import Outcome


def model_card(outcome: Outcome) -> str:
    """README.md of the encoder folder."""
    counts, tokens, recipe = outcome.counts, outcome.tokenised, outcome.recipe
    sources = outcome.sources()
    languages = sorted({source.language for source in sources} - {"not stated"})
    facts = {
        "architecture": outcome.shape,
        "parameters": f"{counts['parameters']:,}",
        "vocabulary": f"{outcome.vocabulary:,} entries",
        "context": f"{recipe.max_length} tokens; documents packed without padding, no attention across their borders",
        "objective": f"masked language model, {outcome.masking}",
        **({"distillation": outcome.distillation} if outcome.distillation else {}),
        "training text": f"{tokens['train_documents']:,} documents, {tokens['train_tokens']:,} tokens",
        "held out": f"{tokens['validation_documents']:,} documents, {tokens['validation_tokens']:,} tokens",
        "tokens seen": f"{counts['tokens_seen']:,} in {counts['steps']:,} updates, {outcome.epochs:.1f} times the training text",
        "compute": f"{flop_count(outcome.flops)}, {flop_count(outcome.flops_per_token)} a token",
        "optimiser": outcome.optimiser,
        "stability": f"{outcome.skipped:,} updates skipped (not finite, or a gradient spike)",
        "validation loss": f"{counts['validation_loss']:.4f}, perplexity {counts['perplexity']:.2f}, at 15% masking",
        "best checkpoint": f"update {outcome.best_step:,} of {counts['steps']:,}, chosen by validation loss: these are its weights",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    language = f"language: [{', '.join(languages)}]\n" if languages else ""
    tags = "[biomedical, clinical, osler, distillation]" if recipe.distill else "[biomedical, clinical, osler]"
    return f"""---
library_name: transformers
pipeline_tag: fill-mask
{language}tags: {tags}
---

# Encoder pretrained with osler

A masked language model trained {outcome.start}{" beside a larger teacher" if recipe.distill else ""}.

## Use

```python
from transformers import pipeline

fill = pipeline("fill-mask", model="FOLDER")  # this folder
fill(f"The patient was given {{fill.tokenizer.mask_token}} for pain.")
```

For vectors of words, `AutoModel.from_pretrained("FOLDER")`; to teach it tasks, `osler finetune TASK --model FOLDER`.

## Intended use

As a starting point: fine-tune it for finding mentions and relations, classifying or comparing biomedical and clinical text, and measure
the result on data of your own. It answers no questions and gives no advice, and is not a medical device. Nobody has checked it for
decisions about patients.

## Facts

| | |
|---|---|
{table}

`report.html` has the curves, `recipe.toml` every setting, `manifest.json` the hashes of everything it was made from.

## Training data

{_sources(outcome)}

Validation documents were chosen by a hash of their text and never trained on.

## Limits

- It knows the language, the specialties, the hospitals and the years of the text above, and little else. What that text says too
  often or too seldom about groups of people, it repeats.
- The validation loss is about documents of the same corpus. It says nothing about other text, and losses of models with different
  vocabularies do not compare.
- Contexts longer than {recipe.max_length} tokens were not trained.

## Confidentiality

A model can memorise what it was trained on. If the corpus holds patients' notes, treat these weights as you treat the notes: share
them only under the agreement that covers the notes, and assume that parts of the text can be read out of them.
"""


def _sources(outcome: Outcome) -> str:
    sources = outcome.sources()
    if not sources:
        return "The corpus has no card, so its sources are not known."
    lines = ["| source | language | licence | documents | words | read |", "|---|---|---|---|---|---|"]
    for source in sources:
        cells = (
            source.name,
            source.language,
            source.licence,
            f"{source.documents:,}",
            f"{source.words:,}",
            f"x {source.weight:g}",
        )
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(
        [*lines, "", "The licence of the text binds what may be done with the model; where it is not stated, find out."]
    )
