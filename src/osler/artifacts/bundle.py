"""The bundle artifact: one encoder, its tokenizer and its heads, ready to annotate raw text.

Importing this module does not import torch: the spec, counts and history of a bundle can be read without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from osler.artifacts.encoder import Encoder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, RecipeError, nearest
from osler.core.extras import require
from osler.core.files import fingerprint, write_atomic
from osler.tasks.card import Kind, TaskCard
from osler.tasks.instances.base import Builder, HeadOptions, Instance, document_windows, make_builder
from osler.text.document import Document, Record, Span, number_spans
from osler.text.subwords import SubwordTokenizer

if TYPE_CHECKING:
    from osler.nn.multihead import MultiHeadModel
    from osler.nn.packing import Packed

_SPEC = "bundle.json"
_HISTORY = "history.json"
_CARD = "README.md"
_BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}


class BundleHead(Recipe):
    """One head: the task and protocol it was trained on."""

    card: TaskCard
    protocol: str
    options: HeadOptions = HeadOptions()
    members: dict[str, str] | None = None
    """Tasks of a joint head, each with its protocol. `card` then has the labels of all of them."""


class TrainedTask(NamedTuple):
    """The head of a task, and the protocol it was trained under."""

    head: str
    protocol: str


class BundleSpec(Recipe):
    """The heads of a bundle and the window size they share."""

    max_length: int
    overlap: int
    heads: dict[str, BundleHead]

    @classmethod
    def load(cls, folder: str | Path) -> BundleSpec:
        path = Path(folder) / _SPEC
        if not path.is_file():
            raise ArtifactError(
                f"not a bundle: {_SPEC} is missing", where=path.parent, fix="Give a folder that osler finetune made"
            )
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            first = error.errors()[0]
            place = "".join(f"{part}: " for part in first["loc"])
            raise ArtifactError(f"damaged: {place}{first['msg']}", where=path, fix="Make the bundle again") from None

    def save(self, folder: Path) -> None:
        write_atomic(folder / _SPEC, self.model_dump_json(indent=2, exclude_none=True) + "\n")

    @property
    def tasks(self) -> dict[str, TrainedTask]:
        """Every task the bundle was trained on."""
        return {
            task: TrainedTask(name, protocol)
            for name, head in self.heads.items()
            for task, protocol in (head.members or {name: head.protocol}).items()
        }

    def head(self, name: str) -> BundleHead:
        """Return a head, or raise an error that lists the heads."""
        if name not in self.heads:
            close = nearest(name, self.heads)
            hint = f"Did you mean {close!r}? " if close else ""
            raise RecipeError(f"this bundle has no head {name!r}", fix=f"{hint}Heads: {', '.join(self.heads)}")
        return self.heads[name]

    def document_heads(self, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that annotate documents: those named or all, in one language if it is given."""
        heads = {name: self.head(name).card for name in names or self.heads}
        chosen = [n for n, card in heads.items() if card.record == "document" and language in (None, card.language)]
        if not chosen:
            raise RecipeError(
                "no head of this bundle can annotate as asked",
                fix=f"Choose other heads or another language. Heads: {', '.join(self.heads)}",
            )
        return chosen


@dataclass(frozen=True, eq=False)
class Bundle:
    """An encoder with its heads, ready to predict."""

    model: MultiHeadModel = field(repr=False)
    tokens: SubwordTokenizer
    spec: BundleSpec

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Bundle:
        """Load a bundle onto a device: a folder, or a hub id where there is a network."""
        torch = require("torch", "train")

        from osler.nn.folders import resolve
        from osler.nn.multihead import MultiHeadModel

        folder = Path(folder) if Path(folder).is_dir() else resolve(folder)
        spec = BundleSpec.load(folder)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(MultiHeadModel.load(folder).to(device), Tokenizer.open(folder), spec)

    def save(
        self, folder: Path, *, tokenizer_from: Path, history: Iterable[Mapping[str, Any]] = (), card: str = ""
    ) -> None:
        """Write encoder, heads, tokenizer, spec, training history and model card."""
        self.model.save(folder)
        self.spec.save(folder)
        Tokenizer.open(tokenizer_from).copy_to(folder)
        write_atomic(folder / _HISTORY, json.dumps(list(history), indent=1) + "\n")
        write_atomic(folder / _CARD, card)

    @staticmethod
    def read_counts(folder: str | Path) -> dict[str, Any]:
        """Counts of a finished bundle: steps, tokens, dev scores and others."""
        return Artifact.open(Path(folder), kind="bundle").manifest.counts

    @staticmethod
    def read_history(folder: str | Path) -> list[dict[str, Any]]:
        """Training log of a bundle; empty if it has none."""
        path = Path(folder) / _HISTORY
        history: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        return history

    @staticmethod
    def digest(folder: Path) -> str:
        """Digest of weights, vocabulary and heads."""
        return f"{Encoder.open(folder).digest}-{fingerprint([folder / 'heads.json', folder / _SPEC])}"

    @cached_property
    def builders(self) -> dict[str, Builder]:
        length, overlap = self.spec.max_length, self.spec.overlap
        return {
            name: make_builder(head.card, head.protocol, self.tokens, length, overlap, head.options)
            for name, head in self.spec.heads.items()
        }

    def predict(
        self,
        name: str,
        records: Sequence[Record],
        *,
        task: TaskCard | None = None,
        instances: Sequence[Instance] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> list[Record]:
        """Predict with one head. Relations are predicted between the spans of the given documents.

        With `task`, a joint head predicts only that task's entity types. `instances` avoids building them again. `advance` is
        called with the number of instances of each batch when it is done.
        """
        self.spec.head(name)
        if instances is None:
            instances = self.builders[name].build(records, gold=False).instances
        outputs = run_heads(self.model, instances, [name], advance)[name]
        predicted = self._decode(name, records, instances, outputs)
        if task is None or task.kind is not Kind.TAGGING:
            return predicted
        return [found.only(task.labels) if isinstance(found, Document) else found for found in predicted]

    def annotate(self, documents: Sequence[Document], heads: Sequence[str] | None = None) -> list[Document]:
        """Annotate raw text: all heads in one encoder pass, then relations between the entities that were found."""
        names = self.spec.document_heads() if heads is None else heads
        plain = [Document(document.id, document.text, meta=document.meta) for document in documents]
        windows = document_windows(self.tokens, plain, self.spec.max_length, self.spec.overlap)
        outputs = run_heads(self.model, windows, [name for name in names if self.builders[name].windowed])
        relation_heads = [name for name in names if self.spec.heads[name].card.kind is Kind.RELATION]
        results = plain
        for name in names:
            if name in outputs:
                predicted = self._decode(name, plain, windows, outputs[name])
            elif name not in relation_heads:  # reads sentences, not windows
                predicted = self.predict(name, plain)
            else:
                continue
            results = [_with_predictions(result, found, name) for result, found in zip(results, predicted, strict=True)]
        results = [result.with_(spans=number_spans(_distinct(result.spans))) for result in results]
        for name in relation_heads:
            entities = self.spec.heads[name].card.entity_labels
            predicted = self.predict(name, [result.only(entities).with_(relations=()) for result in results])
            results = [_with_relations(result, found) for result, found in zip(results, predicted, strict=True)]
        return results

    def _decode(
        self, name: str, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        transitions = self.model.head(name).steps()
        scores = None if transitions is None else transitions.cpu().numpy()
        return self.builders[name].decode(records, instances, outputs, scores)


def run_heads(
    model: MultiHeadModel,
    instances: Sequence[Instance],
    heads: Sequence[str],
    advance: Callable[[int], None] | None = None,
) -> dict[str, list[np.ndarray]]:
    """Return the outputs of each head for each instance: [tokens, outputs] or [outputs]."""
    import torch

    device = next(model.parameters()).device
    budget = _BATCH_TOKENS[device.type]
    # Batches of similar length, longest first.
    batches: list[list[int]] = []
    used = budget
    for index in sorted(range(len(instances)), key=lambda index: -instances[index].length):
        if used + instances[index].length > budget:
            batches.append([])
            used = 0
        batches[-1].append(index)
        used += instances[index].length
    results: dict[str, list[np.ndarray]] = {head: [np.empty(0)] * len(instances) for head in heads}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for indices in batches:
                batch = [instances[index] for index in indices]
                borders = np.cumsum([instance.length for instance in batch])[:-1]
                for head, output in model(pack_instances(batch, model).to(device), heads).items():
                    values = output.float().cpu().numpy()
                    rows = np.split(values, borders) if model.heads[head].level == "token" else list(values)
                    for index, row in zip(indices, rows, strict=True):
                        results[head][index] = row
                if advance:
                    advance(len(indices))
    finally:
        model.train(training)
    return results


def pack_instances(instances: Sequence[Instance], model: MultiHeadModel, **shape: int) -> Packed:
    """Pack instances for this model's encoder. `shape` pads the batch: total, max_sequences, max_length."""
    from osler.nn.packing import pack

    config = model.encoder.config
    types = None
    if getattr(config, "type_vocab_size", 1) > 1:
        types = [np.zeros(i.length, dtype=np.int64) if i.types is None else i.types for i in instances]
    marks = [instance.marks for instance in instances if instance.marks is not None]
    ids = [instance.ids for instance in instances]
    return pack(ids, token_types=types, marks=marks or None, pad_id=config.pad_token_id or 0, **shape)


def _with_predictions(result: Document, found: Record, head: str) -> Document:
    """Add the predictions of one head. Document labels get the head's name, because two heads may share a label."""
    assert isinstance(found, Document)
    # Ids of different heads clash; spans are numbered again once all heads are done.
    spans = (*result.spans, *(replace(span, id="", attributes={"head": head}) for span in found.spans))
    labels = (*result.labels, *(f"{head}:{label}" for label in found.labels))
    scores = {**result.scores, **{f"{head}:{label}": score for label, score in found.scores.items()}}
    meta = dict(result.meta)
    if found.value is not None:
        meta[f"value:{head}"] = f"{found.value:.4f}"
    return result.with_(spans=spans, labels=labels, meta=meta, scores=scores)


def _distinct(spans: Sequence[Span]) -> list[Span]:
    """Keep the best-scored of equal spans found by several heads."""
    best: dict[object, Span] = {}
    for span in spans:
        known = best.get(span.key)
        if known is None or (span.score or 0.0) > (known.score or 0.0):
            best[span.key] = span
    return list(best.values())


def _with_relations(result: Document, found: Record) -> Document:
    assert isinstance(found, Document)
    first = len(result.relations) + 1
    named = (replace(relation, id=f"R{number}") for number, relation in enumerate(found.relations, first))
    return result.with_(relations=(*result.relations, *named))
