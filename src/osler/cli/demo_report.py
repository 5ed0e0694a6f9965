"""The demo's report page: an annotated note, the heads, the study's tables, learning curves and the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import Encoder
from osler.core.artifact import Artifact
from osler.formats.registry import get_format
from osler.report.page import Page
from osler.report.plots import curves
from osler.report.tables import Column, Table
from osler.stages.study.page import study_summary
from osler.text.document import Document


def write_report(made: Mapping[str, Artifact], path: Path) -> Path:
    """Write the report from the artifacts of the six stages."""
    corpus, encoder, heads = (made[name].manifest.counts for name in ("corpus", "pretrain", "finetune"))
    page = Page("osler demo", "Raw text to annotations, on notes the synthetic clinic wrote")
    page.numbers(
        [
            ("documents", f"{corpus['documents']:,}", f"of {corpus['read']:,} read"),
            ("vocabulary", f"{made['vocab'].manifest.counts['size']:,}", "byte-level tokens"),
            ("parameters", f"{encoder['parameters'] / 1e6:.2f} M", f"perplexity {encoder['perplexity']:.1f}"),
            ("heads", str(heads["heads"]), "on one encoder"),
        ]
    )
    page.text(
        "Every number below was measured in this run, on text that the models did not see in training. The notes, the people in "
        "them and the gold annotations are synthetic. The encoder is tiny and was trained for about a minute, so the scores show "
        "that the flow works, not how good a real model is."
    )
    note = next(iter(get_format("jsonl").read(made["annotate"].path / "annotations.jsonl")))
    assert isinstance(note, Document)
    page.heading("A note, annotated")
    page.text("Raw text in; entities, protected health information and relations out, from one encoder.")
    page.note(note, "Predictions of the bundle in a note it never saw, not gold.")
    _add_heads(page, made["finetune"])
    page.heading("What pretraining buys")
    found = study_summary(made["study"].path)
    page.text(
        "The same encoder with and without its pretrained weights. The full report of this study: `study/report.html`.\n\n"
        f"**{found.verdict[0]}**\n\n" + "\n\n".join(found.verdict[1:])
    )
    for table in found.tables:
        page.table(table)
    history = Encoder.open(made["pretrain"].path).history
    losses = {
        "training": [(record["step"], record["loss"]) for record in history if record["kind"] == "train"],
        "validation": [(record["step"], record["validation_loss"]) for record in history if record["kind"] == "eval"],
    }
    page.heading("Pretraining")
    page.figure(
        curves(losses, xlabel="steps", ylabel="loss", title="Masked language model"),
        "Training masks 20 % of the tokens, validation 15 %.",
    )
    card = Corpus.open(made["corpus"].path).card
    assert card is not None
    page.heading("The corpus")
    rows: list[list[str | int]] = [["kept", card.documents]]
    rows += [[f"removed: {reason}", number] for reason, number in sorted(card.removed.items())]
    page.table(
        Table(["", "documents"], rows, "The raw documents", "The corpus's ledger lists every removal with its reason.")
    )
    return page.write(path)


def _add_heads(page: Page, bundle: Artifact) -> None:
    counts, spec = bundle.manifest.counts, BundleSpec.load(bundle.path)
    rows: list[list[str | float | int]] = [
        [
            head.card.protocol_id(head.protocol),
            head.card.kind,
            head.card.protocol_named(head.protocol).metric,
            counts["dev"][name],
            counts["batches_an_epoch"][name],
            sum(counts["not_expressible"].get(name, {}).values()),
        ]
        for name, head in spec.heads.items()
    ]
    dev = Column("dev x 100", digits=1, scale=100)
    columns: list[Column | str] = ["head and protocol", "kind", "metric", dev, "batches", "not expressible"]
    note = (
        "Batches per epoch: round robin gives every head as many turns as the largest task. Not expressible: gold that the head "
        "cannot represent (overlapping or discontinuous mentions, relations across sentences). It stays in gold and costs recall."
    )
    page.heading("One encoder, many heads")
    page.table(Table(columns, rows, "The heads of the bundle", note))
    history = [record for record in Bundle.read_history(bundle.path) if record["kind"] == "eval"]
    series = {name: [(item["step"], 100 * item[name]) for item in history if name in item] for name in spec.heads}
    page.figure(
        curves(series, xlabel="steps", ylabel="dev score x 100", title="Learning curves"),
        "Dev score of each head while all of them train together.",
    )
