"""Task cards: TOML files that describe a task, its labels, its files, its splits and how it is scored."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe
from osler.core.errors import RecipeError, nearest
from osler.text.tags import Repair, Scheme

NUMBERS = ("documents", "mentions", "relations", "overlapping", "discontinuous", "assigned")


class ExpectedCounts(Recipe):
    """How many of what; only what is stated is compared."""

    documents: int | None = None
    """Records: documents, sentences where the corpus has no documents, or pairs."""
    mentions: int | None = None
    relations: int | None = None
    overlapping: int | None = None
    """Mentions that share characters with another one."""
    discontinuous: int | None = None
    assigned: int | None = None
    """Labels given to records, each record's counted, in a multi-label task."""
    labels: dict[str, int] = Field(default_factory=dict)
    """How often a label occurs: on mentions, relations or records, whichever the task predicts."""

    def stated(self) -> dict[str, int]:
        """Every stated number by name; a label's is named `label:NAME`."""
        found = {name: value for name in NUMBERS if (value := getattr(self, name)) is not None}
        return found | {f"label:{label}": count for label, count in self.labels.items()}


class Paper(Recipe):
    """What the literature says. A key is a split, several joined by `+`, or `all`."""

    source: str
    splits: dict[str, ExpectedCounts] = Field(default_factory=dict)
    differences: dict[str, str] = Field(default_factory=dict)
    """Why a number differs here: `train.relations` or just `train` to the reason."""

    def reason(self, split: str, number: str) -> str | None:
        """The explanation of a difference, if the card has one."""
        return self.differences.get(f"{split}.{number}") or self.differences.get(split)


FOLD = "{fold}"


class Key(Recipe):
    """What identifies the group a record belongs to (a document, a patient, a question)."""

    by: str = Field("id", pattern=r"^(id|text|first|meta:.+|table:.+)$")
    """The record's id, its text, the first text of a pair, a meta value, or the second column of a table found by its id."""
    pattern: str = ""
    """A regular expression with one group that cuts the key out of that, such as the patient out of `123-04`."""

    @field_validator("pattern")
    @classmethod
    def _one_group(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if pattern and groups != 1:
            raise ValueError("the pattern needs exactly one group, in parentheses")
        return pattern


class Carve(Key):
    """A split that has no official files: a share of the groups of another split, taken out of it."""

    of: str
    share: float = Field(gt=0.0, lt=1.0)
    seed: int = 0
    method: Literal["drawn", "tail"] = "drawn"
    """Groups drawn by a hash of seed and key, the same in every task that has them; or the last ones of the file."""


class Listed(Key):
    """A split whose members an official list names, one key a line."""

    file: str


class Split(Recipe):
    """Where the records of one split are."""

    files: tuple[str, ...] = ()
    """Names of the official files, found in any folder or archive. `*` stands for part of a name, `**` for any folders."""
    extra: tuple[str, ...] = ()
    """Files that are read with them where they are there."""
    where: dict[str, str] = Field(default_factory=dict)
    """Only records whose meta has these values; "" means that it has none."""
    listed: Listed | None = None
    carve: Carve | None = None
    optional: bool = False
    """Whether the task can be prepared without this split."""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if bool(self.files) == bool(self.carve):
            raise ValueError("a split has either files or a carve")
        return self


class SourceLayout(Recipe):
    """Where the records come from. `clinic` is the embedded synthetic clinic, `files` are official files of one format."""

    reader: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the clinic, or of the format."""
    format: str | None = None
    folder: tuple[str, ...] = ()
    """Names of the folder or archive that holds the files, where their own names do not tell the corpus."""
    splits: dict[str, Split] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.reader == "files" and not (self.format and self.splits):
            raise ValueError("the reader 'files' needs a format and splits")
        for name, split in self.splits.items():
            pool = self.splits.get(split.carve.of) if split.carve else split
            if pool is None or (split.carve and not pool.files):
                raise ValueError(f"the split {name!r} is carved out of a split that does not exist or has no files")
        return self

    def at_fold(self, fold: int) -> SourceLayout:
        """The files of one fold."""
        splits = {
            name: split.model_copy(update={"files": tuple(f.replace(FOLD, str(fold)) for f in split.files)})
            for name, split in self.splits.items()
        }
        return self.model_copy(update={"splits": splits})


class Kind(StrEnum):
    """What a task asks of a model."""

    TAGGING = "tagging"
    RELATION = "relation"
    CLASSIFICATION = "classification"
    MULTILABEL = "multilabel"
    REGRESSION = "regression"


_OTHERWISE = "+"


class Protocol(Recipe):
    """How instances are made and scored. Change the meaning of a field and the version must rise."""

    version: int = 1
    description: str = ""
    train_on: tuple[str, ...] = ("train",)
    metric: str
    scheme: Scheme = Scheme.BIO
    repair: Repair = Repair.CONLLEVAL
    """How an improper tag sequence is read; only greedy decoding can give one."""
    decoding: Literal["constrained", "greedy"] = "constrained"
    """The best well-formed tag sequence, or the best tag of each word alone as most published pipelines take it."""
    subwords: Literal["first", "all"] = "first"
    unit: Literal["document", "sentence"] = "document"
    """What a text classifier reads at once; labels found in sentences are united for their document."""
    records: Literal["all", "labelled"] = "all"
    """Whether records without any gold label take part."""
    candidates: Literal["sentence", "joined", "document"] = "sentence"
    """Where the two mentions of a pair must stand together; `joined` sentences end only before a capital, as BLUE's do."""
    markers: Literal["blind", "enclose"] = "enclose"


class TaskCard(Recipe):
    """Everything known about one task, without its data."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9\-]*$")
    title: str
    kind: Kind
    record: Literal["document", "pair"] = "document"
    language: str
    domain: str = "clinical"
    labels: tuple[str, ...] = ()
    label_map: dict[str, str] = Field(default_factory=dict)
    """Official label to the task's, for mentions, relations and records alike; `*` stands for any characters."""
    discover_labels: bool = False
    """The labels are those the data has, read when the task is prepared (code systems with thousands of labels)."""
    negative: str = "false"
    pairs: tuple[tuple[str, str], ...] = ()
    symmetric: bool = False
    sentences: Literal["split", "lines", "meta"] = "split"
    """Where a sentence ends: osler's own splitter, the lines of the text, or the places the corpus gives."""
    phi: str | None = None
    """The map of protected health information (i2b2-2014, meddocan, clinic) by which masking is scored."""
    folds: int = 0
    """How many folds the corpus has; `{fold}` in file names stands for one. Fold 1 is for choices, the others are reported."""
    fold: int | None = None
    """Which fold this is, in the card of a prepared fold."""
    licence: str = "unknown"
    access: str = ""
    citation: str = ""
    distribution: tuple[str, ...] = ()
    """The names of the files and archives as they are given out."""
    notes: tuple[str, ...] = ()
    source: SourceLayout
    known_problems: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Split to kind of defect to how many of them the official files have; more than that is refused."""
    tolerated: tuple[str, ...] = ()
    """Kinds of defect that are counted and never refused, where their number in the official files is not known."""
    counts: dict[str, ExpectedCounts] = Field(default_factory=dict)
    """What the official files hold, by split, as osler reads them."""
    paper: Paper | None = None
    protocol: str
    protocols: dict[str, Protocol]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.protocol not in self.protocols:
            raise ValueError(
                f"the default protocol {self.protocol!r} is not among protocols: {', '.join(self.protocols)}"
            )
        if self.kind is not Kind.REGRESSION and not self.labels and not self.discover_labels:
            raise ValueError(f"a {self.kind} task needs labels")
        if self.kind is Kind.RELATION and not self.pairs:
            raise ValueError("a relation task needs pairs: which entity types may be head and tail")
        if self.kind in {Kind.TAGGING, Kind.RELATION} and self.record != "document":
            raise ValueError(f"a {self.kind} task works on documents, not on pairs")
        if self.discover_labels and self.kind not in {Kind.TAGGING, Kind.CLASSIFICATION, Kind.MULTILABEL}:
            raise ValueError(f"the labels of a {self.kind} task cannot be discovered")
        return self

    def protocol_named(self, name: str | None = None) -> Protocol:
        """A protocol of this task, the default one without a name."""
        wanted = name or self.protocol
        if wanted not in self.protocols:
            close = nearest(wanted, self.protocols)
            hint = f"Did you mean {close!r}? " if close else ""
            raise RecipeError(
                f"task {self.name} has no protocol {wanted!r}", fix=f"{hint}Known: {', '.join(sorted(self.protocols))}"
            )
        return self.protocols[wanted]

    def protocol_id(self, name: str | None = None, read: str = "") -> str:
        """What is printed beside a number: task, protocol and version; `read` says how outputs were taken where not as it says."""
        wanted = name or self.protocol
        otherwise = f"{_OTHERWISE}{read}" if read else ""
        return f"{self.name}/{wanted}{otherwise}@v{self.protocol_named(wanted).version}"

    def protocol_behind(self, identifier: str) -> Protocol:
        """The protocol of a number, from what `protocol_id` printed beside it."""
        name = identifier.rpartition("/")[2].partition("@")[0]
        # Names of protocols may have a + of their own.
        return self.protocol_named(name if name in self.protocols else name.rpartition(_OTHERWISE)[0] or name)

    @property
    def entity_labels(self) -> tuple[str, ...]:
        """The span labels this task reads or predicts."""
        if self.kind is Kind.TAGGING:
            return self.labels
        return tuple(dict.fromkeys(label for pair in self.pairs for label in pair))

    @property
    def sentence_level(self) -> bool:
        """Whether some protocol reads sentences, so that their labels (spans over them) belong to the task."""
        return self.kind is Kind.MULTILABEL and any(p.unit == "sentence" for p in self.protocols.values())

    def at_fold(self, fold: int) -> TaskCard:
        """The card of one fold: a task of its own."""
        if self.fold is not None or not 1 <= fold <= self.folds:
            raise RecipeError(
                f"task {self.name} has no fold {fold}",
                fix=f"Give one of 1 to {self.folds}" if self.folds else "Leave the fold out",
            )
        changes = {"name": f"{self.name}-fold{fold}", "fold": fold, "source": self.source.at_fold(fold)}
        return self.model_copy(update=changes)
