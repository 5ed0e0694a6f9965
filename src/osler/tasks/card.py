"""Task cards: TOML files that describe a task, its labels, its files, its splits and how it is scored."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from osler.core.config import Recipe
from osler.core.errors import RecipeError, alternatives
from osler.text.document import Document, Record, Span
from osler.text.tags import Repair, Scheme


class ExpectedCounts(Recipe):
    """Expected counts of one split. Only the counts given are compared."""

    documents: int | None = None
    """Number of records: documents, pairs, or sentences if the corpus has no documents."""
    mentions: int | None = None
    """Number of mentions, in a tagging or relation task."""
    relations: int | None = None
    """Number of relations, in a relation task."""
    overlapping: int | None = None
    """Number of mentions that share a character with another mention."""
    discontinuous: int | None = None
    """Number of mentions with several fragments."""
    assigned: int | None = None
    """Total number of labels over all records, in a multi-label task."""
    labels: dict[str, int] = Field(default_factory=dict)
    """Count by label of what the task predicts: mentions, relations or records."""

    def stated(self) -> dict[str, int]:
        """Return the counts given, by name; the count of a label is named `label:NAME`."""
        found = {name: value for name, value in self if name != "labels" and value is not None}
        return found | {f"label:{label}": count for label, count in self.labels.items()}


class PublishedCounts(Recipe):
    """Published counts. A key is a split, several splits joined by `+`, or `all`."""

    source: str
    """Where the counts were published."""
    splits: dict[str, ExpectedCounts] = Field(default_factory=dict)
    """Published counts by split, by several splits joined by `+` (`train+dev`), or for `all` splits."""
    differences: dict[str, str] = Field(default_factory=dict)
    """Why osler's count differs, by split and count (`train.relations`) or by split (`train`)."""

    def reason(self, split: str, number: str) -> str | None:
        return self.differences.get(f"{split}.{number}") or self.differences.get(split)


class GroupKey(Recipe):
    """How to find the group that a record belongs to, such as a document, a patient or a question."""

    by: str = Field("id", pattern=r"^(id|text|first|meta:.+|table:.+)$")
    """Source of the key: `id`, `text`, `first` (text of a pair), `meta:NAME`, or `table:FILE` (second column of a table of ids)."""
    pattern: str = ""
    """Regular expression with one group that extracts the key, such as the patient from `123-04`."""

    @field_validator("pattern")
    @classmethod
    def _one_group(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if pattern and groups != 1:
            raise ValueError("the pattern must have exactly one group in parentheses")
        return pattern


class Carve(GroupKey):
    """A split without official files, carved out of another split group by group."""

    of: str
    """The split to carve from."""
    share: float = Field(gt=0.0, lt=1.0)
    """Fraction of that split's groups to take."""
    seed: int = 0
    """Seed of the hash that picks the groups."""
    method: Literal["drawn", "tail"] = "drawn"
    """`drawn` picks groups by a hash of seed and key, so tasks with the same groups agree; `tail` takes the last groups of the file."""


class MemberList(GroupKey):
    """An official file that lists the members of a split, one key per line."""

    file: str
    """Name of the file."""


class Split(Recipe):
    """Where to find the records of one split."""

    files: tuple[str, ...] = ()
    """Names of the official files, in any folder or archive. `*` matches part of a name, `**` any folders."""
    extra: tuple[str, ...] = ()
    """Names of further files, read if they exist."""
    where: dict[str, str] = Field(default_factory=dict)
    """Keep only records with these meta values; "" matches a missing value."""
    listed: MemberList | None = None
    """Keep only records that an official file lists."""
    carve: Carve | None = None
    """Carve the split out of another one instead of reading files."""
    optional: bool = False
    """Whether the task can be prepared without this split."""

    @property
    def names(self) -> list[str]:
        """Names of the official files, including the list of members."""
        return [*self.files, *([self.listed.file] if self.listed else [])]

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if bool(self.files) == bool(self.carve):
            raise ValueError("a split needs either files or carve")
        return self


class SourceLayout(Recipe):
    """Where the records of a task come from."""

    reader: str
    """Source of the records: `files` (official files of one format) or `clinic` (the built-in synthetic clinic)."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the clinic or of the format."""
    format: str | None = None
    """Format of the files, a name from `osler convert --list`."""
    folder: tuple[str, ...] = ()
    """Possible names of the folder or archive, if the file names alone do not identify the corpus."""
    splits: dict[str, Split] = Field(default_factory=dict)
    """Splits by name, usually `train`, `dev` and `test`."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.reader == "files" and not (self.format and self.splits):
            raise ValueError("the reader 'files' needs a format and splits")
        for name, split in self.splits.items():
            pool = self.splits.get(split.carve.of) if split.carve else split
            if pool is None or (split.carve and not pool.files):
                raise ValueError(f"the split {name!r} is carved from a split that does not exist or has no files")
        return self


class Release(Recipe):
    """One of several releases of a corpus. The card's own splits and counts are those of the release that it names."""

    title: str
    """Short description."""
    marks: tuple[str, ...] = ()
    """Names of files that only this release has; wildcards work as in the files of a split."""
    splits: dict[str, Split] = Field(default_factory=dict)
    """Splits by name, if their files differ from the card's."""
    counts: dict[str, ExpectedCounts] = Field(default_factory=dict)
    """Expected counts by split, as osler reads the files."""
    paper: PublishedCounts | None = None
    """Published counts of this release."""


class Kind(StrEnum):
    """What a task asks a model to predict."""

    TAGGING = "tagging"
    RELATION = "relation"
    CLASSIFICATION = "classification"
    MULTILABEL = "multilabel"
    REGRESSION = "regression"
    ATTRIBUTES = "attributes"


BY_TOKEN = frozenset({Kind.TAGGING, Kind.ATTRIBUTES})
"""Kinds with token-level heads."""


_SCORING_FIELDS = frozenset({"version", "description", "metric", "decoding", "repair", "order"})
"""Protocol fields that may differ between training and scoring."""


class Protocol(Recipe):
    """How a task is trained and scored. Increase `version` whenever the meaning of a field changes."""

    later: ClassVar = ("read", "fragments", "merged", "order", "swapped")

    version: int = 1
    """Version, printed with every score, as in `ncbi-disease/strict@v1`."""
    description: str = ""
    """What the protocol does, in one sentence; printed by `osler tasks info`."""
    train_on: tuple[str, ...] = ("train",)
    """Splits to train on. The best epoch is chosen on `dev`, unless `dev` is one of them."""
    metric: str
    """Main metric, by which models are selected and compared; one of those of the task's kind (table below)."""
    scheme: Scheme = Scheme.BIO
    """Tag scheme of a tagging task: beginning and inside of a mention (BIO), or also end and single words (BIOES)."""
    repair: Repair = Repair.CONLLEVAL
    """How an invalid tag sequence is read; only greedy decoding can produce one."""
    decoding: Literal["constrained", "greedy"] = "constrained"
    """`constrained` finds the best valid tag sequence; `greedy` takes each word's best tag, as most published pipelines do."""
    subwords: Literal["first", "all", "copy"] = "first"
    """Sub-words of a word that are tagged in training: the `first`, `all` (I- after the first), or all with a `copy` of its tag."""
    read: Literal["first", "last"] = "first"
    """Sub-word from which the predicted tag of a word is read; `last` needs `subwords = "copy"`."""
    fragments: Literal["skip", "tag"] = "skip"
    """Mentions with words between their fragments: `skip` counts them and trains without, `tag` tags them B- I- O I- as in BLUE's files."""
    merged: str = ""
    """Single label that replaces all labels of a tagging task, in training and scoring."""
    order: Literal["both", "given"] = "both"
    """Orders in which a symmetric pair is read for a prediction: `both` (outputs are averaged), or `given`, as in training."""
    swapped: bool = False
    """Whether the second text of a pair comes first, in training and prediction."""
    unit: Literal["document", "sentence"] = "document"
    """What a text classifier reads at once. With `sentence`, a document gets the labels of all its sentences."""
    records: Literal["all", "labelled"] = "all"
    """Records to use: `all`, or only those with a gold label."""
    candidates: Literal["sentence", "joined", "document"] = "sentence"
    """Unit that must hold both mentions of a pair. `joined` sentences end only before a capital letter, as in BLUE."""
    markers: Literal["blind", "enclose"] = "enclose"
    """How a pair is shown to the model: `enclose` puts markers around mentions, `blind` replaces them by types (`@CHEMICAL$`)."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.read == "last" and self.subwords != "copy":
            raise ValueError('read = "last" needs subwords = "copy": the last sub-word must have the tag of its word')
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, standard: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit newer fields left at their default, so that existing cards and prepared tasks keep their identity."""
        return self.without_later(standard(self))

    def training_differences(self, other: Protocol) -> list[str]:
        """Return the fields that differ and make a head trained under this protocol unfit for the other one."""
        fields = [name for name in Protocol.model_fields if name not in _SCORING_FIELDS]
        return [name for name in fields if getattr(self, name) != getattr(other, name)]

    def spans_of(self, document: Document) -> tuple[Span, ...]:
        """Return the mentions of a document with the labels that this protocol trains and scores."""
        return tuple(replace(span, label=self.merged or span.label) for span in document.spans)

    def relabelled(self, record: Record) -> Record:
        """Return a record with the labels that this protocol trains and scores."""
        return record.with_(spans=self.spans_of(record)) if self.merged and isinstance(record, Document) else record


_RESERVED = ("mean", "kind", "step", "clock")
"""Keys beside the task scores in a training history."""


def _task_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9\-]*", name):
        raise ValueError("a name has only lower-case letters, digits and hyphens, and does not begin with a hyphen")
    if name in _RESERVED:
        raise ValueError(f"{name!r} cannot be the name of a task, because dev scores use it; choose another one")
    return name


TaskName = Annotated[str, AfterValidator(_task_name)]


class TaskCard(Recipe):
    """Everything known about one task except its data."""

    later: ClassVar = ("release", "releases", "mentions")

    name: TaskName
    """Name of the task and of its head: lower-case letters, digits and hyphens."""
    title: str
    """The task in a few words."""
    kind: Kind
    """What is predicted: mentions, relations between them, one label, several labels, a number, or attributes of mentions."""
    record: Literal["document", "pair"] = "document"
    """Whether a record is one text or a pair of texts."""
    language: str
    """Language of the texts, such as `en`, `es` or `fr`."""
    domain: str = "clinical"
    """What the texts are about. Informational only."""
    labels: tuple[str, ...] = ()
    """Labels to predict. Others are dropped and counted when the task is prepared."""
    label_map: dict[str, str] = Field(default_factory=dict)
    """Task label by official label, for mentions, relations and records; `*` matches any characters. The official label of an
    attribute is `NAME=VALUE`."""
    discover_labels: bool = False
    """Take the labels from the data when the task is prepared (code systems with thousands of labels)."""
    negative: str = "false"
    """Label of a pair of mentions without a relation."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of head and tail labels between which relations are predicted."""
    mentions: tuple[str, ...] = ()
    """Labels of the mentions whose attributes are predicted; all by default."""
    symmetric: bool = False
    """Whether head and tail of a relation, or the two texts of a pair, are interchangeable."""
    sentences: Literal["split", "lines", "meta"] = "split"
    """How sentences are found: `split` by osler's splitter, `lines` at line breaks, `meta` as marked in the corpus."""
    phi: str | None = None
    """Label map of protected health information, used to score masking: `i2b2-2014`, `meddocan` or `clinic`."""
    folds: int = 0
    """Number of folds; `{fold}` in file names is replaced by the fold. Tune on fold 1 and report the others."""
    fold: int | None = None
    """Fold number, in the card of a prepared fold."""
    licence: str = "unknown"
    """Licence of the data."""
    access: str = ""
    """Where to get the data, or where to apply for it."""
    citation: str = ""
    """The paper to cite."""
    distribution: tuple[str, ...] = ()
    """Names of the official files and archives."""
    notes: tuple[str, ...] = ()
    """What a user should know, one sentence each."""
    source: SourceLayout
    """Where the records come from."""
    known_problems: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Known defects of the official files: count by split and kind. A higher count is an error."""
    tolerated: tuple[str, ...] = ()
    """Kinds of defects that are never an error, because their number in the official files is unknown."""
    counts: dict[str, ExpectedCounts] = Field(default_factory=dict)
    """Expected counts by split, as osler reads the official files."""
    paper: PublishedCounts | None = None
    """Published counts; `osler tasks check` compares them too."""
    release: str | None = None
    """Release that the card's own files and counts describe; in a prepared task, the release that was found."""
    releases: dict[str, Release] = Field(default_factory=dict)
    """Releases by name, if the corpus has several. The first one whose files are found is read, starting with the card's own."""
    protocol: str
    """Name of the default protocol."""
    protocols: dict[str, Protocol]
    """Protocols by name. `protocol_family` (a name or a list of names) adds shared ones."""

    @model_serializer(mode="wrap")
    def _as_before(self, standard: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit newer fields left at their default, so that existing prepared tasks and study runs are recognised."""
        return self.without_later(standard(self))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.protocol not in self.protocols:
            raise ValueError(f"the default protocol {self.protocol!r} must be one of: {', '.join(self.protocols)}")
        if self.kind is not Kind.REGRESSION and not self.labels and not self.discover_labels:
            raise ValueError(f"a {self.kind} task needs labels")
        if self.kind is Kind.RELATION and not self.pairs:
            raise ValueError("a relation task needs pairs: the entity types of head and tail")
        if self.kind in {Kind.TAGGING, Kind.RELATION, Kind.ATTRIBUTES} and self.record != "document":
            raise ValueError(f"a {self.kind} task needs documents, not pairs")
        if self.discover_labels and self.kind not in {Kind.TAGGING, Kind.CLASSIFICATION, Kind.MULTILABEL}:
            raise ValueError(f"the labels of a {self.kind} task cannot be discovered")
        if self.releases and self.release not in self.releases:
            raise ValueError(f"release must be one of: {', '.join(self.releases)}")
        return self

    def protocol_named(self, name: str | None = None) -> Protocol:
        """Return a protocol by name, or the default one."""
        wanted = name or self.protocol
        if wanted not in self.protocols:
            raise RecipeError(
                f"task {self.name} has no protocol {wanted!r}",
                fix=f"{alternatives(wanted, sorted(self.protocols))}. A prepared task has the protocols of the osler that made it; "
                "prepare it again for newer ones",
            )
        return self.protocols[wanted]

    def under(self, protocol: Protocol) -> TaskCard:
        """Return the card with the labels that a head trained under this protocol predicts."""
        return self.model_copy(update={"labels": (protocol.merged,)}) if protocol.merged else self

    def protocol_id(self, name: str | None = None, read: str = "") -> str:
        """Return the identifier printed with a score. `read` is the decoding, if it is not the protocol's."""
        wanted = name or self.protocol
        decoded = f"+{read}" if read else ""
        return f"{self.name}/{wanted}{decoded}@v{self.protocol_named(wanted).version}"

    def protocol_behind(self, identifier: str) -> Protocol:
        """Return the protocol that an identifier from `protocol_id` names."""
        name = identifier.rpartition("/")[2].partition("@")[0]
        # The name of a protocol may itself contain a +.
        return self.protocol_named(name if name in self.protocols else name.rpartition("+")[0] or name)

    @property
    def entity_labels(self) -> tuple[str, ...]:
        """Span labels that this task reads or predicts."""
        if self.kind is Kind.TAGGING:
            return self.labels
        if self.kind is Kind.ATTRIBUTES:
            return self.mentions
        return tuple(dict.fromkeys(label for pair in self.pairs for label in pair))

    @property
    def sentence_level(self) -> bool:
        """Whether any protocol reads single sentences, whose labels are stored as spans."""
        return self.kind is Kind.MULTILABEL and any(p.unit == "sentence" for p in self.protocols.values())

    def at_fold(self, fold: int) -> TaskCard:
        """Return the card of one fold, which is a task of its own."""
        if self.fold is not None or not 1 <= fold <= self.folds:
            raise RecipeError(
                f"task {self.name} has no fold {fold}",
                fix=f"Give --fold a number from 1 to {self.folds}" if self.folds else "Leave out --fold",
            )
        splits = {
            name: split.model_copy(update={"files": tuple(f.replace("{fold}", str(fold)) for f in split.files)})
            for name, split in self.source.splits.items()
        }
        source = self.source.model_copy(update={"splits": splits})
        return self.model_copy(update={"name": f"{self.name}-fold{fold}", "fold": fold, "source": source})

    def at_release(self, name: str) -> TaskCard:
        """Return the card of one release, with its files and counts."""
        if name not in self.releases:
            known = f"Use one of: {', '.join(self.releases)}" if self.releases else "Leave out --release"
            raise RecipeError(f"task {self.name} has no release {name!r}", fix=known)
        found = self.releases[name]
        values: dict[str, Any] = {"release": name, "releases": {name: found}}
        if name != self.release:
            source = self.source.changed(splits=found.splits) if found.splits else self.source
            values |= {"source": source, "counts": found.counts, "paper": found.paper}
        return self.model_copy(update=values)
