"""What every format agrees on: how to read, how to write, what a writer loses and what a reader finds wrong.

A format is one object with `read` and `write`. Reading takes a file, a folder, an archive or a `SourceTree` (a
selection of files in any of these) and yields records one by one. Writing takes records and returns a `Loss`: what
the target could not hold, by reason, empty where nothing was lost.

Real corpora have a few defects: an offset that is off by one, a relation to a mention that is not there. A reader
given no `Problems` is strict: the first defect raises `InputError` with file and line. Given a `Problems`, it carries
on as the table says, and counts each case by kind, so that a task card can state the defects it knows
("text-mismatch": 5) and check them.

| kind               | what is wrong                                              | what is read                    |
|--------------------|------------------------------------------------------------|---------------------------------|
| text-mismatch      | the mention's own text is not what stands at its offsets   | the mention, at its offsets     |
| bad-span           | offsets outside the text, empty, or overlapping each other | nothing                         |
| empty-fragment     | a piece of a discontinuous mention is empty                | the mention without it          |
| empty-text         | a text or one of a pair is empty                           | the record, with it empty       |
| empty-label        | a mention or relation without a type                       | the relation, as "untyped"      |
| dangling-reference | something points to a mention that is not there            | nothing                         |
| duplicate-id       | a mention or relation id occurs twice in a document        | the first                       |
| duplicate-document | a document id occurs twice in a source                     | both                            |
| missing-annotation | a text without its annotation file                         | the bare document               |
| missing-text       | an annotation without its text                             | nothing                         |
| malformed-line     | a line, row or element that does not fit the format        | nothing of that line            |
| improper-tag       | an I- that continues nothing                               | the start of a new mention      |
| unknown-field      | a field this format does not know                          | nothing of that field           |

Bytes that are not UTF-8, damaged archives and broken XML are not defects of a record: they always raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from osler.core.errors import InputError, RecipeError, nearest
from osler.formats.sources import Source
from osler.text.document import Record, check_text

Kind = Literal[
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


@dataclass(frozen=True)
class Loss:
    """What a written file could not hold: reason to count. Empty, and false, where nothing was lost."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def __str__(self) -> str:
        lost = [f"{count} {reason}" for reason, count in sorted(self.counts.items()) if count]
        return ", ".join(lost) or "nothing lost"


@dataclass(frozen=True, slots=True)
class FormatProblem:
    """One defect: its kind, where it is and what is wrong, without the text."""

    kind: Kind
    where: str
    detail: str


class Problems:
    """Collects defects so that reading can go on: a count for each kind and the first `keep` of them in full."""

    def __init__(self, keep: int = 100) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: list[FormatProblem] = []
        self._keep = keep

    def __len__(self) -> int:
        return self.counts.total()

    def report(self, kind: Kind, detail: str, *, where: str, fix: str | None = None) -> None:
        """Take note of one defect; `fix` is for the strict reader, which raises here."""
        self.counts[kind] += 1
        if len(self.examples) < self._keep:
            self.examples.append(FormatProblem(kind, where, detail))


class _Strict(Problems):
    def report(self, kind: Kind, detail: str, *, where: str, fix: str | None = None) -> None:
        advice = fix or "Correct the file, or read it with a collector of problems to count such defects and go on"
        raise InputError(f"{detail} ({kind})", where=where, fix=advice)


def strict_unless(problems: Problems | None) -> Problems:
    """The collector given, or one that raises at the first defect."""
    return _Strict() if problems is None else problems


@runtime_checkable
class Format(Protocol):
    """One file format. Options, where it has any, are fields of the object: see `configure`."""

    @property
    def name(self) -> str:
        """The name in the registry."""

    @property
    def description(self) -> str:
        """One line for a list of formats."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The file name endings this format is found by, without compression suffixes."""

    @property
    def layout(self) -> Literal["file", "folder"]:
        """Whether `write` makes one file or a folder of files."""

    def detect(self, source: Source) -> bool:
        """Whether the source looks like this format, by names and the first lines."""

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Record]:
        """Yield the records of a file, folder, archive or tree."""

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write the records and say what could not be held."""


def configure(format_: Format, options: Mapping[str, Any]) -> Format:
    """The format with some of its options set; an unknown option is refused, naming the nearest one."""
    if not options:
        return format_
    fixed = {"name", "description", "suffixes", "layout"}
    known: set[str] = {f.name for f in fields(format_)} - fixed if is_dataclass(format_) else set()
    for option in options:
        if option not in known:
            close = nearest(option, known)
            hint = f"Did you mean {close!r}?" if close else f"Known options: {', '.join(sorted(known)) or 'none'}"
            raise RecipeError(f"the format {format_.name!r} has no option {option!r}", fix=hint)
    configured: Format = replace(format_, **options)  # type: ignore[type-var]
    return configured


class Once:
    """Remembers document ids (as hashes: eight bytes each, so that memory stays flat) and reports repetitions."""

    def __init__(self, problems: Problems) -> None:
        self._seen: set[int] = set()
        self._problems = problems

    def check(self, document_id: str, where: str) -> None:
        """Report the document if its id was there before."""
        key = hash(document_id)
        if key in self._seen:
            self._problems.report(
                "duplicate-document",
                "a document with this id was read before",
                where=where,
                fix="Read one copy of the corpus (select the folder of one split), or rename the documents",
            )
        self._seen.add(key)


def checked_text(text: str, where: str) -> str:
    """The text, once it is sure that any file can carry it: no NUL, no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return check_text(text, where=where)
    return check_text(text, where=where) if "\x00" in text else text
