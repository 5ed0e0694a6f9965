"""The documents to annotate, read from the files a user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from osler.core.errors import InputError
from osler.formats.registry import get_format
from osler.text.document import Document, check_text

_LINES = (".jsonl", ".ndjson")


def input_files(paths: Sequence[Path]) -> list[Path]:
    """The files behind what was named: folders give their text and JSON Lines files, sorted."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(item for item in path.rglob("*") if item.suffix in {".txt", *_LINES} and item.is_file())
            if not inside:
                raise InputError("no .txt or .jsonl file in this folder", where=path, fix="Name the files to annotate")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise InputError("no such file", where=path, fix="Check the path")
    return found


def documents(files: Sequence[Path]) -> Iterator[Document]:
    """Read the documents one by one."""
    for path in files:
        if path.suffix in _LINES:
            for record in get_format("jsonl").read(path):
                if not isinstance(record, Document):
                    raise InputError(
                        "a pair of texts cannot be annotated", where=path, fix="Give documents with a text field"
                    )
                yield record
        else:
            yield Document(path.stem, _text(path), meta={"file": path.name})


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return check_text(data.decode("utf-8"), where=str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", where=path, fix="Convert the file to UTF-8") from None
