"""Export one head as a Hugging Face folder, and measure its score there.

The folder contains a stock model and tokenizer, and a custom pipeline (`hf_pipeline.py`, written as `osler_pipeline.py`). Stock
pipelines split text into other words and windows than osler, classify every token instead of every word, and allow illegal tag
sequences, so the same weights score lower. The folder's card says by how much.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console, progress
from osler.core.errors import RecipeError
from osler.core.files import remove_tree, write_atomic, write_json
from osler.core.models import bundle_title
from osler.stages.serve.config import ExportRecipe
from osler.stages.serve.hf_card import Measured, head_card
from osler.stages.serve.hf_source import self_contained
from osler.stages.serve.verify import SAMPLE_TEXTS, open_tasks
from osler.tasks.card import Kind
from osler.tasks.instances.base import Builder, ReadingUnit
from osler.tasks.instances.tagging import TaggingBuilder
from osler.tasks.scoring import score
from osler.text.document import Document, Record, Span, TextPair
from osler.text.sentences import LANGUAGES, sentence_words

_OWN = "osler_pipeline"
_MOST_RECORDS = 500
"""Maximum number of dev records to score: a stock pipeline reads them one by one."""
_TRIED = 30
"""Number of dev records on which the settings of the stock pipeline are compared."""
_STRATEGIES = ("simple", "first", "average", "max")


def plan(recipe: ExportRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    Artifact.open(recipe.bundle, kind="bundle")
    Bundle.check_weights(recipe.bundle)
    spec = BundleSpec.load(recipe.bundle)
    head = _head(spec, recipe)
    tasks = _tasks(spec, head, recipe)
    dev = f"dev of {', '.join(task.card.name for task in tasks)}" if tasks else "sample texts, since no --task is named"
    return [
        f"export {head} of {bundle_title(recipe.bundle)} as a stock Hugging Face model",
        f"compare its predictions in transformers with osler's on {dev}",
        f"write it to {out}",
    ]


def run(recipe: ExportRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Export the head. Raises an error if its score drops by more than `max_loss`."""
    artifact = Artifact.open(recipe.bundle, kind="bundle")
    spec = BundleSpec.load(recipe.bundle)
    name = _head(spec, recipe)
    tasks = _tasks(spec, name, recipe)
    parents: dict[str, str | Artifact] = {"bundle": artifact}
    parents |= {f"task {task.card.name}": task.artifact for task in tasks}

    def build(work: Workspace) -> None:
        from osler.nn.export import to_hf

        bundle = Bundle.load(recipe.bundle, "cpu", graph=False)
        builder = bundle.builders[name]
        to_hf(bundle.model, name, _stock_labels(builder), work.path)
        # A stock pipeline cuts long texts into pieces of this length.
        Tokenizer.open(recipe.bundle).copy_to(work.path, spec.max_length)
        write_json(work.path / f"{_OWN}.json", _settings(bundle, name))
        write_atomic(work.path / f"{_OWN}.py", self_contained("osler.stages.serve.hf_pipeline"))
        measured = [_on_dev(bundle, name, task, work.path) for task in tasks] or [_on_samples(bundle, name, work.path)]
        lossy = next((each for each in measured if each.loss > recipe.max_loss), None)
        if lossy is not None:
            remove_tree(work.path)
            raise RecipeError(
                f"in transformers the head {name} scores {lossy.own:.1f} instead of {lossy.osler:.1f} on {lossy.where}",
                fix=f"Annotate with osler, or accept a loss with --max-loss {lossy.loss + 0.1:.1f}",
            )
        write_atomic(work.path / "README.md", head_card(name, builder, spec, measured))
        work.counts.update(labels=len(builder.outputs), **{each.where: asdict(each) for each in measured})
        _warn(measured, recipe.max_loss)

    return produce(out, kind="hf", recipe=recipe, parents=parents, build=build, force=force)


def _head(spec: BundleSpec, recipe: ExportRecipe) -> str:
    """Return the head to export: the named one, or the only one."""
    if recipe.head is not None:
        head = spec.head(recipe.head)
        if head.card.kind in (Kind.RELATION, Kind.ATTRIBUTES):
            raise RecipeError(
                f"{recipe.head} is for mentions that other heads find ({head.card.kind}), which no stock pipeline reads",
                where=recipe.bundle,
                fix="Annotate with osler, or export the bundle with --to onnx or --to spacy",
            )
        return recipe.head
    if len(spec.heads) > 1:
        listed = ", ".join(spec.heads)
        raise RecipeError(
            f"the bundle has {len(spec.heads)} heads", where=recipe.bundle, fix=f"Choose one with --head: {listed}"
        )
    return _head(spec, recipe.changed(head=next(iter(spec.heads))))


def _tasks(spec: BundleSpec, name: str, recipe: ExportRecipe) -> list[TaskFolder]:
    """Open the tasks to measure on. Raises an error unless the head was trained on each of them."""
    folders = open_tasks(recipe.tasks, spec)
    for folder in folders:
        if spec.tasks[folder.card.name].head != name:
            own = [task for task, (head, _) in spec.tasks.items() if head == name]
            raise RecipeError(
                f"the head {name} was not trained on {folder.card.name}",
                where=folder.artifact.path,
                fix=f"Give the folder of {' or '.join(own)}",
            )
    return folders


def _stock_labels(builder: Builder) -> list[str]:
    """Labels as stock pipelines group them. They only know B- and I-, so the end of a mention is I- and a single word B-."""
    if builder.card.kind is not Kind.TAGGING:
        return builder.outputs
    return [{"E": "I", "S": "B"}.get(tag[0], tag[0]) + tag[1:] for tag in builder.outputs]


def _settings(bundle: Bundle, name: str) -> dict[str, Any]:
    """Settings that the folder's own pipeline needs to read and decode as osler does."""
    builder = bundle.builders[name]
    settings: dict[str, Any] = {
        "outputs": builder.outputs,
        "max_length": bundle.spec.max_length,
        "overlap": bundle.spec.overlap,
        "segments": getattr(bundle.model.encoder.config, "type_vocab_size", 1) > 1,
        "confidence": bundle.calibration.confidence(name)._asdict(),
        "sentences": "lines" if builder.card.sentences == "lines" else "split",
    }
    if isinstance(builder, TaggingBuilder):
        transitions = bundle.runner.transitions(name)
        reading: ReadingUnit = builder.reading
        settings |= {
            "unit": reading.unit,
            "max_words": reading.max_words,
            "scheme": builder.protocol.scheme.value,
            "repair": builder.protocol.repair.value,
            "read": "first" if builder.head == "crf" else builder.protocol.read,
            "constrained": builder.constrained,
            "transitions": None if transitions is None else transitions.tolist(),
        }
    else:
        settings |= {"unit": builder.protocol.unit, "problem": builder.head, "orders": list(builder.orders)}
    language = builder.card.language
    if settings["unit"] == "sentence" and settings["sentences"] == "split" and language in LANGUAGES:
        settings["sentence_words"] = {kind: sorted(words) for kind, words in asdict(sentence_words(language)).items()}
    return settings


class _Pipelines:
    """Runs the exported folder with transformers."""

    def __init__(self, folder: Path, builder: Builder, overlap: int) -> None:
        self._folder = folder
        self._builder = builder
        self._overlap = overlap
        self._task = "token-classification" if builder.card.kind is Kind.TAGGING else "text-classification"

    def own(self, records: Sequence[Record]) -> list[Record]:
        """Predict with the folder's own pipeline."""
        with _imported(self._folder / f"{_OWN}.py") as module:
            tagging = self._builder.card.kind is Kind.TAGGING
            kind = module.OslerTokenClassification if tagging else module.OslerTextClassification
            return self._predict(records, {"pipeline_class": kind}, {})

    def stock(self, records: Sequence[Record], strategy: str = "") -> list[Record]:
        """Predict with the stock pipeline, with the settings shown on the card."""
        if self._builder.card.kind is Kind.TAGGING:
            return self._predict(records, {"aggregation_strategy": strategy, "stride": self._overlap}, {})
        return self._predict(records, {}, {"truncation": True, "top_k": None})

    def _predict(self, records: Sequence[Record], made: dict[str, Any], called: dict[str, Any]) -> list[Record]:
        import transformers

        from osler.nn.folders import quiet

        make: Any = transformers.pipeline

        with quiet(), warnings.catch_warnings(), progress("measure", total=len(records)) as bar:
            warnings.simplefilter("ignore")  # a stock pipeline warns for each token that it guesses words
            find = make(self._task, model=str(self._folder), device="cpu", **made)
            if find.tokenizer.pad_token is None:
                raise RecipeError(
                    "the tokenizer of this bundle names no padding token, which stock pipelines need",
                    fix="Copy tokenizer_config.json of the encoder into the bundle",
                )
            found = []
            for record in records:
                found.append(self._record(record, find(_input(record), **called)))
                bar.advance(1)
        return found

    def _record(self, record: Record, answer: list[Any]) -> Record:
        """Convert a prediction to an osler record."""
        kind = self._builder.card.kind
        if kind is Kind.TAGGING:
            # A stock pipeline may predict a line break.
            spans = (
                Span.at(int(e["start"]), int(e["end"]), e["entity_group"]) for e in answer if e["start"] < e["end"]
            )
            return record.with_(spans=tuple(spans), relations=())
        scores = {entry["label"]: float(entry["score"]) for entry in answer}
        if kind is Kind.REGRESSION:
            return record.with_(labels=(), value=next(iter(scores.values())))
        if kind is Kind.MULTILABEL:
            labels = tuple(label for label in self._builder.card.labels if scores[label] > 0.5)
            return record.with_(labels=labels, value=None, scores=scores)
        return record.with_(labels=(answer[0]["label"],), value=None)


def _on_dev(bundle: Bundle, name: str, folder: TaskFolder, exported: Path) -> Measured:
    """Score osler, the folder's own pipeline and the stock pipeline on dev, all on plain text."""
    builder = bundle.builders[name]
    card, protocol_name = folder.card, bundle.spec.tasks[folder.card.name].protocol
    protocol = card.protocol_named(protocol_name)
    gold = folder.read("dev")[:_MOST_RECORDS]
    plain = [_plain(record) for record in gold]
    pipelines = _Pipelines(exported, builder, bundle.spec.overlap)

    def points(predicted: Sequence[Record], count: int | None = None) -> float:
        kept = list(predicted)
        if card.kind is Kind.TAGGING:  # a joint head also finds labels of other tasks
            labels = card.under(protocol).labels
            kept = [found.only(labels) if isinstance(found, Document) else found for found in predicted]
        return 100 * score(card, protocol, gold[:count], kept, main_only=True).main

    strategy = ""
    if card.kind is Kind.TAGGING:
        tried = {each: points(pipelines.stock(plain[:_TRIED], each), _TRIED) for each in _STRATEGIES}
        strategy = max(tried, key=tried.__getitem__)
    return Measured(
        where=f"dev of {card.protocol_id(protocol_name)}",
        metric=protocol.metric,
        records=len(gold),
        osler=points(bundle.predict(name, plain)),
        own=points(pipelines.own(plain)),
        stock=points(pipelines.stock(plain, strategy)),
        strategy=strategy,
    )


def _on_samples(bundle: Bundle, name: str, exported: Path) -> Measured:
    """Compare predictions on built-in texts: the percentage on which osler and the exported folder agree."""
    builder = bundle.builders[name]
    records: list[Record]
    if builder.card.record == "pair":
        records = [TextPair(str(number), *pair) for number, pair in enumerate(pairwise(SAMPLE_TEXTS))]
    else:
        # The last text is longer than a window.
        repeats = 2 + bundle.spec.max_length // 100
        texts = (*SAMPLE_TEXTS, "\n\n".join(SAMPLE_TEXTS * repeats))
        records = [Document(str(number), text) for number, text in enumerate(texts)]
    expected = bundle.predict(name, records)
    pipelines = _Pipelines(exported, builder, bundle.spec.overlap)
    strategy, stock = "", 0.0
    for each in _STRATEGIES if builder.card.kind is Kind.TAGGING else ("",):
        agreement = _agreement(expected, pipelines.stock(records, each))
        if agreement > stock or not strategy:
            strategy, stock = each, agreement
    return Measured(
        where="sample texts",
        metric="agreement",
        records=len(records),
        osler=100.0,
        own=_agreement(expected, pipelines.own(records)),
        stock=stock,
        strategy=strategy,
    )


def _agreement(expected: Sequence[Record], found: Sequence[Record]) -> float:
    """Percentage of predictions in agreement: F1 of exact spans, else records with the same labels or value."""
    one, other = ([_answers(record) for record in side] for side in (expected, found))
    total = sum(map(len, one)) + sum(map(len, other))
    both = sum(len(a & b) for a, b in zip(one, other, strict=True))
    return 200 * both / total if total else 100.0


def _answers(record: Record) -> set[Any]:
    if record.value is not None:
        return {round(record.value, 3)}
    if isinstance(record, Document) and record.spans:
        return {span.key for span in record.spans}
    return set(record.labels)


def _plain(record: Record) -> Record:
    """Reduce a record to its text, without the words and sentences of its corpus."""
    if isinstance(record, TextPair):
        return TextPair(record.id, record.first, record.second)
    return Document(record.id, record.text)


def _input(record: Record) -> Any:
    return record.text if isinstance(record, Document) else {"text": record.first, "text_pair": record.second}


def _warn(measured: Sequence[Measured], max_loss: float) -> None:
    """Warn if stock pipelines score lower."""
    worst = max(measured, key=lambda each: each.stock_loss)
    if worst.stock_loss > max_loss:
        agrees = worst.metric == "agreement"
        found = (
            f"agrees with osler on {worst.stock:.1f} %"
            if agrees
            else f"scores {worst.stock:.1f} instead of {worst.osler:.1f}"
        )
        own = f"{worst.own:.1f} %" if agrees else f"{worst.own:.1f}"
        console().print(
            f"[bold yellow]![/] a stock pipeline {found} on {worst.where}. "
            f"Load the folder with its own pipeline ({own}), as its README.md shows."
        )


@contextmanager
def _imported(path: Path) -> Iterator[ModuleType]:
    """Import a Python file as a module, without leaving a `__pycache__`."""
    module = ModuleType(_OWN)
    module.__file__ = str(path)
    known = sys.modules.get(_OWN)
    sys.modules[_OWN] = module  # dataclasses look up their module there
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
        yield module
    finally:
        if known is None:
            del sys.modules[_OWN]
        else:
            sys.modules[_OWN] = known
