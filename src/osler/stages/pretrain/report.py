"""Model card and report pages of a finished run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.artifacts.corpus import Corpus
from osler.core.artifact import LOGS
from osler.core.console import flop_count, flop_rate
from osler.core.files import write_atomic
from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Cell, Table
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.data import source_weights
from osler.stages.pretrain.progress import PEAK


@dataclass(frozen=True)
class SourceShare:
    """One source of the corpus, as its card has it."""

    name: str
    language: str
    licence: str
    documents: int
    words: int
    weight: float
    """How often it was read, relative to once an epoch."""


@dataclass(frozen=True)
class FinishedPretraining:
    """What was trained, on what, and what came of it."""

    recipe: PretrainRecipe
    config: Any
    """The Hugging Face configuration of the model."""
    vocabulary: int
    corpus: Corpus
    tokenised: Mapping[str, Any]
    """The counts of the tokenised corpus."""
    counts: Mapping[str, Any]
    """The counts of the run."""
    history: Sequence[Mapping[str, Any]]
    flops_per_token: float
    epoch_tokens: int
    """Tokens of one epoch as training reads it: special tokens included, each source as often as its weight says."""

    def sources(self) -> list[SourceShare]:
        """Where the text is from; empty for a corpus without a card."""
        if not self.corpus.sources:
            return []
        weights = source_weights(self.corpus, self.recipe.source_weights)
        return [
            SourceShare(
                name,
                source.language or "not stated",
                source.licence or "not stated",
                source.documents,
                source.words,
                weights[name],
            )
            for name, source in self.corpus.sources.items()
        ]

    def series(self, kind: str, name: str) -> list[tuple[float, float]]:
        """A value of the history by update."""
        return [
            (record["step"], record[name])
            for record in self.history
            if record["kind"] == kind and record.get(name) is not None
        ]

    @property
    def flops(self) -> float:
        """The work of the whole run."""
        return float(self.counts["tokens_seen"] * self.flops_per_token)

    @property
    def epochs(self) -> float:
        """How often the training text was read."""
        return float(self.counts["tokens_seen"] / max(1, self.epoch_tokens))

    @property
    def best_step(self) -> int:
        """The update whose weights were kept; the last one where no validation gave a number."""
        return int(self.counts["best_step"] or self.counts["steps"])

    @property
    def skipped(self) -> int:
        """Updates left out because loss or gradient was not finite, or the gradient a spike."""
        counted = [record.get("skipped", 0) for record in self.history if record["kind"] == "train"]
        return int(counted[-1]) if counted else 0

    @property
    def start(self) -> str:
        """What the weights were before the first update."""
        recipe = self.recipe
        if recipe.distill and recipe.distill.teacher_layers is not None:
            return "from layers of the teacher"
        if recipe.start_from:
            swapped = ", its embeddings carried over to a new vocabulary" if recipe.swap_vocabulary else ""
            return f"onward from a checkpoint{swapped}"
        return "from random weights"

    @property
    def shape(self) -> str:
        """The architecture in one line."""
        config = self.config
        inner = getattr(config, "intermediate_size", None) or config.hidden_dim
        return (
            f"{config.model_type}: {config.num_hidden_layers} layers of width {config.hidden_size}, "
            f"{config.num_attention_heads} heads, inner width {inner:,}"
        )

    @property
    def masking(self) -> str:
        """The objective in one line."""
        masking = self.recipe.masking
        unit = "whole words" if masking.unit == "word" else "sub-words one by one"
        kept = 1 - masking.mask_share - masking.random_share
        return (
            f"{masking.rate:.0%} of the sub-words in training (15% in validation), chosen as {unit}; of them "
            f"{masking.mask_share:.0%} masked, {masking.random_share:.0%} random, {kept:.0%} kept"
        )

    @property
    def distillation(self) -> str:
        """Teacher and weights in one line; empty without a teacher."""
        settings = self.recipe.distill
        if settings is None:
            return ""
        top = f", its {settings.top_k} likeliest tokens" if settings.top_k else ""
        return (
            f"{settings.mlm:g} x masked tokens + {settings.kl:g} x divergence from the teacher at temperature "
            f"{settings.temperature:g}{top} + {settings.cosine:g} x alignment of last hidden states"
        )

    @property
    def optimiser(self) -> str:
        """Optimiser and schedule in one line."""
        train = self.recipe.train
        warmup = f"{train.warmup:,} updates" if isinstance(train.warmup, int) else f"{train.warmup:.0%} of the run"
        return (
            f"{train.optimizer}, peak rate {train.lr:g}, {train.schedule} schedule, warm-up {warmup}, "
            f"betas {train.betas[0]:g} and {train.betas[1]:g}, eps {train.eps:g}, decay {train.weight_decay:g}, clip {train.clip:g}"
        )


def model_card(outcome: FinishedPretraining) -> str:
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


def _sources(outcome: FinishedPretraining) -> str:
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


_POINTS = 400  # of a curve: what a page can show, however long the run
_PARTS = {"loss/mlm": "masked tokens", "loss/kl": "divergence from the teacher", "loss/cosine": "alignment"}


def write_reports(folder: Path, outcome: FinishedPretraining) -> None:
    """Write model card, history and pages into the folder of the encoder."""
    write_atomic(folder / "README.md", model_card(outcome))
    write_atomic(folder / "history.json", json.dumps(list(outcome.history), indent=1) + "\n")
    report_page(outcome).write(folder / "report.html")
    speed = speed_page(folder / LOGS)
    if speed is not None:
        speed.write(folder / LOGS / "speed.html")


def report_page(outcome: FinishedPretraining) -> Page:
    """The page about what was learned."""
    counts = outcome.counts
    beside = " beside a teacher" if outcome.recipe.distill else ""
    page = Page("Pretraining", f"A masked language model trained {outcome.start}{beside}")
    page.numbers(
        [
            ("parameters", _short(counts["parameters"]), outcome.config.model_type),
            ("tokens seen", _short(counts["tokens_seen"]), f"{outcome.epochs:.1f} times the training text"),
            ("perplexity", f"{counts['perplexity']:.2f}", f"validation loss {counts['validation_loss']:.3f}"),
            ("best update", f"{outcome.best_step:,}", f"of {counts['steps']:,}"),
        ]
    )
    page.text(
        f"The weights are those of update **{outcome.best_step:,}**, the best by validation loss on documents that were never "
        "trained on, always with 15% masked."
    )
    _learning(page, outcome)
    _stability(page, outcome)
    _data(page, outcome)
    _settings(page, outcome)
    return page


def _learning(page: Page, outcome: FinishedPretraining) -> None:
    page.heading("Learning")
    training, validation = outcome.series("train", "loss"), outcome.series("eval", "validation_loss")
    parts = {said: outcome.series("train", name) for name, said in _PARTS.items()}
    parts = {said: _thinned(points) for said, points in parts.items() if points}
    # With a teacher the training loss is a weighted sum: of its parts only the masked tokens compare with validation.
    comparable = outcome.series("train", "loss/mlm") if parts else training
    page.figure(
        curves(
            {"training": _thinned(comparable), "validation": validation}, xlabel="updates", ylabel="loss", title="Loss"
        ),
        f"Cross-entropy of masked tokens. Training masks {outcome.recipe.masking.rate:.0%}, validation 15%.",
    )
    if parts:
        page.figure(
            curves(parts, xlabel="updates", ylabel="loss", title="The parts of the distillation loss"),
            f"Each before its weight: {outcome.distillation}.",
        )
    page.figure(
        curves(
            {"learning rate": _thinned(outcome.series("train", "lr"))},
            xlabel="updates",
            ylabel="learning rate",
            title="Learning rate",
        ),
        f"{outcome.recipe.train.schedule} schedule, peak {outcome.recipe.train.lr:g}.",
    )


def _stability(page: Page, outcome: FinishedPretraining) -> None:
    page.heading("Stability")
    norms = [(step, norm) for step, norm in outcome.series("train", "grad_norm") if norm > 0]
    said = (
        "No update was skipped."
        if not outcome.skipped
        else f"**{outcome.skipped:,}** updates were skipped: {_skips(outcome)}."
    )
    page.text(f"{said} An update is skipped when its loss or gradient is not finite, or its gradient a spike.")
    if norms:
        page.figure(
            curves(
                {"gradient norm": _thinned(norms)},
                xlabel="updates",
                ylabel="gradient norm",
                title="Gradient norm",
                log_y=True,
            ),
            f"Norm of the whole gradient before it is clipped to {outcome.recipe.train.clip:g}; mean where points are dense.",
        )


def _skips(outcome: FinishedPretraining) -> str:
    """Where the count went up."""
    rises, before = [], 0
    for step, skipped in outcome.series("train", "skipped"):
        if skipped > before:
            rises.append(f"{int(skipped - before)} up to update {int(step):,}")
        before = int(skipped)
    return ", ".join(rises[:8]) + (f" and {len(rises) - 8} times more" if len(rises) > 8 else "")


def _data(page: Page, outcome: FinishedPretraining) -> None:
    page.heading("Data")
    tokens = outcome.tokenised
    rows = [
        ["training", tokens["train_documents"], tokens["train_tokens"]],
        ["validation", tokens["validation_documents"], tokens["validation_tokens"]],
    ]
    page.table(Table(["part", "documents", "tokens"], rows, "The tokenised corpus"))
    sources: list[list[Cell]] = [
        [s.name, s.language, s.licence, s.documents, s.words, f"x {s.weight:g}"] for s in outcome.sources()
    ]
    if sources:
        page.table(
            Table(["source", "language", "licence", "documents", "words", "read"], sources, "Where the text is from")
        )


def _settings(page: Page, outcome: FinishedPretraining) -> None:
    recipe = outcome.recipe
    page.heading("Settings")
    update = recipe.accumulate * recipe.batch_tokens
    pairs = {
        "architecture": outcome.shape,
        "start": outcome.start,
        "vocabulary": f"{outcome.vocabulary:,} entries",
        "context": f"{recipe.max_length} tokens",
        "update": f"{update:,} tokens: {recipe.accumulate} x {recipe.batch_tokens:,}",
        "objective": outcome.masking,
        "distillation": outcome.distillation,
        "optimiser": outcome.optimiser,
        "compute": f"{flop_count(outcome.flops)}, {flop_count(outcome.flops_per_token)} a token",
        "seed": str(recipe.train.seed),
    }
    page.definitions((name, value) for name, value in pairs.items() if value)
    page.text("`recipe.toml` in this folder has every setting. `logs/speed.html` shows how fast it went.")


def speed_page(logs: Path) -> Page | None:
    """The page about speed, from the run's log; None where nothing was logged."""
    path = logs / "log.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    clock = [(record["step"], record["clock"]) for record in records if record["kind"] == "train" and record["clock"]]
    if not clock:
        return None
    peak: dict[str, Any] = json.loads((logs / PEAK).read_text(encoding="utf-8")) if (logs / PEAK).is_file() else {}
    speeds = [(step, rates["tokens_per_second"]) for step, rates in clock]
    flops = [(step, rates["flops_per_second"]) for step, rates in clock]
    usual, work = _median(speeds), _median(flops)
    numbers = [
        ("tokens a second", f"{usual:,.0f}", "median of the log windows"),
        ("model work", flop_rate(work), "median"),
    ]
    if peak:
        share = f"{work / peak['flops_per_second']:.0%}"
        numbers.append(("share of peak", share, f"{flop_rate(peak['flops_per_second'])} for matrix products"))
    page = Page("Speed of the pretraining", f"{peak['devices']} x {peak['device']}" if peak else "")
    page.numbers(numbers)
    page.figure(
        curves({"speed": _thinned(speeds)}, xlabel="updates", ylabel="tokens a second", title="Speed"),
        "Training alone: validation and checkpoints are not counted. The first window holds the compilation, if there is one.",
    )
    return page


def _median(points: Sequence[tuple[float, float]]) -> float:
    values = sorted(value for _, value in points)
    return values[len(values) // 2]


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points: means of neighbours, at the update of the last of them."""
    width = -(-len(points) // _POINTS)
    groups = [points[start : start + width] for start in range(0, len(points), width)] if width else []
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _short(number: int) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:,}"
