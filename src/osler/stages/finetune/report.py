"""Texts about a run: the model card of its bundle, its learning rate, leaks, and warnings about its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osler.artifacts.bundle import Bundle
from osler.artifacts.calibration import BundleCalibration
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.card import Kind
from osler.tasks.leakage import Leaks
from osler.train.loop import TrainResult


def bundle_card(
    recipe: FinetuneRecipe, bundle: Bundle, counts: Mapping[str, Any], leaks: Mapping[str, Leaks], encoder: Any
) -> str:
    """Return the text of a bundle's README.md."""
    spec = bundle.spec
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
{_scores(bundle.calibration)}
{_kept(recipe, counts)} Test data was not read.

Trained for {recipe.epochs} epochs with batches of {recipe.batch_size} and windows of {spec.max_length} tokens (overlap {spec.overlap}):
{recipe.train.optimizer}, learning rate {learning_rate(recipe, encoder)}, seed {recipe.train.seed}, {recipe.mixing.order} mixing.
{"".join(f"{chr(10)}{line}{chr(10)}" for line in _details(recipe, counts, leaks))}"""


def _scores(calibration: BundleCalibration) -> str:
    """Describe what a score of each head means, as measured on dev."""
    if not calibration.heads:
        return ""
    rows, tables = [], []
    for name, head in calibration.heads.items():
        fitted = f"temperature {head.temperature:g}"
        if (head.slope, head.offset) != (1.0, 0.0):
            fitted = f"log-odds x {head.slope:g} {head.offset:+g}"
        at = {label: point for label, point in (("0.5", head.at_score(0.5)), ("0.9", head.at_score(0.9))) if point}
        shown = "; ".join(f"≥ {score}: {point.precision:.2f} / {point.recall:.2f}" for score, point in at.items())
        error = f"{head.error_before:.3f} → {head.error_after:.3f}" if head.predictions else "no predictions"
        rows.append(f"| {name} | {head.predictions:,} | {error} | {fitted} | {shown or 'does not apply'} |")
        bins = "; ".join(f"{row.score:.2f} → {row.right:.2f} ({row.number:,})" for row in head.reliability)
        tables.append(f"| {name} | {bins or 'none'} |")
    table, reliability = "\n".join(rows), "\n".join(tables)
    return f"""
## Scores

A score is the probability that a prediction is right: that a mention has exactly these characters and this label. It was fitted on
dev, and each fifth of dev was measured with what the other four gave.

| head | dev predictions | expected calibration error | fitted | precision / recall on dev by score |
|---|---|---|---|---|
{table}

Mean score → share that is right (predictions), for scores in tenths:

| head | reliability on dev |
|---|---|
{reliability}

`osler annotate` takes `--min-score`, `--threshold LABEL=SCORE` and `--target-recall`, and says what they cost on dev. Other
text than dev needs a check of its own.
"""


def selection(recipe: FinetuneRecipe) -> str:
    """Describe in one phrase which weights a run will keep."""
    mean = f"the mean of the weights after the last {recipe.average_epochs} epochs"
    if recipe.keep == "last":
        return f"keep {mean if recipe.average_epochs else 'the last epoch'}; dev is scored but decides nothing"
    best = "keep the best epoch on dev, or the last one if the protocol trains on dev"
    return f"{best}; keep {mean} if it is at least as good" if recipe.average_epochs else best


def _kept(recipe: FinetuneRecipe, counts: Mapping[str, Any]) -> str:
    """Describe in full sentences which weights a run kept."""
    average = counts.get("average")
    single = f"It is from step {counts['best_step']} of {counts['steps']}."
    if average and average["kept"]:
        chosen = (
            "" if recipe.keep == "last" or not counts["dev"] else ", at least as good on dev as the best single epoch"
        )
        return f"The weights are the mean of those after the last {average['epochs']} epochs{chosen}."
    if recipe.keep == "last":
        return f"The last checkpoint was kept, whatever its dev score. {single}"
    mean = f"; the mean of the last {average['epochs']} epochs was worse" if average else ""
    best = "The checkpoint with the best mean dev score was kept"
    return f"{best} (the last one if no task has a dev split left{mean}).\n{single}"


def learning_rate(recipe: FinetuneRecipe, encoder: Any) -> str:
    """Describe the peak learning rate, and where it comes from if it is the default."""
    rate = recipe.train.lr
    if rate != recipe.default_learning_rate(encoder):
        return f"{rate:g}"
    why = "heads on a frozen encoder"
    if recipe.trains_encoder:
        why = f"a {encoder.model_type} encoder of hidden size {encoder.hidden_size}"
    return f"{rate:g} (the default for {why})"


def describe_leaks(recipe: FinetuneRecipe, name: str, leaks: Leaks) -> str:
    """Describe which training documents of a task are held out elsewhere, where, and what is done with them."""
    owners = ", ".join(f"{owner} ({count:,})" for owner, count in leaks.owners.most_common())
    done = (
        "they are left out (--set leaks=keep trains on them)"
        if recipe.leaks == "remove"
        else "they are trained on (leaks = keep), so scores there are too high"
    )
    short = f"; {leaks.short:,} further copies of fewer than five words stay" if leaks.short else ""
    return f"{name}: {leaks.found:,} of {leaks.of:,} training documents are also in {owners}; {done}{short}"


_LEAST = 0.05
"""An F1 or correlation up to this counts as almost nothing learned."""
_SEVERAL = 3
"""Number of evaluations before a score can be called flat or falling."""


def run_warnings(
    recipe: FinetuneRecipe, result: TrainResult, majority: Mapping[str, float | None], encoder: Any
) -> list[str]:
    """Return warnings, with advice, about tasks that learned almost nothing or got worse.

    `majority` holds, for each task with a dev split, the dev score of always predicting the most frequent class, or None if
    there is no such class.
    """
    found = []
    rate, usual = recipe.train.lr or 0.0, recipe.default_learning_rate(encoder)
    if result.skipped:
        spike = ", or the gradient was a spike" if recipe.train.spike else ""
        found.append(
            f"{result.skipped:,} of {result.step:,} steps were skipped, because loss or gradient was not finite{spike}. "
            f"Lower train.lr (now {rate:g})."
        )
    change = f"try another train.lr (now {rate:g})"
    if not usual / 2 <= rate <= usual * 2:
        change = (
            f"{'raise' if rate < usual else 'lower'} train.lr (now {rate:g}, by default {usual:g} for this encoder)"
        )
    advice = f"Train longer (epochs, now {recipe.epochs}) or {change}."
    evaluations = [record for record in result.history if record["kind"] == "eval"]
    kept = [record for record in result.history if record["kind"] == ("average" if result.averaged else "eval")]
    for name, constant in majority.items():
        scores = [record[name] for record in evaluations]
        best = next(record[name] for record in kept if record["step"] == result.best_step)
        if constant is not None and best <= constant:
            same = f"no better than always giving the most frequent class ({constant:.3f})"
            found.append(f"dev score of {name} is {best:.3f}, {same}. {advice}")
        elif best <= _LEAST:
            found.append(f"dev score of {name} is {best:.3f}: its head has learned almost nothing. {advice}")
        elif len(scores) >= _SEVERAL and max(scores) == min(scores) < 1.0:
            found.append(f"dev score of {name} is {best:.3f} at every evaluation: it does not learn. {advice}")
        elif len(scores) >= _SEVERAL and scores[-1] < 0.8 * max(scores) == 0.8 * scores[0]:
            fell = f"fell from {scores[0]:.3f} at the first evaluation to {scores[-1]:.3f} at the last"
            found.append(f"dev score of {name} {fell}. Lower train.lr (now {rate:g}).")
    return found


def _details(recipe: FinetuneRecipe, counts: Mapping[str, Any], leaks: Mapping[str, Leaks]) -> list[str]:
    lines = [f"Warning: {warning}" for warning in counts.get("warnings", ())]
    if len(counts["batches_trained"]) > 1:
        batches = ", ".join(f"{name} {count:,}" for name, count in counts["batches_trained"].items())
        lines.append(f"Batches by task: {batches}.")
    lines += [f"{describe_leaks(recipe, name, found)}." for name, found in leaks.items() if found.found]
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
    """Describe the options that differ from the default, one phrase each."""
    frozen = f"embeddings and the first {recipe.freeze} layers" if isinstance(recipe.freeze, int) else recipe.freeze
    lora = recipe.lora
    phrases = {
        "CRF tagger": recipe.tagger == "crf",
        f"{recipe.decoding} decoding of tags": recipe.decoding != "protocol",
        "relations read at entity markers": recipe.relations == "markers",
        "heads of one linear layer": recipe.head == "linear",
        "heads on the encoder's own pooler": recipe.head == "pooler",
        "heads that keep their random weights": not recipe.train_heads,
        "balanced class weights": recipe.class_weights == "balanced",
        f"frozen: {frozen}": recipe.freeze != "nothing",
        f"low-rank adapters of rank {lora.rank}, merged" if lora else "": lora is not None,
        f"{recipe.fraction:.2%} of the training documents": recipe.fraction < 1.0,
        f"documents also in forms of {recipe.forms.name}" if recipe.forms else "": recipe.forms is not None,
        f"learning rate of each layer {recipe.train.layer_decay:g} times the one above": recipe.train.layer_decay < 1.0,
    }
    return [phrase for phrase, applies in phrases.items() if applies]
