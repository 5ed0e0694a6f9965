"""The bundle artifact: one encoder, its tokenizer and its heads, ready to annotate raw text.

Importing this module does not import torch: the spec, counts and history of a bundle can be read without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from osler.artifacts.bundle_spec import SPEC_FILE, BundleSpec
from osler.artifacts.calibration import BundleCalibration
from osler.artifacts.encoder import Encoder
from osler.artifacts.onnx_runner import OnnxRunner, check_cpu
from osler.artifacts.runner import Outputs, Runner, TorchRunner, Waiting
from osler.artifacts.tokenizer import TOKENIZER, Tokenizer
from osler.core.artifact import Artifact
from osler.core.errors import RecipeError
from osler.core.extras import available, require
from osler.core.files import fingerprint, write_atomic
from osler.tasks.card import Kind, TaskCard
from osler.tasks.instances.base import Builder, Confidence, Instance, document_windows, make_builder
from osler.tasks.instances.tagging import TaggerOutputs, TaggingBuilder, decode_taggers
from osler.tasks.instances.text import TextBuilder
from osler.text.document import Document, Record, Span, TextPair
from osler.text.sections import cut_sections, join_sections
from osler.text.subwords import SubwordTokenizer

if TYPE_CHECKING:
    from osler.nn.multihead import MultiHeadModel
    from osler.train.config import Precision

_HISTORY = "history.json"
_CARD = "README.md"
_R = TypeVar("_R", Document, TextPair)
_K = TypeVar("_K")
SECTION_CHARACTERS = 1 << 15
"""Longer documents are annotated in sections: intermediate data, from sub-words to tag scores, is a hundred times the text's
size."""


class _Begun(NamedTuple):
    """Documents whose encoder passes have been started."""

    documents: list[Document]
    heads: Sequence[str]
    read: list[tuple[list[str], list[Instance] | None, Waiting | None]]
    """Heads with the same windows, those windows, and a call that waits for the outputs. Heads for classified sentences have
    neither."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """An encoder with its heads, ready to predict."""

    runner: Runner = field(repr=False)
    tokens: SubwordTokenizer
    spec: BundleSpec
    calibration: BundleCalibration = field(default_factory=BundleCalibration, repr=False)
    biases: Mapping[str, float] = field(default_factory=dict)
    """Bias by head, added to the log-odds of every possible finding. Above 0, the head finds more."""

    @classmethod
    def of(cls, model: MultiHeadModel, tokens: SubwordTokenizer, spec: BundleSpec) -> Bundle:
        """Create a bundle that runs with torch and can be trained."""
        return cls(TorchRunner(model), tokens, spec)

    @property
    def model(self) -> MultiHeadModel:
        """The torch model."""
        if not isinstance(self.runner, TorchRunner):
            raise _no_weights()
        if self.runner.bf16:
            problem = "the weights of this bundle were rounded for annotation"
            raise RecipeError(problem, fix="Load it with precision='fp32'")
        return self.runner.model

    @classmethod
    def load(
        cls, folder: str | Path, device: str = "auto", precision: Precision = "fp32", *, graph: bool = True
    ) -> Bundle:
        """Load a bundle from a folder, or from the hub where there is a network, onto a device.

        `precision` is the precision of the encoder. An ONNX bundle needs no torch and runs on the CPU as it was exported; on a
        GPU, and without `graph`, it runs from its torch weights, if it has them.
        """
        if not graph:
            cls.check_weights(folder)
        elif _runs_graph(Path(folder), device):
            check_cpu(device)
            if precision not in ("auto", "fp32"):
                raise RecipeError(
                    f"precision = {precision!r}, but an ONNX bundle computes as it was exported",
                    fix="Leave precision out, or give the bundle that it was exported from",
                )
            spec = BundleSpec.load(folder)
            return cls(OnnxRunner.open(Path(folder)), Tokenizer.open(folder), spec, BundleCalibration.load(folder))
        if not available("torch") and Path(folder).is_dir():
            BundleSpec.load(folder)  # reports a folder that is not a bundle before a missing package
        require("torch", "train")

        from osler.nn.folders import resolve
        from osler.nn.multihead import MultiHeadModel
        from osler.train.precision import choose_device, chooses_bf16

        # Fail before the model is loaded.
        chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", "0")))
        bf16 = chooses_bf16(precision, chosen)
        # A Path is never a hub id. If it does not exist, reading its spec says so.
        folder = Path(folder) if isinstance(folder, Path) or Path(folder).is_dir() else resolve(folder)
        spec = BundleSpec.load(folder)
        calibration = BundleCalibration.load(folder)
        model = MultiHeadModel.load(folder).to(chosen)
        runner = TorchRunner.rounded(model) if bf16 else TorchRunner(model)
        return cls(runner, Tokenizer.open(folder), spec, calibration)

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
        self.calibration.save(folder)
        Tokenizer.open(tokenizer_from).copy_to(folder)
        write_atomic(folder / _HISTORY, json.dumps(list(history), indent=1) + "\n")
        self.write_card(folder, card)

    @staticmethod
    def check_weights(folder: str | Path) -> None:
        """Raise an error for a bundle that was exported without its torch weights."""
        if OnnxRunner.is_in(Path(folder)) and not Encoder(Path(folder)).weights:
            raise _no_weights()

    @staticmethod
    def check_device(folder: str | Path, device: str) -> None:
        """Raise an error if a bundle cannot run on a device, without loading it."""
        if _runs_graph(Path(folder), device):
            check_cpu(device)
            return
        require("torch", "train")

        from osler.train.precision import choose_device

        choose_device(device)

    @staticmethod
    def write_card(folder: Path, card: str) -> None:
        write_atomic(folder / _CARD, card)

    @staticmethod
    def read_card(folder: str | Path) -> str:
        """The model card of a bundle; empty if it has none."""
        path = Path(folder) / _CARD
        return path.read_text(encoding="utf-8") if path.is_file() else ""

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
        if OnnxRunner.is_in(folder):
            return fingerprint([*OnnxRunner.files(folder), folder / TOKENIZER, folder / SPEC_FILE])
        return f"{Encoder.open(folder).digest}-{fingerprint([folder / 'heads.json', folder / SPEC_FILE])}"

    @property
    def pass_characters(self) -> int:
        """Characters of text to annotate at once. More would only take more memory."""
        return max(SECTION_CHARACTERS, getattr(self.runner, "pass_characters", 0))

    @property
    def batch_characters(self) -> int:
        """Characters of text to annotate in one call. This is several passes if one can be computed while another is decoded."""
        return self.pass_characters * (4 if getattr(self.runner, "ahead", False) else 1)

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

        With `task`, a joint head predicts only that task's entity types. Pass `instances` to avoid building them again.
        `advance` is called after each batch with its number of instances.
        """
        self.spec.head(name)
        if instances is None:
            instances = self.builders[name].build(records, gold=False).instances
        outputs = self.runner.outputs(instances, [name], advance)[name]
        predicted = self._decode(name, records, instances, outputs)
        if task is None or task.kind is not Kind.TAGGING:
            return predicted
        labels = task.under(self.builders[name].protocol).labels
        return [found.only(labels) if isinstance(found, Document) else found for found in predicted]

    def annotate(self, documents: Sequence[Document], heads: Sequence[str] | None = None) -> list[Document]:
        """Annotate raw text, then find attributes of the entities and relations between them.

        Heads with the same input share an encoder pass. An attribute head applies to entities from heads in its language.
        """
        names = self.spec.document_heads() if heads is None else heads
        sizes = [len(document.text) for document in documents]
        # A very long text is read in sections whatever comes with it, because sections may change what is found at their borders.
        if sum(sizes) > self.pass_characters or max(sizes, default=0) > SECTION_CHARACTERS:
            return self._annotate_in_passes(documents, names)
        return self._finish(self._begin(documents, names))

    def _begin(self, documents: Sequence[Document], names: Sequence[str]) -> _Begun:
        """Start the encoder passes of documents. A GPU, and a graph on several cores, compute them in the background."""
        plain = [Document(document.id, document.text, meta=document.meta) for document in documents]
        others = [name for name in names if self.spec.heads[name].card.kind is not Kind.RELATION]
        begun = _Begun(plain, names, [])
        for reading, readers in self._alike(others, lambda builder: builder.reading).items():
            windows: list[Instance] | None = None
            if reading is not None:  # None: these heads read classified sentences
                windows = document_windows(self.tokens, plain, self.spec.max_length, self.spec.overlap, reading)
            begun.read.append((readers, windows, None if windows is None else self.runner.begin(windows, readers)))
        return begun

    def _finish(self, begun: _Begun) -> list[Document]:
        """Decode the outputs, then find attributes and relations of the entities."""
        plain, names = begun.documents, begun.heads
        relation_heads = [name for name in names if self.spec.heads[name].card.kind is Kind.RELATION]
        found_by: dict[str, list[Record]] = {}
        qualifiers: dict[str, tuple[list[Instance], list[np.ndarray]]] = {}
        for readers, windows, waited in begun.read:
            if windows is None or waited is None:
                found_by.update({name: self.predict(name, plain) for name in readers})
                continue
            outputs = waited()
            # Attribute heads are decoded once the entities are known.
            late = [name for name in readers if self.spec.heads[name].card.kind is Kind.ATTRIBUTES]
            qualifiers.update({name: (windows, outputs[name]) for name in late})
            found_by.update(self._decode_alike([n for n in readers if n not in late], plain, windows, outputs))
        results: list[Document] = []
        for number, document in enumerate(plain):
            found_here = [(name, found_by[name][number]) for name in names if name in found_by]
            results.append(_with_predictions(document, found_here).with_(spans=_distinct_spans(found_here)))
        for name, (windows, values) in qualifiers.items():
            predicted = self._decode(name, results, windows, values)
            results = [self._qualified(result, found, name) for result, found in zip(results, predicted, strict=True)]
        for name in relation_heads:
            entities = self.spec.heads[name].card.entity_labels
            predicted = self.predict(name, [result.only(entities).with_(relations=()) for result in results])
            results = [_with_relations(result, found) for result, found in zip(results, predicted, strict=True)]
        return results

    def compare(self, pairs: Sequence[TextPair], heads: Sequence[str] | None = None) -> list[TextPair]:
        """Annotate pairs of texts. Heads that read a pair the same way share an encoder pass.

        `labels` and `scores` are prefixed with the name of the head, as in documents. `value` is the result of the only
        regression head; if there are several, `meta` holds one value per head.
        """
        names = self.spec.pair_heads() if heads is None else heads
        plain = [TextPair(pair.id, pair.first, pair.second, meta=pair.meta) for pair in pairs]
        numeric = [name for name in names if self.spec.heads[name].card.kind is Kind.REGRESSION]
        found_by: dict[str, list[Record]] = {}
        for readers in self._alike(names, lambda builder: builder.orders).values():
            instances = self.builders[readers[0]].build(plain, gold=False).instances
            outputs = self.runner.outputs(instances, readers)
            found_by.update({name: self._decode(name, plain, instances, outputs[name]) for name in readers})
        results: list[TextPair] = []
        for number, pair in enumerate(plain):
            result = _with_predictions(pair, [(name, found_by[name][number]) for name in names])
            results.append(result.with_(value=found_by[numeric[0]][number].value) if len(numeric) == 1 else result)
        return results

    def _qualified(self, result: Document, found: Record, name: str) -> Document:
        """Add the attributes that one head found to entities of its language, except identifiers."""
        assert isinstance(found, Document)
        language, heads = self.spec.heads[name].card.language, self.spec.heads
        of = [heads[span.attributes["head"]].card for span in result.spans]
        spans = (
            span.with_attributes(more.attributes) if card.language == language and not card.phi else span
            for span, more, card in zip(result.spans, found.spans, of, strict=True)
        )
        return result.with_(spans=tuple(spans))

    def _annotate_in_passes(self, documents: Sequence[Document], names: Sequence[str]) -> list[Document]:
        """Annotate more text than fits into one pass: a few documents at a time, and very long ones in sections."""
        results: list[Document] = []
        running: _Begun | None = None
        for group in self._passes(documents):
            long = len(group[0].text) > SECTION_CHARACTERS
            begun = None if long else self._begin(group, names)
            if running is not None:
                results += self._finish(running)  # meanwhile the next pass is computed
            if long:
                results.append(self._annotate_sections(group[0], names))
            running = begun
        return results + (self._finish(running) if running is not None else [])

    def _passes(self, documents: Sequence[Document]) -> Iterator[list[Document]]:
        """Group documents into passes, in order. A very long document is a pass of its own."""
        group: list[Document] = []
        size = 0
        for document in documents:
            long = len(document.text) > SECTION_CHARACTERS
            if group and (long or size + len(document.text) > self.pass_characters):
                yield group
                group, size = [], 0
            group.append(document)
            size += len(document.text)
            if long:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _annotate_sections(self, document: Document, names: Sequence[str]) -> Document:
        """Annotate one very long document in sections. Heads that label a whole document see the windows of all sections."""
        of_text = [name for name in names if isinstance(self.builders[name], TextBuilder)]
        others = [name for name in names if name not in of_text]
        # Sentence offsets in the metadata refer to the whole text.
        meta = {key: value for key, value in document.meta.items() if key != "sentences"}
        result = Document(document.id, document.text, meta=document.meta)
        plain = result.with_(meta=meta)
        if others:
            overlap = min(8 * self.spec.max_length, SECTION_CHARACTERS // 4)
            sections = cut_sections(document.text, SECTION_CHARACTERS, overlap)
            parts = [plain.with_(text=document.text[start:end]) for start, end in sections]
            result = join_sections(result, sections, self.annotate(parts, others))
        for reading, readers in self._alike(of_text, lambda builder: builder.reading).items():
            for group in [[name] for name in readers] if reading is None else [readers]:
                found_by = self._label_text(plain, group)
                result = _with_predictions(result, [(name, found_by[name]) for name in group])
        return result

    def _label_text(self, document: Document, names: Sequence[str]) -> dict[str, Record]:
        """Label a very long text from the windows of all its sections, with heads that share their input."""
        rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for start, end in cut_sections(document.text, SECTION_CHARACTERS, 0):
            part = document.with_(text=document.text[start:end])
            outputs = self.runner.outputs(self.builders[names[0]].build([part], gold=False).instances, names)
            for name in names:
                rows[name] += outputs[name]
        # Decoding only needs to know that all windows belong to this document.
        windows = [Instance(np.zeros(0, dtype=np.int32), 0)] * len(rows[names[0]])
        return {name: self._decode(name, [document], windows, rows[name])[0] for name in names}

    def _alike(self, names: Sequence[str], reads: Callable[[Builder], _K]) -> dict[_K, list[str]]:
        """Group heads by how they read their input. The heads of a group share an encoder pass."""
        groups: dict[_K, list[str]] = {}
        for name in names:
            groups.setdefault(reads(self.builders[name]), []).append(name)
        return groups

    def _decode_alike(
        self, names: Sequence[str], records: Sequence[Record], instances: Sequence[Instance], outputs: Outputs
    ) -> dict[str, list[Record]]:
        """Decode heads that read the same windows. Taggers are decoded together."""
        taggers: dict[str, TaggerOutputs] = {}
        found: dict[str, list[Record]] = {}
        for name in names:
            builder = self.builders[name]
            if type(builder) is TaggingBuilder:
                confidence = self._confidence(name)
                transitions = self.runner.transitions(name)
                taggers[name] = TaggerOutputs(builder, outputs[name], transitions, confidence)
            else:
                found[name] = self._decode(name, records, instances, outputs[name])
        return found | dict(zip(taggers, decode_taggers(list(taggers.values()), records, instances), strict=True))

    def _decode(
        self, name: str, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        transitions = self.runner.transitions(name)
        return self.builders[name].decode(records, instances, outputs, transitions, self._confidence(name))

    def _confidence(self, name: str) -> Confidence:
        return self.calibration.confidence(name, self.biases.get(name, 0.0))


def _no_weights() -> RecipeError:
    return RecipeError("this bundle has no torch weights", fix="Give the bundle that it was exported from")


def _runs_graph(folder: Path, device: str) -> bool:
    """Whether a bundle runs as a graph: exported bundles do, except on a GPU if torch weights are beside the graph."""
    return OnnxRunner.is_in(folder) and not (device.startswith("cuda") and Encoder(folder).weights)


def _with_predictions(result: _R, found: Sequence[tuple[str, Record]]) -> _R:
    """Add predicted labels and values. Labels are prefixed with the head's name, because two heads may share a label."""
    labels, scores, meta = list(result.labels), dict(result.scores), dict(result.meta)
    for head, record in found:
        labels += (f"{head}:{label}" for label in record.labels)
        scores |= {f"{head}:{label}": score for label, score in record.scores.items()}
        if record.value is not None:
            meta[f"value:{head}"] = f"{record.value:.4f}"
    return replace(result, labels=tuple(labels), meta=meta, scores=scores)


def _distinct_spans(found: Sequence[tuple[str, Record]]) -> tuple[Span, ...]:
    """Merge the spans of several heads, sorted and numbered, with the head's name. Of equal spans, keep the best-scored."""
    best: dict[object, tuple[Span, str]] = {}
    for head, record in found:
        for span in record.spans if isinstance(record, Document) else ():
            known = best.get(span.key)
            if known is None or (span.score or 0.0) > (known[0].score or 0.0):
                best[span.key] = span, head
    ordered = sorted(best.values(), key=lambda named: (named[0].start, -named[0].end, named[0].label))
    # `replace` takes four times as long, and notes have hundreds of spans.
    return tuple(
        Span(span.fragments, span.label, f"T{number}", span.score, {"head": head})
        for number, (span, head) in enumerate(ordered, 1)
    )


def _with_relations(result: Document, found: Record) -> Document:
    assert isinstance(found, Document)
    first = len(result.relations) + 1
    named = (replace(relation, id=f"R{number}") for number, relation in enumerate(found.relations, first))
    return result.with_(relations=(*result.relations, *named))
