"""Clean one part of the input: read its documents, repair and rewrite their text, filter them.

Parts are the unit of parallel work and of resuming. Each part writes three Parquet files: kept documents, ledger rows and the
revisions it has read.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from operator import add
from pathlib import Path
from typing import Any

from osler.artifacts.corpus import FACT_COLUMNS
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import write_json
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.counts import TextCounts, counts_of
from osler.stages.corpus.documents import (
    BadRecord,
    FileRange,
    InputFile,
    LeftOut,
    RawDocument,
    Reading,
    RepairedDocument,
    Withdrawn,
)
from osler.stages.corpus.filters import Filter
from osler.stages.corpus.opening import check_unchanged
from osler.stages.corpus.parts import (
    DIGEST_BYTES,
    KEPT_SCHEMA,
    LOSS_SCHEMA,
    REVISION_SCHEMA,
    ROW_BYTES,
    RowWriter,
    StepEffect,
    ledger_row,
    part_writer,
)
from osler.stages.corpus.readers import READERS

PART_BYTES = 16 << 20


@dataclass(frozen=True)
class Part:
    """File ranges that are cleaned together, and the files they are written to."""

    ranges: tuple[FileRange, ...]
    recipe: CorpusRecipe
    kept: Path
    removed: Path
    revisions: Path

    @property
    def before(self) -> Path:
        """File with the counts of the text that was read, by source."""
        return self.kept.with_suffix(".before.json")


def plan_parts(files: Sequence[InputFile], recipe: CorpusRecipe, folder: Path) -> list[Part]:
    """Divide the input into parts of about PART_BYTES each, in input order."""
    groups: list[list[FileRange]] = []
    held = PART_BYTES
    for file in files:
        ranges = _cut(file, recipe)
        for file_range in ranges:
            size = file.size // len(ranges)
            if held + size // 2 >= PART_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(file_range)
            held += max(1, size)
    kinds = ("kept", "removed", "revisions")
    return [
        Part(tuple(group), recipe, *(folder / f"{kind}-{index:06d}.parquet" for kind in kinds))
        for index, group in enumerate(groups)
    ]


def _cut(file: InputFile, recipe: CorpusRecipe) -> list[FileRange]:
    source = recipe.sources[file.source].read_by(file.reader)
    try:
        ranges: list[FileRange] = READERS.get(file.reader).cut(file, source, PART_BYTES)
    except InputError:
        if recipe.strict:
            raise
        return [FileRange(file, 0, file.size)]  # reading it gives the same error, which is then recorded
    return ranges


def clean_part(part: Part) -> None:
    """Write the kept documents, ledger rows and revisions of a part, unless an earlier run did."""
    if part.kept.exists():
        return
    before: dict[str, TextCounts] = {}
    # The file of kept documents is closed last: if it exists, the part is complete.
    with (
        part_writer(part.kept, KEPT_SCHEMA) as kept,
        part_writer(part.removed, LOSS_SCHEMA) as removed,
        part_writer(part.revisions, REVISION_SCHEMA) as revisions,
    ):
        position = sequence = 0
        for file_range in part.ranges:
            file = file_range.file
            check_unchanged(file.path, file.size)
            cleaner = Cleaner(part.recipe, file)
            row = None
            for record in cleaner.records(file_range):
                if isinstance(record, RawDocument | Withdrawn) and record.revision:
                    sequence += record.row != row
                    row = record.row
                    place = -1 if isinstance(record, Withdrawn) else position
                    revision = record.revision
                    revisions.add((cleaner.group, revision.record, revision.number, sequence, place), ROW_BYTES)
                if isinstance(record, Withdrawn):
                    continue
                if isinstance(record, BadRecord):
                    removed.add(_bad_row(position, file, record), ROW_BYTES)
                elif isinstance(record, LeftOut):
                    removed.add(_left_out_row(position, file, record), ROW_BYTES)
                else:
                    counts = _add_document(position, file, record, cleaner, kept, removed)
                    total = before.get(file.source_name)
                    before[file.source_name] = TextCounts(*map(add, total, counts)) if total else counts
                position += 1
        write_json(part.before, {source: total._asdict() for source, total in before.items()})


def _add_document(
    position: int, file: InputFile, raw: RawDocument, cleaner: Cleaner, kept: RowWriter, removed: RowWriter
) -> TextCounts:
    """Write a document or the reason for its removal; return the counts of the text that was read."""
    document, effects = cleaner.clean(raw)
    # Whitespace around a text changes neither its words nor its sentences.
    same = document.text.strip() == raw.text.strip()
    before = counts_of(raw.text, document.language, document.words if same else 0)
    name = document_id(file, raw)
    for effect in effects:
        removed.add(ledger_row(position, file.source_name, file.name, raw.row, name, effect), ROW_BYTES)
    if effects and effects[-1].unit == "document":
        return before
    try:
        data = encode(document.text)
    except InputError as error:
        removed.add(_bad_row(position, file, BadRecord(raw.row, None, error.problem, error.fix)), ROW_BYTES)
        return before
    # Surrounding whitespace does not make a document distinct.
    compared = data if cleaner.cleaning.strip else document.text.strip().encode()
    digest = blake2b(compared, digest_size=DIGEST_BYTES).digest()
    facts = cleaner.facts(raw)
    sentences = before.sentences if same else counts_of(document.text, document.language, document.words).sentences
    counts = (len(data), len(document.text), document.words, sentences)
    repaired = any(effect.step == "repair" for effect in effects)
    origin = (position, file.source_name, file.name, raw.row, name)
    kept.add((*origin, document.language, *facts, data, digest, *counts, repaired), len(data) + ROW_BYTES)
    return before


def document_id(file: InputFile, raw: RawDocument) -> str:
    """Return the id of a document in the corpus and its ledger."""
    return _storable(raw.id or f"{file.name}:{raw.row}")


def _bad_row(position: int, file: InputFile, bad: BadRecord) -> tuple[Any, ...]:
    name = file.name if bad.row is None else f"{file.name}:{bad.row}"
    effect = StepEffect("read", bad.reason, "document", None)
    return ledger_row(position, file.source_name, file.name, bad.row, name, effect, byte=bad.byte, fix=bad.fix)


def _left_out_row(position: int, file: InputFile, record: LeftOut) -> tuple[Any, ...]:
    name = _storable(record.id or f"{file.name}:{record.row}")
    effect = StepEffect("select", record.reason, "document", None)
    return ledger_row(position, file.source_name, file.name, record.row, name, effect)


class Cleaner:
    """Reads and cleans the documents of one file."""

    def __init__(self, recipe: CorpusRecipe, file: InputFile) -> None:
        self.source = recipe.sources[file.source].read_by(file.reader)
        self.cleaning = recipe.cleaning(self.source.clean)
        names = [source.name for source in recipe.sources]
        self.group = file.source if self.source.name is None else names.index(self.source.name)
        """Number of the source. Sources with the same name share it, so that baseline and updates can be listed separately."""
        self._file = file
        self._strict = recipe.strict
        self._ids = [re.compile(fnmatch.translate(pattern)) for pattern in self.source.ids]
        self._licences = [re.compile(fnmatch.translate(pattern.casefold())) for pattern in recipe.licences]
        unicode = self.cleaning.unicode
        self._repair = repairer(unicode.html_entities) if unicode.repair else str

    def records(self, file_range: FileRange) -> Iterator[Reading]:
        """Read a range. An error that makes the rest unreadable becomes the last record, or is raised with `strict`."""
        try:
            for record in READERS.get(self._file.reader).read(file_range, self.source):
                if self._strict and isinstance(record, BadRecord):
                    raise bad_record_error(self._file.path, record.row, record.byte, record.reason, record.fix)
                if self._ids and isinstance(record, RawDocument) and not self._wanted(record):
                    record = LeftOut(record.row, "ids", record.id)
                yield record
        except InputError as error:
            if self._strict:
                raise
            line = (error.where or "").removeprefix(f"{self._file.path}:")
            yield BadRecord(int(line) if line.isdigit() else None, None, error.problem, error.fix)

    def clean(self, raw: RawDocument) -> tuple[RepairedDocument, list[StepEffect]]:
        """Return the document and what the steps did to it. It is removed if the last effect has the unit `document`."""
        language = raw.facts.get("language") or self.source.language
        if self._licences and (refused := self._refused_licence(raw)):
            return RepairedDocument(raw.text, 0, language), [StepEffect("licence", refused, "document", len(raw.text))]
        text = self._repair(raw.text)
        effects = [] if text == raw.text else [StepEffect("repair", "unicode", "document changed", len(text))]
        text = self._strip(text)
        for name, rewriter in self.cleaning.rewrite.items():
            rewritten = rewriter.rewrite(text, language)
            effects += [
                StepEffect("rewrite", f"{name}.{passage.reason}", "passage", passage.characters)
                for passage in rewritten.removed
            ]
            if rewritten.text != text:
                text = self._strip(rewritten.text)
                effects.append(StepEffect("rewrite", name, "document changed", len(text)))
        document = RepairedDocument(text, len(text.split()), language, raw.facts.get("title"))
        if reason := _removal_reason(document, self.cleaning.filters):
            effects.append(StepEffect("filter", reason, "document", len(text)))
        return document, effects

    def facts(self, raw: RawDocument) -> list[str | None]:
        """Return the nullable columns of a document."""
        known = {**raw.facts, "licence": raw.facts.get("licence") or self.source.licence}
        return [_storable(value) if (value := known.get(name)) else None for name in FACT_COLUMNS]

    def _strip(self, text: str) -> str:
        return text.strip() if self.cleaning.strip else text

    def _wanted(self, raw: RawDocument) -> bool:
        name = document_id(self._file, raw)
        return any(rule.match(name) for rule in self._ids)

    def _refused_licence(self, raw: RawDocument) -> str | None:
        licence = raw.facts.get("licence") or self.source.licence
        if not licence:
            return "licences.unknown"
        return None if any(rule.match(licence.casefold()) for rule in self._licences) else "licences"


def bad_record_error(path: Path, row: int | None, byte: int | None, reason: str, fix: str | None) -> InputError:
    """Return the error for a record that cannot be read."""
    place = f"{path}:{row}" if row is not None else path if byte is None else f"{path}, byte {byte:,}"
    return InputError(reason, where=place, fix=fix)


def _removal_reason(document: RepairedDocument, filters: Mapping[str, Filter]) -> str | None:
    if not document.words:
        return "empty"
    for name, rule in filters.items():
        reason = rule.reason(document)
        if reason is not None:
            return f"{name}.{reason}"
    return None


def _storable(key: str) -> str:
    """Remove NUL characters and replace lone surrogates, which Parquet cannot store."""
    return key if key.isascii() and "\0" not in key else key.replace("\0", "").encode("utf-8", "replace").decode()


def encode(text: str) -> bytes:
    """Encode as UTF-8. Rejects characters that must not reach a model, which occur only if repair is off."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        problem = f"a lone surrogate at character {error.start + 1} of the text"
    else:
        if b"\0" not in data:
            return data
        problem = f"a NUL character at character {text.index(chr(0)) + 1} of the text"
    raise InputError(
        problem,
        fix="Set unicode.repair = true (a source may have its own clean.unicode), or correct the file",
    )


# Characters that ftfy removes or rewrites in any context: controls, unusual line ends, surrogates, deprecated format
# characters, the byte order mark.
_ODD = re.compile("[\x00-\x08\x0b\x0d-\x1f\x7f-\x9f\u2028\u2029\u206a-\u206f\ud800-\udfff\ufeff\ufff9-\ufffc]")
# Every pattern of ftfy's mojibake test has two neighbours outside ASCII, or is one of these two special cases.
_NEIGHBOURS = re.compile("[^\x00-\x7f](?:[^\x00-\x7f]+|(?<=[Œœ])[^A-Za-z]|(?<=[ÂÃ]) )")
_PLAIN = b"\t\n\f" + bytes(range(0x20, 0x7F)).replace(b"&", b"")  # ASCII characters that are never repaired
_CONTEXT = 4
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@cache
def repairer(html_entities: bool = True) -> Callable[[str], str]:
    """Return a function that repairs one text as ftfy does, but calls ftfy only for suspicious lines."""
    ftfy = require("ftfy", "corpus")
    is_bad = require("ftfy.badness", "corpus").is_bad
    settings = ftfy.TextFixerConfig(
        unescape_html=html_entities,
        uncurl_quotes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        normalization="NFC",
        explain=False,
    )

    def suspicious(line: str) -> bool:
        if (html_entities and "&" in line) or _ODD.search(line):
            return True
        if line.isascii():
            return False
        if not unicodedata.is_normalized("NFC", line):
            return True
        # A slice can only look worse than its line (its start counts as the start of a line), so nothing is missed.
        return any(
            is_bad(line[max(0, match.start() - _CONTEXT) : match.end() + _CONTEXT])
            for match in _NEIGHBOURS.finditer(line)
        )

    def repair(text: str) -> str:
        if text.isascii() and not text.encode().translate(None, _PLAIN):
            return text
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if (
            not (_ODD.search(text) or (html_entities and "&" in text))
            and (text.isascii() or not _NEIGHBOURS.search(text))
            and unicodedata.is_normalized("NFC", text)
        ):
            return text
        # Lines keep their end, as in ftfy: a few of its patterns look at the character after a letter.
        lines = _LINES.findall(text)
        for index, line in enumerate(lines):
            if suspicious(line):
                lines[index] = ftfy.fix_text(line, settings)
        return "".join(lines)

    return repair
