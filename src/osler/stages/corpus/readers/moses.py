"""One side of a parallel corpus in Moses text, such as EMEA of OPUS: a sentence per line, documents rebuilt from its lines.

Beside `EMEA.en-es.es`, OPUS has `EMEA.en-es.ids` with the two documents of each line: `en/1.xml.gz<TAB>es/1.xml.gz<TAB>3<TAB>4`. Without
such a file, documents are separated by blank lines or begin with a line that matches `mark`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, field_validator

from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, FileRange, InputFile, RawDocument
from osler.stages.corpus.inputs import decode, lines
from osler.stages.corpus.opening import open_bytes, reading

_LONGEST = 16 << 20
"""A document with more characters is a file without boundaries."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_PACKED = (".gz", ".bz2", ".xz", ".zst")


class MosesOptions(Recipe):
    """Where documents begin, if there is no .ids file."""

    mark: str | None = None
    """Regular expression for the line that begins a document; the line is part of it. By default, blank lines separate documents."""
    sentences: int | None = Field(None, ge=1)
    """Lines of one document, for texts that have neither blank lines nor marks."""

    @field_validator("mark")
    @classmethod
    def _valid_pattern(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


class MosesReader:
    """Reads one language of a parallel corpus, a sentence per line, with the `.ids` file beside it if there is one.

    The id of a document is its name in that file; its language is the ending of the text.
    """

    endings = ()
    options = MosesOptions

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]  # a document can begin anywhere

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[RawDocument | BadRecord]:
        options = source.options
        assert isinstance(options, MosesOptions)
        path = file_range.file.path
        plain = path.with_suffix("") if path.suffix.lower() in _PACKED else path
        language = plain.suffix[1:].lower()
        facts = {"language": language} if _LANGUAGE.fullmatch(language) else {}
        names = _names(plain.with_suffix(".ids"), language)
        starts = None if options.mark is None else re.compile(options.mark)
        present: str | None = None
        held: list[str] = []
        first = size = 0
        for row, line in lines(file_range):
            name = next(names, "") if names else None
            if name == "":
                yield BadRecord(row, None, "the .ids file names no document for this line", "Download both files again")
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


def _names(path: Path, language: str) -> Iterator[str] | None:
    """The document of each line, empty where the line is damaged; None if there is no .ids file."""
    try:
        with open_bytes(path):
            pass
    except FileNotFoundError:
        return None
    return _read_names(path, language)


def _read_names(path: Path, language: str) -> Iterator[str]:
    pair = path.stem.rpartition(".")[2].split("-")
    side = 1 if pair[-1] == language else 0
    with reading(path), open_bytes(path) as handle:
        for line in handle:
            columns = line.decode("utf-8", "replace").rstrip("\r\n").split("\t")
            yield columns[side].strip() if len(columns) >= 2 else ""


READER = MosesReader()
