"""The page the demo ends with: what each stage made, the learning curves, the study's tables and one annotated note."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osler.artifacts.bundle import BundleSpec
from osler.artifacts.corpus import Corpus
from osler.core.artifact import Artifact
from osler.formats.registry import get_format
from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Column, Table
from osler.stages.study.page import score_tables
from osler.text.document import Document


def write_report(made: Mapping[str, Artifact], path: Path) -> Path:
    """Write the page from the artifacts of the six stages."""
    page = Page("osler demo", "Raw text to annotations, on notes the synthetic clinic wrote")
    _overview(page, made)
    _note(page, made["annotate"])
    _heads(page, made["finetune"])
    _study(page, made["study"])
    _pretraining(page, made["pretrain"])
    _corpus(page, Corpus.open(made["corpus"].path))
    return page.write(path)


def _overview(page: Page, made: Mapping[str, Artifact]) -> None:
    corpus, encoder, bundle = (made[name].manifest.counts for name in ("corpus", "pretrain", "finetune"))
    page.numbers(
        [
            ("documents", f"{corpus['documents']:,}", f"of {corpus['read']:,} read"),
            ("vocabulary", f"{made['vocab'].manifest.counts['size']:,}", "byte-level tokens"),
            ("parameters", f"{encoder['parameters'] / 1e6:.2f} M", f"perplexity {encoder['perplexity']:.1f}"),
            ("heads", str(bundle["heads"]), "on one encoder"),
        ]
    )
    page.text(
        "Every number below was measured in this run, on text that the models did not see in training. The notes, the people in "
        "them and the gold annotations are synthetic. The encoder is tiny and was trained for about a minute: the point is the "
        "road, not the height."
    )


def _note(page: Page, annotations: Artifact) -> None:
    document = next(iter(get_format("jsonl").read(annotations.path / "annotations.jsonl")))
    assert isinstance(document, Document)
    page.heading("A note, annotated")
    page.text(
        "Raw text in; entities, protected health information and relations out, from one encoder. Predictions, not gold."
    )
    page.note(document, "What the bundle found in a note it had never seen.")


def _heads(page: Page, bundle: Artifact) -> None:
    page.heading("One encoder, many heads")
    counts = bundle.manifest.counts
    spec = BundleSpec.load(bundle.path)
    rows: list[list[str | float | int]] = []
    for name, head in spec.heads.items():
        lost = sum(counts["not_expressible"].get(name, {}).values())
        metric = head.card.protocol_named(head.protocol).metric
        rows.append(
            [
                head.card.protocol_id(head.protocol),
                head.card.kind,
                metric,
                counts["dev"][name],
                counts["batches_an_epoch"][name],
                lost,
            ]
        )
    columns: list[Column | str] = [
        "head and protocol",
        "kind",
        "metric",
        Column("dev x 100", digits=1, scale=100),
        "batches",
        "not taught",
    ]
    note = (
        "Batches an epoch: round robin gives every head as many turns as the largest task. Not taught: gold that the head cannot "
        "express (overlapping or discontinuous mentions, relations across sentences); it stays in gold and costs recall."
    )
    page.table(Table(columns, rows, "The heads of the bundle", note))
    history = _history(bundle)
    series = {
        name: [
            (record["step"], 100 * record[name]) for record in history if record["kind"] == "eval" and name in record
        ]
        for name in spec.heads
    }
    page.figure(
        curves(series, xlabel="updates", ylabel="dev score x 100", title="Learning curves"),
        "Dev score of each head while all learn together.",
    )


def _study(page: Page, study: Artifact) -> None:
    page.heading("What pretraining buys")
    page.text("The same encoder with and without its pretrained weights. More of this study: `study/report.html`.")
    for table in score_tables(study.path):
        page.table(table)


def _pretraining(page: Page, encoder: Artifact) -> None:
    history = _history(encoder)
    series = {
        "training": [(record["step"], record["loss"]) for record in history if record["kind"] == "train"],
        "validation": [(record["step"], record["validation_loss"]) for record in history if record["kind"] == "eval"],
    }
    page.heading("Pretraining")
    page.figure(
        curves(series, xlabel="updates", ylabel="loss", title="Masked language model"),
        "Training masks 20 %, validation 15 %.",
    )


def _corpus(page: Page, corpus: Corpus) -> None:
    card = corpus.card
    assert card is not None
    page.heading("The corpus")
    rows: list[list[str | int]] = [["kept", card.documents]]
    rows += [[f"removed: {reason}", number] for reason, number in sorted(card.removed.items())]
    page.table(
        Table(
            ["", "documents"],
            rows,
            "What became of the raw documents",
            "Every removal is in the corpus's ledger with its reason.",
        )
    )


def _history(artifact: Artifact) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = json.loads((artifact.path / "history.json").read_text())
    return history
