"""One side of a parallel corpus in Moses text, such as EMEA of OPUS: one sentence per line, joined back into documents.

Beside `EMEA.en-es.es`, OPUS names the two documents of each line: in `EMEA.en-es.ids`, as `en/1.xml.gz<TAB>es/1.xml.gz<TAB>3<TAB>4`,
or in `EMEA.en-es.xml`, with a `linkGrp` element per pair of documents and a `link` element per line. Without such a file, documents
are separated by blank lines or begin with a line that matches `mark`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from pydantic import Field, field_validator

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.formats.archives import OPENERS
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, RawDocument, known
from osler.stages.corpus.inputs import decode, lines
from osler.stages.corpus.opening import open_bytes, reading

_LONGEST = 16 << 20
"""Maximum characters of a document; more means that no boundaries were found."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_LINK = re.compile(rb"<linkGrp\b[^>]*>|<link\b[^>]*>")
_ATTRIBUTE = re.compile(rb"""\b(fromDoc|toDoc|xtargets)\s*=\s*["']([^"']*)["']""")
_BOTH_FILES = "Download the text and its .ids or .xml file again, together"


class MosesOptions(Recipe):
    """Where documents begin, if there is no .ids or .xml file."""

    mark: str | None = None
    """Regular expression for the line that begins a document; the line is part of it. By default, blank lines separate documents."""
    sentences: int | None = Field(None, ge=1)
    """Lines per document, for texts that have neither blank lines nor marks."""

    @field_validator("mark")
    @classmethod
    def _valid_pattern(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


class MosesReader:
    """Reads one language of a parallel corpus, a sentence per line, with the `.ids` or `.xml` file beside it if there is one.

    The id of a document is its name in that file; its language is the file ending of the text.
    """

    endings = ()
    options = MosesOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]  # a document can begin anywhere

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord]:
        options = source.options
        assert isinstance(options, MosesOptions)
        path = file_range.file.path
        plain = path.with_suffix("") if path.suffix.lower() in OPENERS else path
        language = plain.suffix[1:].lower()
        facts = known(language=language if _LANGUAGE.fullmatch(language) else None)
        names = _names(plain.with_suffix(""), language)
        starts = None if options.mark is None else re.compile(options.mark)
        present: str | None = None
        held: list[str] = []
        first = size = 0
        for row, line in lines(file_range):
            name = next(names, "") if names else None
            if name == "":
                yield BadRecord(row, None, "the file of documents names none for this line", _BOTH_FILES)
                continue
            try:
                sentence = decode(line, source.encoding, path=path, row=row).strip()
            except InputError as error:
                yield BadRecord(row, None, error.problem, error.fix)
                continue
            if names:
                begins = name != present
            elif starts:
                begins = bool(starts.search(sentence))
            else:
                begins = not sentence if options.sentences is None else len(held) == options.sentences
            if begins and held:
                yield RawDocument(first, "\n".join(held), present, facts)
                held, size = [], 0
            present = name
            if sentence:
                first = first if held else row
                held.append(sentence)
                size += len(sentence)
            if size > _LONGEST:
                fix = "Put the .ids file beside it, or set options.mark or options.sentences"
                raise InputError("nothing tells where documents begin", where=f"{path}:{first}", fix=fix)
        if held:
            yield RawDocument(first, "\n".join(held), present, facts)
        if names and next(names, None) is not None:
            yield BadRecord(None, None, "the text has fewer lines than its file of documents", _BOTH_FILES)


def _names(corpus: Path, language: str) -> Iterator[str] | None:
    """Return the document of each line, empty where it is not stated; None if there is no .ids or .xml file."""
    side = int(corpus.suffix[1:].rpartition("-")[2] == language)
    is_pair = "-" in corpus.suffix  # outside OPUS, an unrelated .xml file may have the name of the text
    for ending, read in ((".ids", _read_ids), *([(".xml", _read_links)] if is_pair else [])):
        for packed in ("", *OPENERS):
            path = corpus.parent / f"{corpus.name}{ending}{packed}"
            try:
                with open_bytes(path):
                    return read(path, side)
            except FileNotFoundError:
                continue
    return None


def _read_ids(path: Path, side: int) -> Iterator[str]:
    with reading(path), open_bytes(path) as handle:
        for line in handle:
            columns = line.decode("utf-8", "replace").rstrip("\r\n").split("\t")
            yield columns[side].strip() if len(columns) >= 2 else ""


def _read_links(path: Path, side: int) -> Iterator[str]:
    """Yield the document of each link with sentences in both languages, which is one line of the text."""
    name = ""
    with reading(path), open_bytes(path) as handle:
        for line in handle:
            for element in _LINK.findall(line):
                values = dict(_ATTRIBUTE.findall(element))
                if b"xtargets" not in values:
                    name = unescape(values.get((b"fromDoc", b"toDoc")[side], b"").decode("utf-8", "replace"))
                elif all(sentences.strip() for sentences in values[b"xtargets"].split(b";")):
                    yield name


READER = MosesReader()
