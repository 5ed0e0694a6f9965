"""Model card and report pages of a finished run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median_high
from typing import Any

from osler.artifacts.corpus import Corpus
from osler.artifacts.corpus_card import SourceCard
from osler.artifacts.encoder import DevicePeak, EncoderWriter, describe_shape
from osler.artifacts.token_shards import SPLITS
from osler.core.console import flop_count, flop_rate
from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Cell, Table, markdown_table
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.data import source_weights

_LICENCES = 5  # maximum licences per source on the card
_POINTS = 400  # maximum points per curve: more would not be visible
_TERMS = {
    "loss/mlm": "masked tokens",
    "loss/kl": "divergence from the teacher",
    "loss/cosine": "alignment",
    "loss/nsp": "next sentence",
}
_PAIRS = (
    "next-sentence prediction (BERT): pairs of texts; in half of them, and where a text is a single sentence, the second is from "
    "another document"
)

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class FinishedPretraining:
    """A finished run: its model, data and results."""

    recipe: PretrainRecipe
    config: Any
    """Hugging Face configuration of the model."""
    vocabulary: int
    corpus: Corpus
    tokenised: Mapping[str, Any]
    """Counts of the tokenised corpus."""
    counts: Mapping[str, Any]
    """Counts of the run."""
    history: Sequence[Mapping[str, Any]]
    flops_per_token: float
    epoch_tokens: int
    """Tokens of one epoch as trained on: with special tokens, and sources repeated by weight."""

    def series(self, kind: str, name: str) -> Points:
        """Pairs (step, value) of one kind of log record."""
        return [(r["step"], r[name]) for r in self.history if r["kind"] == kind and r.get(name) is not None]

    @property
    def epochs(self) -> float:
        return float(self.counts["tokens_seen"] / max(1, self.epoch_tokens))

    @property
    def best_step(self) -> int:
        """The step whose weights were kept; the last one if no validation gave a number."""
        return int(self.counts["best_step"] or self.counts["steps"])

    @property
    def skips(self) -> list[tuple[int, int]]:
        """Pairs (step, steps skipped since the previous log record)."""
        counted = [(0.0, 0.0), *self.series("train", "skipped")]
        return [(int(step), int(new - old)) for (_, old), (step, new) in pairwise(counted) if new > old]

    @property
    def origin(self) -> str:
        """Where the initial weights came from, in words."""
        recipe = self.recipe
        if recipe.distill and recipe.distill.teacher_layers is not None:
            return "from layers of its teacher"
        start = "from a checkpoint" if recipe.start_from else "from random weights"
        swapped = ", its embeddings transferred to a new vocabulary" if recipe.swap_vocabulary else ""
        return start + swapped + (", with a teacher" if recipe.distill else "")

    def settings(self) -> dict[str, str]:
        """Model, objective and optimiser in words."""
        recipe, train, masking = self.recipe, self.recipe.train, self.recipe.masking
        unit = "whole words" if masking.unit == "word" else "single sub-words"
        kept = 1 - masking.mask_share - masking.random_share
        warmup = f"{train.warmup:,} steps" if isinstance(train.warmup, int) else f"{train.warmup:.0%} of the run"
        total = flop_count(self.counts["tokens_seen"] * self.flops_per_token)
        return {
            "architecture": f"{describe_shape(self.config)}, trained {self.origin}",
            "vocabulary": f"{self.vocabulary:,} entries",
            "context": f"{recipe.max_length} tokens; documents packed without padding, no attention across documents",
            "objective": f"masked language model: {masking.rate:.0%} of the sub-words in training (15% in validation), chosen as "
            f"{unit}; {masking.mask_share:.0%} of them masked, {masking.random_share:.0%} random, {kept:.0%} kept",
            **({"second objective": _PAIRS} if recipe.uses_pairs else {}),
            **({"distillation": recipe.distill.describe()} if recipe.distill else {}),
            "optimiser": f"{train.optimizer}, peak learning rate {train.lr:g}, {train.schedule} schedule, warm-up {warmup}, betas "
            f"{train.betas[0]:g} and {train.betas[1]:g}, eps {train.eps:g}, decay {train.weight_decay:g}, clip {train.clip:g}",
            "compute": f"{total}, {flop_count(self.flops_per_token)} per token",
        }

    def sources(self) -> Table | None:
        """The sources of the text; None for a corpus without a card."""
        if not self.corpus.sources:
            return None
        weights = source_weights(self.corpus, self.recipe.source_weights)
        rows: list[list[Cell]] = [
            [name, s.language or "not stated", _licences(s), s.documents, s.words, f"x {weights[name]:g}"]
            for name, s in self.corpus.sources.items()
        ]
        return Table(["source", "language", "licence", "documents", "words", "read"], rows)


def write_reports(writer: EncoderWriter, finished: FinishedPretraining) -> None:
    """Write model card, history and pages into the encoder folder."""
    writer.write_card(model_card(finished), finished.history)
    writer.write_pages(report_page(finished), speed_page(writer.read_log(), writer.read_peak()))


def report_page(finished: FinishedPretraining) -> Page:
    """Build the page about the training run."""
    counts, recipe, tokens = finished.counts, finished.recipe, finished.tokenised
    page = Page("Pretraining", f"A masked language model trained {finished.origin}")
    page.numbers(
        [
            ("parameters", _short(counts["parameters"]), finished.config.model_type),
            ("tokens seen", _short(counts["tokens_seen"]), f"{finished.epochs:.1f} times the training text"),
            ("perplexity", f"{counts['perplexity']:.2f}", f"validation loss {counts['validation_loss']:.3f}"),
            ("best step", f"{finished.best_step:,}", f"of {counts['steps']:,}"),
        ]
    )
    best = f"The weights are those of step **{finished.best_step:,}**, which has the best validation loss."
    page.text(f"{best} Validation documents were never trained on.")

    def plot(title: str, series: Mapping[str, Points], caption: str, *, log_y: bool = False) -> None:
        thinned = {name: _thinned(points) for name, points in series.items()}
        page.figure(curves(thinned, xlabel="steps", ylabel=title.lower(), title=title, log_y=log_y), caption)

    page.heading("Loss")
    terms = {label: points for name, label in _TERMS.items() if (points := finished.series("train", name))}
    # With a teacher the training loss is a weighted sum. Only its masked-token term is comparable with validation.
    training = terms.get(_TERMS["loss/mlm"]) or finished.series("train", "loss")
    both = {"training": training, "validation": finished.series("eval", "validation_loss")}
    plot("Loss", both, f"Cross-entropy of masked tokens. Training masks {recipe.masking.rate:.0%}, validation 15%.")
    if recipe.uses_pairs:
        pairs = {"training": finished.series("train", "loss/nsp"), "validation": finished.series("eval", "nsp_loss")}
        accuracy = f"Validation accuracy at the best step: {counts.get('nsp_accuracy', math.nan):.1%}."
        plot("Next sentence", pairs, f"Cross-entropy of second texts. {accuracy}")
    if recipe.distill and terms:
        plot("Terms of the distillation loss", terms, f"Before their weights: {recipe.distill.describe()}.")
    rate = {"learning rate": finished.series("train", "lr")}
    plot("Learning rate", rate, f"{recipe.train.schedule} schedule, peak {recipe.train.lr:g}.")

    page.heading("Stability")
    skips = finished.skips
    where = ", ".join(f"{count} up to step {step:,}" for step, count in skips[:8])
    more = f" and {len(skips) - 8} times more" if len(skips) > 8 else ""
    total = f"Steps skipped: **{sum(count for _, count in skips):,}** ({where}{more})."
    reasons = "A step is skipped if its loss or gradient is not finite, or its gradient norm spikes."
    page.text(f"{total if skips else 'No step was skipped.'} {reasons}")
    norms = [(step, norm) for step, norm in finished.series("train", "grad_norm") if norm > 0]
    if norms:
        caption = f"Norm of the full gradient before it is clipped to {recipe.train.clip:g}."
        plot("Gradient norm", {"gradient norm": norms}, caption, log_y=True)

    page.heading("Data")
    rows = [[split, tokens[f"{split}_documents"], tokens[f"{split}_tokens"]] for split in SPLITS]
    page.table(Table(["split", "documents", "tokens"], rows, "The tokenised corpus"))
    if sources := finished.sources():
        page.table(replace(sources, caption="Sources of the text"))

    page.heading("Settings")
    step = f"{recipe.accumulate * recipe.batch_tokens:,} tokens: {recipe.accumulate} x {recipe.batch_tokens:,}"
    page.definitions([*finished.settings().items(), ("step", step), ("seed", str(recipe.train.seed))])
    page.text("`recipe.toml` in this folder has every setting. `logs/speed.html` has the speed of training.")
    return page


def speed_page(log: Sequence[Mapping[str, Any]], peak: DevicePeak | None) -> Page | None:
    """Build the page about speed from the run's log; None if nothing was logged."""
    timed = [(record["step"], record["clock"]) for record in log if record["kind"] == "train" and record["clock"]]
    if not timed:
        return None
    speeds = [(step, clock["tokens_per_second"]) for step, clock in timed]
    flops = median_high(clock["flops_per_second"] for _, clock in timed)
    numbers = [
        ("tokens per second", f"{median_high(speed for _, speed in speeds):,.0f}", "median over the log"),
        ("FLOP/s of the model", flop_rate(flops), "median over the log"),
    ]
    if peak:
        share = f"{flops / peak.flops_per_second:.0%}"
        numbers.append(("share of peak", share, f"{flop_rate(peak.flops_per_second)} for matrix products"))
    page = Page("Pretraining speed", f"{peak.devices} x {peak.device}" if peak else "")
    page.numbers(numbers)
    plot = curves({"speed": _thinned(speeds)}, xlabel="steps", ylabel="tokens per second", title="Speed")
    return page.figure(plot, "Without validation and checkpoints. The first point includes any compilation.")


def _thinned(points: Sequence[tuple[float, float]]) -> Points:
    """Average neighbouring points until at most `_POINTS` are left, each at the last step of its group."""
    width = -(-len(points) // _POINTS) or 1
    groups = [points[start : start + width] for start in range(0, len(points), width)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _short(number: int) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:,}"


def _licences(source: SourceCard) -> str:
    """List the licences of a source, most common first, with document counts if there are several."""
    if len(source.licences) < 2:
        return next(iter(source.licences), None) or source.licence or "not stated"
    shown = [f"{name} ({count:,})" for name, count in list(source.licences.items())[:_LICENCES]]
    return "; ".join(
        [*shown, *([f"and {len(source.licences) - _LICENCES} more"] if len(source.licences) > _LICENCES else [])]
    )


def model_card(finished: FinishedPretraining) -> str:
    """Render the README.md of the encoder folder."""
    counts, tokens, recipe = finished.counts, finished.tokenised, finished.recipe
    languages = sorted({source.language for source in finished.corpus.sources.values() if source.language})
    language = f"language: [{', '.join(languages)}]\n" if languages else ""
    facts = {
        **finished.settings(),
        "parameters": f"{counts['parameters']:,}",
        "training text": f"{tokens['train_documents']:,} documents, {tokens['train_tokens']:,} tokens",
        "held out": f"{tokens['validation_documents']:,} documents, {tokens['validation_tokens']:,} tokens",
        "tokens seen": f"{counts['tokens_seen']:,} in {counts['steps']:,} steps, {finished.epochs:.1f} times the training text",
        "steps skipped": f"{sum(count for _, count in finished.skips):,} (loss not finite, or a gradient spike)",
        "validation loss": f"{counts['validation_loss']:.4f}, perplexity {counts['perplexity']:.2f}, at 15% masking",
        "best checkpoint": f"step {finished.best_step:,} of {counts['steps']:,}, chosen by validation loss: these are its weights",
    }
    if "nsp_accuracy" in counts:
        facts["next sentence"] = (
            f"accuracy {counts['nsp_accuracy']:.1%}, loss {counts['nsp_loss']:.4f} on validation pairs"
        )
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    data = "The corpus has no card, so its sources are not known."
    if sources := finished.sources():
        licence = (
            "The licence of the text limits what you may do with the model. Where it is not stated, find it out first."
        )
        data = f"{markdown_table(sources)}\n{licence}"
    what = "patient, or of their text where no patient is known," if finished.corpus.has_patients else "text"
    return f"""---
library_name: transformers
pipeline_tag: fill-mask
{language}tags: [biomedical, clinical, osler{", distillation" if recipe.distill else ""}]
---

# Encoder pretrained with osler

A masked language model trained {finished.origin}.

## Use

```python
from transformers import pipeline

fill = pipeline("fill-mask", model="FOLDER")  # this folder
fill(f"The patient was given {{fill.tokenizer.mask_token}} for pain.")
```

For token vectors, use `AutoModel.from_pretrained("FOLDER")`. To train it on tasks, use `osler finetune TASK --model FOLDER`.

## Intended use

As a starting point: fine-tune it to extract entities and relations from biomedical and clinical text, or to classify or compare such
text, and evaluate the result on your own data. It does not answer questions or give advice, and it is not a medical device. It has
not been validated for decisions about patients.

## Facts

| | |
|---|---|
{table}

`report.html` has the curves, `recipe.toml` every setting, `manifest.json` the hashes of all inputs.

## Training data

{data}

Validation documents were chosen by a hash of their {what} and never trained on.

## Limits

- The model knows the language, specialties, hospitals and years of the text above, and little else. It repeats the biases of that
  text, including those about groups of people.
- The validation loss is for documents of the same corpus. It says nothing about other text, and losses of models with different
  vocabularies are not comparable.
- Contexts longer than {recipe.max_length} tokens were not trained.

## Confidentiality

A model can memorise its training text. If the corpus contains patients' notes, treat these weights like the notes: share them only
under the agreement that covers the notes, and assume that parts of the text can be extracted from them.
"""
