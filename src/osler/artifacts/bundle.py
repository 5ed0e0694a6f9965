"""The bundle artifact: one encoder, its tokenizer and its heads, ready to annotate raw text.

Importing this module does not import torch: the spec, counts and history of a bundle can be read without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

import numpy as np
from pydantic import ValidationError

from osler.artifacts.encoder import Encoder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, RecipeError, nearest
from osler.core.extras import require
from osler.core.files import fingerprint, unconverted, write_atomic
from osler.tasks.card import Kind, TaskCard
from osler.tasks.instances.base import Builder, HeadOptions, Instance, document_windows, make_builder
from osler.text.document import Document, Record, Span, TextPair, number_spans
from osler.text.language import LANGUAGE_NAMES, LanguageGuess
from osler.text.subwords import SubwordTokenizer

if TYPE_CHECKING:
    from osler.nn.multihead import MultiHeadModel
    from osler.nn.packing import Packed

_SPEC = "bundle.json"
_HISTORY = "history.json"
_CARD = "README.md"
RecordKind = Literal["document", "pair"]
_R = TypeVar("_R", Document, TextPair)
_K = TypeVar("_K")
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
        if not path.parent.exists():
            raise ArtifactError("no such folder", where=folder, fix="Make it first (osler finetune), or check the path")
        if not path.is_file():
            raise unconverted(path.parent) or ArtifactError(
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

    def heads_for(self, record: RecordKind, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that read documents or pairs of texts: those named or all, in one language if it is given; may be empty."""
        cards = {name: self.head(name).card for name in names or self.heads}
        return [name for name, card in cards.items() if card.record == record and language in (None, card.language)]

    def document_heads(self, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that annotate documents: those named or all, in one language if it is given."""
        return self.heads_for("document", names, language) or self._refuse("document", names, language)

    def pair_heads(self, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that compare two texts: those named or all, in one language if it is given."""
        return self.heads_for("pair", names, language) or self._refuse("pair", names, language)

    def _refuse(self, record: RecordKind, names: Sequence[str], language: str | None) -> NoReturn:
        """Raise an error that says why no head fits, and what to give instead."""
        able = self.heads_for(record)
        one, two = "single texts", "pairs of texts"
        given, other = (one, two) if record == "document" else (two, one)
        if able:
            if language is None or not self.heads_for(record, names):
                problem = f"{_listed(names)} can only read {other}, and the input is {given}"
            elif names:
                problem = f"{_listed(names)} cannot read the language {language!r}"
            else:
                problem = f"no head for {given} in the language {language!r}"
            listed = ", ".join(f"{name} ({self.heads[name].card.language})" for name in able)
            fix = f"Heads of this bundle that read {given}: {listed}"
        elif record == "document":
            problem = f"no head of this bundle reads {given}: {_listed(self.heads)} compare two texts"
            fix = "Give pairs of texts: JSON Lines with the keys first and second, or a CSV or TSV file with two text columns"
        else:
            problem = f"no head of this bundle reads {given}: {_listed(self.heads)} read one text"
            fix = "Give single texts, or a bundle with a head for pairs"
        raise RecipeError(problem, fix=fix)

    def language_mismatch(self, guess: LanguageGuess, heads: Sequence[str]) -> LanguageMismatch | None:
        """The heads trained on another language than the text, if its language is beyond doubt."""
        found = guess.sure
        others = {name: card for name in heads if (card := self.heads[name].card).language not in (found, "")}
        if found is None or not others:
            return None
        languages = " and ".join(dict.fromkeys(LANGUAGE_NAMES.get(c.language, c.language) for c in others.values()))
        trained = "was" if len(others) == 1 else "were"
        problem = (
            f"the text looks {LANGUAGE_NAMES[found]} ({guess}), but {_listed(others)} {trained} trained on {languages}. "
            "Expect poor results"
        )
        return LanguageMismatch(problem, found if len(others) < len(heads) else None)


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


class LanguageMismatch(NamedTuple):
    """Text in another language than some of the heads, and the language to choose if other heads are for it."""

    problem: str
    choose: str | None


@dataclass(frozen=True, eq=False)
class Bundle:
    """An encoder with its heads, ready to predict."""

    model: MultiHeadModel = field(repr=False)
    tokens: SubwordTokenizer
    spec: BundleSpec

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Bundle:
        """Load a bundle onto a device: a folder, or a hub id where there is a network."""
        require("torch", "train")

        from osler.nn.folders import resolve
        from osler.nn.multihead import MultiHeadModel
        from osler.train.precision import choose_device

        # Before the model is loaded, so that a mistake is told at once.
        chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", "0")))
        # A path that is not there is no hub id: reading its spec says so.
        folder = Path(folder) if isinstance(folder, Path) or Path(folder).is_dir() else resolve(folder)
        spec = BundleSpec.load(folder)
        return cls(MultiHeadModel.load(folder).to(chosen), Tokenizer.open(folder), spec)

    def save(
        self,
        folder: str | Path,
        *,
        tokenizer_from: str | Path,
        history: Iterable[Mapping[str, Any]] = (),
        card: str = "",
    ) -> None:
        """Write encoder, heads, tokenizer, spec, training history and model card."""
        folder = Path(folder)
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
    def digest(folder: str | Path) -> str:
        """Digest of weights, vocabulary and heads."""
        folder = Path(folder)
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
        labels = task.under(self.builders[name].protocol).labels
        return [found.only(labels) if isinstance(found, Document) else found for found in predicted]

    def annotate(self, documents: Sequence[Document], heads: Sequence[str] | None = None) -> list[Document]:
        """Annotate raw text, then find relations between the entities. Heads that read documents alike share an encoder pass."""
        names = self.spec.document_heads() if heads is None else heads
        plain = [Document(document.id, document.text, meta=document.meta) for document in documents]
        relation_heads = [name for name in names if self.spec.heads[name].card.kind is Kind.RELATION]
        others = [name for name in names if name not in relation_heads]
        found_by: dict[str, list[Record]] = {}
        for reading, readers in self._alike(others, lambda builder: builder.reading).items():
            if reading is None:  # reads classified sentences, not windows
                found_by.update({name: self.predict(name, plain) for name in readers})
                continue
            windows = document_windows(self.tokens, plain, self.spec.max_length, self.spec.overlap, reading)
            outputs = run_heads(self.model, windows, readers)
            found_by.update({name: self._decode(name, plain, windows, outputs[name]) for name in readers})
        results = plain
        for name in names:
            if name not in found_by:
                continue
            predicted = found_by[name]
            results = [_with_predictions(result, found, name) for result, found in zip(results, predicted, strict=True)]
        results = [result.with_(spans=number_spans(_distinct(result.spans))) for result in results]
        for name in relation_heads:
            entities = self.spec.heads[name].card.entity_labels
            predicted = self.predict(name, [result.only(entities).with_(relations=()) for result in results])
            results = [_with_relations(result, found) for result, found in zip(results, predicted, strict=True)]
        return results

    def compare(self, pairs: Sequence[TextPair], heads: Sequence[str] | None = None) -> list[TextPair]:
        """Apply the heads for pairs of texts; those that read a pair alike share an encoder pass.

        `labels` and `scores` carry the name of the head, as for documents.
        `value` is the number of the only regression head; if there are several, `meta` holds one per head.
        """
        names = self.spec.pair_heads() if heads is None else heads
        results = [TextPair(pair.id, pair.first, pair.second, meta=pair.meta) for pair in pairs]
        plain = list(results)
        numeric = [name for name in names if self.spec.heads[name].card.kind is Kind.REGRESSION]
        found_by: dict[str, list[Record]] = {}
        for readers in self._alike(names, lambda builder: builder.orders).values():
            instances = self.builders[readers[0]].build(plain, gold=False).instances
            outputs = run_heads(self.model, instances, readers)
            found_by.update({name: self._decode(name, plain, instances, outputs[name]) for name in readers})
        for name in names:
            predicted = found_by[name]
            results = [_with_predictions(result, found, name) for result, found in zip(results, predicted, strict=True)]
            if numeric == [name]:
                results = [result.with_(value=found.value) for result, found in zip(results, predicted, strict=True)]
        return results

    def _alike(self, names: Sequence[str], reads: Callable[[Builder], _K]) -> dict[_K, list[str]]:
        """Heads by how they read their input; those that read it alike share an encoder pass."""
        groups: dict[_K, list[str]] = {}
        for name in names:
            groups.setdefault(reads(self.builders[name]), []).append(name)
        return groups

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


def _with_predictions(result: _R, found: Record, head: str) -> _R:
    """Add the predictions of one head. Labels get the head's name, because two heads may share a label."""
    labels = (*result.labels, *(f"{head}:{label}" for label in found.labels))
    scores = {**result.scores, **{f"{head}:{label}": score for label, score in found.scores.items()}}
    meta = dict(result.meta)
    if found.value is not None:
        meta[f"value:{head}"] = f"{found.value:.4f}"
    result = replace(result, labels=labels, meta=meta, scores=scores)
    if isinstance(result, Document) and isinstance(found, Document):
        # Ids of different heads clash; spans are numbered again once all heads are done.
        named: list[Span] = [replace(span, id="", attributes={"head": head}) for span in found.spans]
        result = replace(result, spans=(*result.spans, *named))
    return result


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
