"""Base classes of all formats: reading, writing, what a writer loses and what a reader reports.

A format is one object with `read` and `write`. `read` takes a file, a folder, an archive or a `SourceTree` (a
selection of files in any of these) and yields records one by one. `write` takes records and returns a `Loss`: a count
per reason of what the format could not hold.

Real corpora have a few defects: an offset that is off by one, a relation to a missing mention. A reader without a
`Problems` collector is strict: the first defect raises `DefectError` with file and line. With a collector, it continues
as described in `DEFECTS` and counts defects by kind, so that a task card can state the known ones ("text-mismatch": 5).

Bytes that are not UTF-8, damaged archives and broken XML always raise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from osler.core.errors import InputError, RecipeError, alternatives
from osler.core.parsing import to_int
from osler.formats.offsets import UNCHECKED, OffsetEvidence, check_conventions
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Record, check_record

Defect = Literal[
    "text-mismatch",
    "bad-span",
    "empty-fragment",
    "empty-text",
    "empty-label",
    "dangling-reference",
    "duplicate-id",
    "duplicate-document",
    "missing-annotation",
    "missing-text",
    "malformed-line",
    "improper-tag",
    "unknown-field",
]
DEFECTS: Mapping[Defect, tuple[str, str]] = {
    "text-mismatch": ("a mention's own text differs from the text at its offsets", "the mention, at its offsets"),
    "bad-span": ("offsets outside the text, empty, or overlapping each other", "nothing of the mention"),
    "empty-fragment": ("a fragment of a discontinuous mention is empty", "the mention without it"),
    "empty-text": ("a text, or one text of a pair, is empty", "the record, with it empty"),
    "empty-label": ("a mention or relation without a type", "the relation, as `untyped`; nothing of the mention"),
    "dangling-reference": ("a reference to a missing mention", "nothing of what refers to it"),
    "duplicate-id": ("a mention or relation id occurs twice in a document", "the first"),
    "duplicate-document": ("a document id occurs twice in a source", "both"),
    "missing-annotation": ("a text without its annotation file", "the document, without annotations"),
    "missing-text": ("an annotation without its text", "nothing of the annotation"),
    "malformed-line": ("a line, row or element that does not fit the format", "nothing of that line"),
    "improper-tag": ("an I- tag with no mention to continue", "the tag, as the start of a new mention"),
    "unknown-field": ("a field this format does not know", "the record without that field"),
}
"""For each kind of defect: what is wrong, and what a tolerant reader keeps."""


@dataclass(frozen=True)
class Loss:
    """What a written file could not hold, as a count per reason. Falsy if nothing was lost."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def __str__(self) -> str:
        lost = [f"{count} {reason}" for reason, count in sorted(self.counts.items()) if count]
        return ", ".join(lost) or "nothing lost"


@dataclass(frozen=True, slots=True)
class FormatProblem:
    """One defect: kind, place, and a description without document text."""

    kind: Defect
    where: str
    detail: str


class DefectError(InputError):
    """A strict reader met a defect."""

    def __init__(self, kind: Defect, detail: str, *, where: str, fix: str | None) -> None:
        super().__init__(f"{detail} ({kind})", where=where, fix=fix or "Correct the file")
        self.kind = kind


class Problems:
    """Collects defects so that reading can continue: counts per kind, and the first `keep` defects in full.

    The first defect of each kind is always kept.
    """

    def __init__(self, keep: int = 100) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: list[FormatProblem] = []
        self._keep = keep

    def report(self, kind: Defect, detail: str, *, where: str, fix: str | None = None) -> None:
        """Count one defect. `fix` is only used by strict readers, which raise instead."""
        self.counts[kind] += 1
        if len(self.examples) < self._keep or self.counts[kind] == 1:
            self.examples.append(FormatProblem(kind, where, detail))


class _Strict(Problems):
    def report(self, kind: Defect, detail: str, *, where: str, fix: str | None = None) -> None:
        raise DefectError(kind, detail, where=where, fix=fix)


class SourceReading:
    """State of one pass over a source: its files, problem collector, and the document ids and offsets seen so far."""

    def __init__(self, tree: SourceTree, problems: Problems | None, offsets: Sequence[str] | None = None) -> None:
        self.tree = tree
        self.strict = problems is None
        self.problems = _Strict() if problems is None else problems
        self.conventions = tuple(name for name in offsets or () if name != UNCHECKED)
        self.evidence = None if offsets is None or UNCHECKED in offsets else OffsetEvidence(self.conventions)
        self._seen: set[int] = set()  # hashes, because ids can be long and many

    def report(self, kind: Defect, detail: str, file: str, line: int | None = None, *, fix: str | None = None) -> None:
        """Report a defect of a file or of one of its lines."""
        self.problems.report(kind, detail, where=self.tree.where(file, line), fix=fix)

    def numbers(self, cells: Iterable[str], file: str, line: int | None = None) -> list[int] | None:
        """Parse offsets and other whole numbers. If one is invalid, report it and return None."""
        found: list[int] = []
        for cell in cells:
            number = to_int(cell)
            if number is None:
                self.report("malformed-line", "an offset is not a whole number of at most 18 digits", file, line)
                return None
            found.append(number)
        return found

    def check_new(self, document_id: str, file: str, line: int | None = None) -> None:
        """Report a document whose id has been seen before."""
        key = hash(document_id)
        if key in self._seen:
            fix = "Read one copy of the corpus (select the folder of one split), or rename the documents"
            self.report("duplicate-document", "a document with this id was read before", file, line, fix=fix)
        self._seen.add(key)


@dataclass(frozen=True)
class Format(ABC):
    """A file format. Subclasses implement reading and writing; their additional fields are options, set with `configure`."""

    name: str
    """Name in the registry."""
    description: str
    """One line for the list of formats."""
    suffixes: tuple[str, ...]
    """File name endings of this format, without compression suffixes."""
    layout: Literal["file", "folder"] = "file"
    """Whether `write` makes one file or a folder of files."""

    def detect(self, source: Source) -> bool:
        """Whether the source looks like this format, judged by file names and first lines."""
        with opened(source) as tree:
            return self._detect(tree)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Record]:
        """Yield the records of a file, folder, archive or tree."""
        with opened(source) as tree:
            reading = self._reading(tree, problems)
            yield from self._read(reading)
            if reading.evidence is not None:
                reading.evidence.check(tree.root)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write the records and return what the format could not hold."""
        losses: Counter[str] = Counter()
        self._write(_checked(records, path), path, losses)
        return Loss(+losses)

    def _named(self, tree: SourceTree) -> list[str]:
        """Files with a suffix of this format."""
        return tree.names(*(f"*{suffix}" for suffix in self.suffixes))

    def _files(self, tree: SourceTree) -> list[str]:
        """Files to read: those with a suffix of this format, or all files."""
        return self._named(tree) or list(tree)

    def _reading(self, tree: SourceTree, problems: Problems | None) -> SourceReading:
        return SourceReading(tree, problems)

    @abstractmethod
    def _detect(self, tree: SourceTree) -> bool: ...

    @abstractmethod
    def _read(self, reading: SourceReading) -> Iterator[Record]: ...

    @abstractmethod
    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None: ...


@dataclass(frozen=True)
class StandOffFormat(Format):
    """A format whose mentions are offsets into a text, written by other programs.

    `offsets` states what the offsets count if not characters; see `osler.formats.offsets`. If the mentions of a source are
    misaligned as a whole, reading ends with an error.
    """

    offsets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_conventions(self.offsets)

    def _reading(self, tree: SourceTree, problems: Problems | None) -> SourceReading:
        return SourceReading(tree, problems, self.offsets)


@dataclass(frozen=True)
class OutputFormat(Format):
    """A format for other programs, which osler writes but does not read."""

    def _detect(self, tree: SourceTree) -> bool:
        """Whether a folder or file was written in this format, so that --force may replace it."""
        return bool(self._named(tree)) and len(self._named(tree)) == len(tree)

    def _read(self, reading: SourceReading) -> Iterator[Record]:
        fix = "Read the file that it was made from. Annotations that osler can read again are jsonl, brat and bioc"
        raise RecipeError(f"osler writes {self.name}, but does not read it", fix=fix)


def _checked(records: Iterable[Record], path: Path) -> Iterator[Record]:
    """Raise on a record that no file can hold, so that writers need not check."""
    for number, record in enumerate(records, 1):
        check_record(record, where=f"{path}: record {number}")
        yield record


def configure(format_: Format, options: Mapping[str, Any]) -> Format:
    """Return a copy of the format with some options set. Raises RecipeError for an unknown option or a wrong type."""
    if not options:
        return format_
    # A plug-in's format that is not a dataclass has no options.
    own = fields(format_) if is_dataclass(format_) else ()
    known = {f.name for f in own} - {f.name for f in fields(Format)}
    for option in options:
        if option not in known:
            fix = alternatives(option, sorted(known), "Options")
            raise RecipeError(f"the format {format_.name!r} has no option {option!r}", fix=fix)
    types = get_type_hints(type(format_))
    return replace(format_, **{name: _option_value(name, types[name], value) for name, value in options.items()})


def _option_value(name: str, wanted: Any, value: Any) -> Any:
    """Convert an option to its type. A list may be written as a,b,c."""
    if get_origin(wanted) is tuple:
        items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return tuple(items)
        expected = f"a list of names, such as {name}=a,b,c"
    elif get_origin(wanted) is Literal:
        if value in get_args(wanted):
            return value
        expected = f"one of: {', '.join(get_args(wanted))}"
    elif wanted is str:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)  # a column may be called 2019
        if isinstance(value, date):
            return value.isoformat()  # TOML and --set parse dates
        expected = "a name"
    else:
        if isinstance(value, wanted):
            return value
        expected = "true or false" if wanted is bool else f"of type {wanted.__name__}"
    raise RecipeError(f"the option {name!r} cannot be {value!r}", fix=f"Make it {expected}")
