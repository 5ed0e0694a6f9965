"""Survey annotated files: their language, splits and kind of task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from osler.core.errors import InputError
from osler.formats.base import Format
from osler.formats.sources import SourceTree
from osler.formats.tables import list_columns
from osler.tasks.card import Kind
from osler.tasks.records import attribute_label
from osler.text.document import Document, Record, has_tokens
from osler.text.language import LanguageGuess
from osler.text.sentences import sentences

_WORDS = {
    "train": {"train", "training", "trainset", "trn"},
    "dev": {"dev", "devel", "development", "devset", "valid", "validation", "val"},
    "test": {"test", "testing", "testset", "tst"},
}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words}
# "TrainingSet" is two words, "TRAIN" is one.
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ALL = "**"
SHARES = {"dev": 0.1, "test": 0.2}


@dataclass(frozen=True)
class SplitPlan:
    """Files of each split, splits to carve out of train, and how the splits were recognised."""

    files: Mapping[str, tuple[str, ...]]
    """File patterns of each split, for the card."""
    names: Mapping[str, tuple[str, ...]]
    """Files that match the patterns."""
    carved: tuple[str, ...]
    how: str
    left: tuple[str, ...] = ()
    """Files of the format that belong to no split."""


def plan_splits(tree: SourceTree, format_: Format) -> SplitPlan:
    """Assign the files of a tree to splits."""
    data = tree.names(*(f"*{suffix}" for suffix in format_.suffixes)) or list(tree)
    # Without a training set, words such as "test" in file names mean something else.
    if any(_split_folder(name)[0] == "train" for name in data):
        return _by_folder(tree, data)
    by_name = {name: _hint(name.rpartition("/")[2]) for name in data}
    hints = {*by_name.values()} - {None}
    # If all names contain "train", it is part of the corpus name.
    if len(hints) > 1 and "train" in hints and (format_.layout == "file" or all(by_name.values())):
        found = {s: tuple(name for name in data if by_name[name] == s) for s in _WORDS if s in hints}
        left = tuple(name for name in data if by_name[name] is None)
        return SplitPlan(found, found, _missing(found), "file names", left)
    everything = {"train": (_ALL,)} if len(data) != 1 else {"train": (data[0],)}
    how = "no folder or file name mentions a split"
    return SplitPlan(everything, {"train": tuple(tree)}, _missing(everything), how)


def _by_folder(tree: SourceTree, data: list[str]) -> SplitPlan:
    folders: dict[str, dict[str, None]] = {split: {} for split in _WORDS}
    names: dict[str, list[str]] = {split: [] for split in _WORDS}
    # Other files in a split's folder, such as texts next to the annotations, belong to it too.
    for name in tree:
        split, folder = _split_folder(name)
        if split:
            folders[split][f"{folder}/{_ALL}"] = None
            names[split].append(name)
    left = tuple(name for name in data if not _split_folder(name)[0])
    files = {split: tuple(patterns) for split, patterns in folders.items() if patterns}
    return SplitPlan(files, {s: tuple(n) for s, n in names.items() if n}, _missing(files), "folder names", left)


def _missing(files: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(split for split in SHARES if split not in files)


def _split_folder(name: str) -> tuple[str, str]:
    """Return the split of a file and the innermost folder that names it; empty if no folder does."""
    folders = name.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        if split := _hint(folders[depth - 1]):
            return split, "/".join(folders[:depth])
    return "", ""


def _hint(name: str) -> str | None:
    words = (word.lower() for word in _NAME_PART.findall(name))
    splits = {_SPLIT_OF[word] for word in words if word in _SPLIT_OF}
    return splits.pop() if len(splits) == 1 else None


_PATIENT = ("patient", "patient_id", "subject", "subject_id")
_SHORT = re.compile(r"\S{0,30}")
_FEW_VALUES = 12
"""An attribute with more values than this is a code or a remark rather than a label to predict."""
_CROSSING = 0.1
"""Share of cross-sentence relations above which a protocol with only within-sentence candidates is unfair."""


@dataclass
class Survey:
    """Counts over the records of all splits."""

    records: int = 0
    pairs: int = 0
    spans: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)
    arguments: Counter[tuple[str, str]] = field(default_factory=Counter)
    attributes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Names and values of attributes of mentions."""
    labels: Counter[str] = field(default_factory=Counter)
    several: int = 0
    """Records with more than one label."""
    unlabelled: int = 0
    values: int = 0
    crossing: int = 0
    """Relations between mentions in different sentences."""
    meta: Counter[str] = field(default_factory=Counter)
    tokenised: int = 0
    language: LanguageGuess = field(default_factory=LanguageGuess)

    def add(self, record: Record) -> None:
        self.records += 1
        self.labels.update(record.labels)
        self.several += len(record.labels) > 1
        self.unlabelled += not record.labels
        self.values += record.value is not None
        self.meta.update(record.meta.keys())
        if not isinstance(record, Document):
            self.pairs += 1
            self.language.add(record.first)
            self.language.add(record.second)
            return
        self.tokenised += has_tokens(record)
        self.language.add(record.text)
        self.spans.update(span.label for span in record.spans)
        for span in record.spans:
            self.attributes.update((name, value) for name, value in span.attributes.items() if _SHORT.fullmatch(value))
        if not record.relations:
            return
        spans = {span.id: span for span in record.spans}
        starts = [start for start, _ in sentences(record.text)]
        for relation in record.relations:
            head, tail = spans[relation.head], spans[relation.tail]
            self.relations[relation.label] += 1
            self.arguments[head.label, tail.label] += 1
            first, last = sorted((head.start, tail.start))
            self.crossing += any(first < start <= last for start in starts)

    def kind(self, where: Path) -> Kind:
        """Return the kind of task for these records, decided by the richest annotation."""
        if self.relations:
            return Kind.RELATION
        # Spans with labels of their document are evidence for those labels (HoC marks sentences), not mentions.
        if self.spans and not self.spans.keys() <= self.labels.keys():
            return Kind.TAGGING
        if self.labels:
            return Kind.MULTILABEL if self.several else Kind.CLASSIFICATION
        if self.values:
            return Kind.REGRESSION
        columns = [name for name, count in sorted(self.meta.items()) if count == self.records]
        fix = "Check --format and the files"
        if columns:
            named = list_columns(columns) or "See the first line of the table"
            fix = f"If a column has the labels, name it with --set options.label=NAME. {named}"
        raise InputError("no mention, relation, label or value found", where=where, fix=fix)

    def possible(self) -> list[Kind]:
        """Return every kind of task that these records allow."""
        has = {
            Kind.RELATION: self.relations,
            Kind.TAGGING: self.spans,
            Kind.ATTRIBUTES: self.task_labels(Kind.ATTRIBUTES),
            Kind.MULTILABEL: self.labels,
            Kind.CLASSIFICATION: self.labels and not self.several,
            Kind.REGRESSION: self.values,
        }
        return [kind for kind, there in has.items() if there]

    def task_labels(self, kind: Kind) -> Counter[str]:
        """Return the labels that a task of this kind predicts, with their counts."""
        if kind is Kind.REGRESSION:
            return Counter()
        if kind is Kind.ATTRIBUTES:
            values = Counter(name for name, _ in self.attributes)
            few = {pair: count for pair, count in self.attributes.items() if values[pair[0]] <= _FEW_VALUES}
            return Counter({attribute_label(*pair): count for pair, count in few.items()})
        return {Kind.TAGGING: self.spans, Kind.RELATION: self.relations}.get(kind, self.labels)

    def group(self) -> str:
        """Return the key to group records by when carving a split: the patient, the first text of a pair, or the id."""
        for key in _PATIENT:
            if self.meta[key] == self.records:
                return f"meta:{key}"
        return "first" if self.pairs == self.records else "id"

    def sentence_source(self) -> str:
        """Return the card's value of `sentences`."""
        if self.meta["sentences"] == self.records:
            return "meta"
        return "lines" if self.tokenised == self.records else "split"

    def candidates(self) -> str:
        """Return the protocol's value of `candidates`."""
        return "document" if self.crossing > _CROSSING * self.relations.total() else "sentence"
