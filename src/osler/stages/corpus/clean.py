"""Clean one part of the input: read, repair, filter; what is kept and what is removed go to two files.

Parts are independent of each other, so they run in any order on any number of processes. A part is done once: its file
of kept documents appears last and marks it as complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import Candidate, Piece, RawDocument
from osler.stages.corpus.parts import DIGEST_BYTES, Part, kept_schema, removed_schema
from osler.stages.corpus.readers import READERS
from osler.stages.corpus.repair import repairer
from osler.stages.corpus.tables import RowBuffer, parquet_writer

_ROW_WEIGHT = 64


def clean_part(part: Part) -> None:
    """Make both files of a part, unless an earlier run did."""
    if part.kept.exists():
        return
    repair = repairer(part.recipe.unicode.html_entities) if part.recipe.unicode.repair else str
    with (
        parquet_writer(part.kept, kept_schema(), compression="lz4", dictionary=("source", "file", "language")) as kept,
        parquet_writer(
            part.removed, removed_schema(), compression="lz4", dictionary=("source", "file", "reason")
        ) as removed,
    ):
        keeps, removals = RowBuffer(kept, kept_schema()), RowBuffer(removed, removed_schema())
        for position, (piece, raw) in enumerate(_documents(part)):
            _clean(position, piece, raw, part.recipe, repair, keeps, removals)
        keeps.flush()
        removals.flush()


def _documents(part: Part) -> Iterator[tuple[Piece, RawDocument]]:
    for piece in part.pieces:
        reader = READERS.get(piece.file.reader)
        for raw in reader.read(piece, part.recipe.sources[piece.file.source]):
            yield piece, raw


def _clean(
    position: int,
    piece: Piece,
    raw: RawDocument,
    recipe: CorpusRecipe,
    repair: Callable[[str], str],
    keeps: RowBuffer,
    removals: RowBuffer,
) -> None:
    file = piece.file
    repaired = repair(raw.text)
    text = repaired.strip()
    origin = (position, file.source_name, file.name, raw.row, _key(raw, file.name))
    document = Candidate(text, len(text.split()), recipe.sources[file.source].language)
    reason = _reason(document, recipe)
    if reason is not None:
        removals.add((*origin, reason), _ROW_WEIGHT)
        return
    data = _encoded(text, where=f"{file.path}:{raw.row}")
    digest = blake2b(data, digest_size=DIGEST_BYTES).digest()
    changed = repaired is not raw.text and repaired != raw.text
    sizes = (len(data), len(text), document.words, changed)
    keeps.add((*origin, document.language, data, digest, *sizes), len(data) + _ROW_WEIGHT)


def _reason(document: Candidate, recipe: CorpusRecipe) -> str | None:
    if not document.text:
        return "empty"
    for name, judge in recipe.filters.items():
        code = judge.reason(document)
        if code is not None:
            return f"{name}.{code}"
    return None


def _key(raw: RawDocument, name: str) -> str:
    key = raw.id or f"{name}:{raw.row}"
    return key if key.isascii() and "\0" not in key else key.replace("\0", "").encode("utf-8", "replace").decode()


def _encoded(text: str, *, where: str) -> bytes:
    """The text as UTF-8; with repair off, what cannot be stored or would end up in a model is refused."""
    problem = None
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        problem = f"a lone surrogate at character {error.start + 1} of the text"
    else:
        if b"\0" in data:
            problem = f"a NUL character at character {text.index(chr(0)) + 1} of the text"
    if problem:
        raise InputError(problem, where=where, fix="Set unicode.repair = true, or correct the file") from None
    return data
