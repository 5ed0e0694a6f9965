"""The pages of a finished run: its curves, stability, data and settings; and apart from them its speed.

`report.html` is a part of the artifact and the same for the same run. What the clock said goes to `logs/speed.html`, which is
hashed as little as the logs it is drawn from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osler.core.artifact import LOGS
from osler.core.console import flop_count, flop_rate
from osler.core.files import write_atomic
from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Cell, Table
from osler.stages.pretrain.card import model_card
from osler.stages.pretrain.outcome import Outcome
from osler.stages.pretrain.progress import PEAK

_POINTS = 400  # of a curve: what a page can show, however long the run
_PARTS = {"loss/mlm": "masked tokens", "loss/kl": "divergence from the teacher", "loss/cosine": "alignment"}


def write_reports(folder: Path, outcome: Outcome) -> None:
    """Write model card, history and pages into the folder of the encoder."""
    write_atomic(folder / "README.md", model_card(outcome))
    write_atomic(folder / "history.json", json.dumps(list(outcome.history), indent=1) + "\n")
    report_page(outcome).write(folder / "report.html")
    speed = speed_page(folder / LOGS)
    if speed is not None:
        speed.write(folder / LOGS / "speed.html")


def report_page(outcome: Outcome) -> Page:
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


def _learning(page: Page, outcome: Outcome) -> None:
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


def _stability(page: Page, outcome: Outcome) -> None:
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


def _skips(outcome: Outcome) -> str:
    """Where the count went up."""
    rises, before = [], 0
    for step, skipped in outcome.series("train", "skipped"):
        if skipped > before:
            rises.append(f"{int(skipped - before)} up to update {int(step):,}")
        before = int(skipped)
    return ", ".join(rises[:8]) + (f" and {len(rises) - 8} times more" if len(rises) > 8 else "")


def _data(page: Page, outcome: Outcome) -> None:
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


def _settings(page: Page, outcome: Outcome) -> None:
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
