"""From the paths a user gives to an ordered list of files."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from osler.core.errors import InputError
from osler.stages.corpus.config import Source
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.readers import READERS
from osler.stages.corpus.streams import COMPRESSIONS, reading


def find_inputs(sources: Sequence[Source]) -> list[InputFile]:
    """Every file of every source, in the order that decides which copy of a document is the first."""
    endings = {ending: name for name in READERS.names() for ending in READERS.get(name).endings}
    files: list[InputFile] = []
    seen: set[str] = set()
    for index, source in enumerate(sources):
        if source.reader is not None:
            READERS.get(source.reader)
        for given in source.files:
            for path, name, asked in _expand(given):
                reader = source.reader or _reader(path, endings)
                if reader is None and asked:
                    raise InputError(
                        "no reader for this kind of file",
                        where=path,
                        fix=f"Set the source's reader to one of: {', '.join(READERS.names())}",
                    )
                real = os.path.realpath(path)
                if reader is None or real in seen:
                    continue
                seen.add(real)
                with reading(path):
                    size = path.stat().st_size
                files.append(InputFile(path, name, index, _source_name(source, path, reader), reader, size))
    if not files:
        raise InputError(
            "no file to read", where=sources[0].files[0], fix=f"Known endings: {', '.join(sorted(endings))}"
        )
    return files


def names_digest(files: Sequence[InputFile]) -> str:
    """A hash of the names: they end up in ids, so they are part of what the corpus is made of."""
    names = [[file.name, file.source, file.source_name, file.reader] for file in files]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _expand(given: str) -> Iterator[tuple[Path, str, bool]]:
    """Path, name and whether it was asked for by name (and so must be readable) of every file behind one given path."""
    path = Path(given).expanduser()
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    found = Path(folder) / name
                    yield found, _name(found, path), False
    elif path.exists():
        yield path, _name(path, path.parent), True
    elif glob.has_magic(str(path)):
        root = Path(*_before_magic(path.parts))
        matches = [Path(match) for match in glob.glob(str(path), recursive=True)]
        found_files = sorted(match for match in matches if match.is_file())
        if not found_files:
            raise InputError("no file matches", where=given, fix="Check the pattern")
        for found in found_files:
            yield found, _name(found, root), True
    else:
        raise InputError("no such file or folder", where=given, fix="Check the path")


def _before_magic(parts: tuple[str, ...]) -> Iterator[str]:
    for part in parts[:-1]:
        if glob.has_magic(part):
            return
        yield part


def _name(path: Path, root: Path) -> str:
    # A file name need not be valid UTF-8, an id must be.
    return os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")


def _reader(path: Path, endings: dict[str, str]) -> str | None:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return endings.get(plain.suffix.lower())


def _source_name(source: Source, path: Path, reader: str) -> str:
    """A file of many documents is a source of its own; files with one document each belong to their folder."""
    if source.name is not None:
        return source.name
    one_document = reader == "text" and source.unit == "file"
    name = path.resolve().parent.name if one_document else path.name.split(".")[0]
    return "".join(character if character.isalnum() or character in "._+-" else "-" for character in name) or "source"
