"""The bundle artifact: one encoder, its tokenizer and many heads, ready to annotate raw text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError

from osler.artifacts.tokenizer import Tokenizer
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, RecipeError, nearest
from osler.core.files import write_atomic
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import Packed, pack
from osler.tasks.card import Kind, TaskCard
from osler.tasks.instances.base import Builder, HeadOptions, Instance, document_windows, make_builder
from osler.tasks.scoring import Scored, score
from osler.text.document import Document, Record, Relation, Span, number_spans
from osler.text.label_scores import noted_scores, score_key
from osler.text.subwords import SubwordTokenizer

FILE = "bundle.json"


class BundleHead(Recipe):
    """One head: the task it was taught and the protocol it was taught under."""

    card: TaskCard
    protocol: str
    options: HeadOptions = HeadOptions()
    members: dict[str, str] | None = None
    """Of a head that several tasks taught: those tasks, and the protocol of each. `card` then has the labels of all of them."""


class BundleSpec(Recipe):
    """All heads, and how documents are cut for every one of them."""

    max_length: int
    overlap: int
    heads: dict[str, BundleHead]

    def save(self, folder: Path) -> None:
        """Write `bundle.json`."""
        write_atomic(folder / FILE, self.model_dump_json(indent=2, exclude_none=True) + "\n")

    @classmethod
    def load(cls, folder: Path) -> BundleSpec:
        """Read `bundle.json`."""
        path = folder / FILE
        if not path.is_file():
            raise ArtifactError(f"no {FILE} here", where=folder, fix="Give the folder that osler finetune made")
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            first = error.errors()[0]
            place = "".join(f"{part}: " for part in first["loc"])
            raise ArtifactError(f"damaged: {place}{first['msg']}", where=path, fix="Make the bundle again") from None


_BUDGET = {"cpu": 4_096, "cuda": 65_536}


def run_heads(
    model: MultiHeadModel, instances: Sequence[Instance], heads: Sequence[str]
) -> dict[str, list[np.ndarray]]:
    """The outputs of each head for each instance, in the order given: [tokens, outputs] or [outputs] an instance."""
    device = next(model.parameters()).device
    results: dict[str, list[np.ndarray]] = {head: [np.empty(0)] * len(instances) for head in heads}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for group in _groups(instances, _BUDGET[device.type]):
                chosen = [instances[index] for index in group]
                batch = pack_instances(chosen, model).to(device)
                for head, output in model(batch, heads).items():
                    values = output.float().cpu().numpy()
                    borders = np.cumsum([instance.length for instance in chosen])[:-1]
                    pieces = np.split(values, borders) if model.heads[head].level == "token" else list(values)
                    for index, piece in zip(group, pieces, strict=True):
                        results[head][index] = piece
    finally:
        model.train(training)
    return results


def pack_instances(instances: Sequence[Instance], model: MultiHeadModel, **shape: int) -> Packed:
    """Pack instances as this model's encoder wants them, with segment ids only where it has embeddings for them.

    `shape` is what `pack` takes to fill a batch up: total, max_sequences, max_length.
    """
    config = model.encoder.config
    types = None
    if getattr(config, "type_vocab_size", 1) > 1:
        types = [np.zeros(i.length, dtype=np.int64) if i.types is None else i.types for i in instances]
    marks = [instance.marks for instance in instances if instance.marks is not None]
    ids = [instance.ids for instance in instances]
    return pack(ids, token_types=types, marks=marks or None, pad_id=config.pad_token_id or 0, **shape)


def _groups(instances: Sequence[Instance], budget: int) -> list[list[int]]:
    """Indices of instances of like length, each group within the budget."""
    order = sorted(range(len(instances)), key=lambda index: -instances[index].length)
    groups: list[list[int]] = []
    used = budget
    for index in order:
        length = instances[index].length
        if used + length > budget:
            groups.append([])
            used = 0
        groups[-1].append(index)
        used += length
    return groups


class Bundle:
    """An encoder with its heads, ready to predict."""

    def __init__(self, model: MultiHeadModel, tokens: SubwordTokenizer, spec: BundleSpec) -> None:
        self.model = model
        self.tokens = tokens
        self.spec = spec

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> Bundle:
        """Load a bundle folder onto a device."""
        spec = BundleSpec.load(folder)
        model = MultiHeadModel.load(folder)
        name = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        return cls(model.to(name), Tokenizer.open(folder), spec)

    def save(self, folder: Path, tokenizer_from: Path) -> None:
        """Write the folder: Hugging Face encoder, heads, tokenizer and what the heads mean."""
        self.model.save(folder)
        self.spec.save(folder)
        Tokenizer.open(tokenizer_from).copy_to(folder)

    @cached_property
    def builders(self) -> dict[str, Builder]:
        """The builder of each head."""
        return {
            name: make_builder(
                head.card, head.protocol, self.tokens, self.spec.max_length, self.spec.overlap, head.options
            )
            for name, head in self.spec.heads.items()
        }

    def head(self, name: str) -> BundleHead:
        """What a head was taught, or an error for a head that is not here."""
        if name not in self.spec.heads:
            close = nearest(name, self.spec.heads)
            hint = f"Did you mean {close!r}? " if close else ""
            raise RecipeError(f"this bundle has no head {name!r}", fix=f"{hint}Heads: {', '.join(self.spec.heads)}")
        return self.spec.heads[name]

    def instances(self, name: str, records: Sequence[Record]) -> list[Instance]:
        """What one head sees of the records; whoever predicts them again and again makes this once."""
        self.head(name)
        return self.builders[name].build(records, gold=False).instances

    def predict(
        self, name: str, records: Sequence[Record], instances: Sequence[Instance] | None = None
    ) -> list[Record]:
        """One head's predictions. Relations are predicted between the spans that the documents carry."""
        if instances is None:
            instances = self.instances(name, records)
        return self._decode(name, records, instances, run_heads(self.model, instances, [name])[name])

    def _decode(
        self, name: str, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        """What the outputs of a head mean, by its builder; a chain is decoded with the steps as its head has learned them."""
        builder = self.builders[name]
        steps = self.model.head(name).steps()
        builder.steps = None if steps is None else steps.cpu().numpy()
        return builder.decode(records, instances, outputs)

    def predict_task(
        self, name: str, card: TaskCard, records: Sequence[Record], instances: Sequence[Instance] | None = None
    ) -> list[Record]:
        """One head's predictions for a task: of a head that has more types of entities, those of the task alone."""
        predicted = self.predict(name, records, instances)
        if card.kind is not Kind.TAGGING:
            return predicted
        return [found.only(card.labels) if isinstance(found, Document) else found for found in predicted]

    def evaluate(
        self,
        name: str,
        gold: Sequence[Record],
        card: TaskCard | None = None,
        protocol: str | None = None,
        instances: Sequence[Instance] | None = None,
        *,
        main_only: bool = False,
    ) -> Scored:
        """Predict with one head and score under its protocol; of a head with several tasks say which, and its protocol."""
        head = self.head(name)
        card, protocol = card or head.card, protocol or head.protocol
        predicted = self.predict_task(name, card, gold, instances)
        return score(card, card.protocol_named(protocol), gold, predicted, main_only=main_only)

    def document_heads(self, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """The heads that annotate raw documents: those named, or all, in one language where it is given."""
        chosen = [name for name in names or self.spec.heads if self.head(name).card.record == "document"]
        if language is not None:
            chosen = [name for name in chosen if self.spec.heads[name].card.language == language]
        if not chosen:
            raise RecipeError(
                "no head of this bundle is left to annotate with",
                fix=f"Choose other heads or another language. Heads: {', '.join(self.spec.heads)}",
            )
        return chosen

    def annotate(self, documents: Sequence[Document], heads: Sequence[str] | None = None) -> list[Document]:
        """Raw text to entities, labels and values, all heads in one encoder pass; then relations between what was found."""
        names = self.document_heads() if heads is None else heads
        plain = [Document(document.id, document.text, meta=document.meta) for document in documents]
        shared = [name for name in names if self.builders[name].windowed]
        instances = document_windows(self.tokens, plain, self.spec.max_length, self.spec.overlap)
        outputs = run_heads(self.model, instances, shared)
        results = plain
        for name in names:
            if self.spec.heads[name].card.kind is Kind.RELATION:
                continue  # needs the mentions first
            if name in outputs:
                predicted = self._decode(name, plain, instances, outputs[name])
            else:  # a head that reads sentences sees them as it was taught
                predicted = self.predict(name, plain)
            results = [_joined(result, found, name) for result, found in zip(results, predicted, strict=True)]
        results = [result.with_(spans=number_spans(_distinct(result.spans))) for result in results]
        for name in names:
            card = self.spec.heads[name].card
            if card.kind is Kind.RELATION:
                narrowed = [result.only(card.entity_labels).with_(relations=()) for result in results]
                predicted = self.predict(name, narrowed)
                results = [_related(result, found) for result, found in zip(results, predicted, strict=True)]
        return results


def _distinct(spans: Sequence[Span]) -> list[Span]:
    """Of mentions that several heads found alike, the one with the best score."""
    best: dict[object, Span] = {}
    for span in spans:
        known = best.get(span.key)
        if known is None or (span.score or 0.0) > (known.score or 0.0):
            best[span.key] = span
    return list(best.values())


def _joined(result: Document, found: Record, head: str) -> Document:
    """Add what one head found. Document labels carry the name of their head, for two heads may share a label."""
    if not isinstance(found, Document):
        return result
    # Ids of different heads clash; they are given anew once every head has spoken.
    spans = (*result.spans, *(replace(span, id="", attributes={"head": head}) for span in found.spans))
    labels = (*result.labels, *(f"{head}:{label}" for label in found.labels))
    meta = dict(result.meta)
    meta |= {score_key(f"{head}:{label}"): text for label, text in noted_scores(found).items()}
    if found.value is not None:
        meta[f"value:{head}"] = f"{found.value:.4f}"
    return result.with_(spans=spans, labels=labels, meta=meta)


def _related(result: Document, found: Record) -> Document:
    if not isinstance(found, Document):
        return result
    number = len(result.relations)
    named = tuple(
        Relation(relation.label, relation.head, relation.tail, f"R{number + place}", relation.score)
        for place, relation in enumerate(found.relations, start=1)
    )
    return result.with_(relations=result.relations + named)
