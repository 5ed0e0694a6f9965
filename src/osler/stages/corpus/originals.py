"""Reread documents from the raw files of a corpus, by file and row, and compare them with those kept instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from osler.artifacts.corpus import Corpus, KeptDocument
from osler.artifacts.ledger import LedgerEntry
from osler.core.config import validate
from osler.core.errors import InputError
from osler.stages.corpus.clean import PART_BYTES, Cleaner, document_id
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import FileRange, InputFile, RawDocument
from osler.stages.corpus.inputs import find_inputs
from osler.stages.corpus.readers import READERS

_ELSEWHERE = "Run this in the folder in which the corpus was built, with its raw files where they were"


class Origin(NamedTuple):
    """Where a document was read from: its source, file, row and id."""

    source: str
    file: str
    row: int
    id: str


@dataclass(frozen=True, slots=True)
class Original:
    """The text of a document as it was read, and after repair and rewriters."""

    text: str
    cleaned: str


class Originals:
    """The raw files of a corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self.recipe = validate(CorpusRecipe, corpus.manifest.recipe, where=str(corpus.path))

    def read(self, origins: Iterable[Origin]) -> dict[Origin, Original]:
        """Reread documents. Each file is read once, up to its last wanted document."""
        wanted: dict[tuple[str, str], set[Origin]] = {}
        for origin in origins:
            wanted.setdefault((origin.source, origin.file), set()).add(origin)
        found: dict[Origin, Original] = {}
        for (source, name), several in wanted.items():
            file, recipe = self._file(source, name)
            found |= self._read(file, recipe, several)
        return found

    def _file(self, source_name: str, name: str) -> tuple[InputFile, CorpusRecipe]:
        """Find a raw file; also return the recipe with only its source."""
        missing: InputError | None = None
        for source in self.recipe.sources:
            if source.name not in (None, source_name):
                continue
            try:
                files = find_inputs([source])
            except InputError as error:
                missing = error
                continue
            for file in files:
                if (file.source_name, file.name) == (source_name, name):
                    return file, self.recipe.model_copy(update={"sources": (source,)})
        problem = missing.problem if missing else "the raw file is not there"
        raise InputError(problem, where=(missing.where if missing else None) or name, fix=_ELSEWHERE)

    def _read(self, file: InputFile, recipe: CorpusRecipe, wanted: set[Origin]) -> dict[Origin, Original]:
        cleaner = Cleaner(recipe, file)
        left = set(wanted)
        found: dict[Origin, Original] = {}
        for file_range in self._ranges(file, recipe, {origin.row for origin in wanted}):
            for record in cleaner.records(file_range):
                if not isinstance(record, RawDocument):
                    continue
                origin = Origin(file.source_name, file.name, record.row, document_id(file, record))
                if origin in left:
                    left.remove(origin)
                    document, _ = cleaner.clean(record)
                    found[origin] = Original(record.text, document.text)
                if not left:
                    return found
        raise InputError(
            f"row {min(origin.row for origin in left):,} of this file is not what it was when the corpus was built",
            where=file.path,
            fix="Use the same raw files, or build the corpus again",
        )

    @staticmethod
    def _ranges(file: InputFile, recipe: CorpusRecipe, rows: set[int]) -> Iterator[FileRange]:
        """Yield the ranges of a file that can hold these rows."""
        source = recipe.sources[file.source].read_by(file.reader)
        ranges: list[FileRange] = READERS.get(file.reader).cut(file, source, PART_BYTES)
        ends = [after.first_row for after in ranges[1:]]
        for file_range, end in zip_longest(ranges, ends):
            # Readers that do not count rows before they read give every range the same first row.
            counted = end is not None and end > file_range.first_row
            if not counted or any(file_range.first_row <= row < end for row in rows):
                yield file_range


@dataclass(frozen=True, slots=True)
class WordChange:
    """A place where two documents differ: words of the removed one, and the words that the kept one has instead."""

    place: int
    """Number of words of the removed document before it."""
    removed: tuple[str, ...]
    kept: tuple[str, ...]


def differing_words(removed: str, kept: str) -> list[WordChange]:
    """List where two texts differ, word by word."""
    ours, theirs = removed.split(), kept.split()
    matcher = SequenceMatcher(None, ours, theirs)
    return [
        WordChange(start, tuple(ours[start:stop]), tuple(theirs[other:end]))
        for kind, start, stop, other, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def kept_documents(corpus: Corpus, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[KeptDocument]]:
    """Find documents of the corpus by source and id; missing ones are left out."""
    wanted = set(pairs)
    found: dict[tuple[str, str], list[KeptDocument]] = {}
    for document in corpus.find(key for _, key in wanted) if wanted else ():
        if (document.source, document.id) in wanted:
            found.setdefault((document.source, document.id), []).append(document)
    return found


def twin_of(entry: LedgerEntry, text: str, kept: Sequence[KeptDocument]) -> KeptDocument | None:
    """Return the kept document that an entry is about: the document itself, or else the one sharing most words with `text`."""
    for document in kept:
        if (document.file, document.row) == (entry.file, entry.row):
            return document
    if len(kept) < 2:
        return kept[0] if kept else None
    words = Counter(text.split())
    return max(kept, key=lambda document: (words & Counter(document.text.split())).total())
