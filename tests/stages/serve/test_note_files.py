"""Where notes are found: folders, patterns, archives and compressed files, with the same names on every machine."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.stages.serve.config import NoteInputs
from osler.stages.serve.inputs import Notes

TEXTS = {"a.txt": "Aspirin.", "2024/b.txt": "No fever 😀.", "2024/.hidden.txt": "no", "2024/readme.md": "no"}


def read(*paths: Path | str, **more) -> dict[str, str]:
    return {note.id: note.text for note in Notes(NoteInputs(files=paths, **more))}


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, text in TEXTS.items():
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text(text, encoding="utf-8")
    return tmp_path / "notes"


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in TEXTS.items():
            archive.writestr(name, text)


def tarred(path: Path, mode: str) -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, text in TEXTS.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


ARCHIVES: dict[str, Callable[[Path], None]] = {
    "x.zip": zipped,
    "x.tar": lambda path: tarred(path, "w"),
    "x.tar.gz": lambda path: tarred(path, "w:gz"),
    "x.tgz": lambda path: tarred(path, "w:gz"),
    "x.tar.bz2": lambda path: tarred(path, "w:bz2"),
    "x.tar.xz": lambda path: tarred(path, "w:xz"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_read_like_the_folder_that_it_holds(folder, name):
    path = folder.parent / name
    ARCHIVES[name](path)
    expected = {"2024/b": TEXTS["2024/b.txt"], "a": TEXTS["a.txt"]}
    assert read(folder) == read(path) == expected
    assert list(read(path)) == list(read(folder))
    path.rename(folder / name)
    assert read(folder) == expected | {f"{name}/{key}": text for key, text in expected.items()}


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstd)]
)
def test_a_compressed_file_is_read_as_what_it_holds(tmp_path, ending, pack):
    lines = b'{"id": "x", "text": "Aspirin"}\n{"text": "Fever"}\n'
    (tmp_path / f"notes.jsonl{ending}").write_bytes(pack(lines))
    assert read(tmp_path / f"notes.jsonl{ending}") == {"x": "Aspirin", "2": "Fever"}
    (tmp_path / f"note.txt{ending}").write_bytes(pack(b"Aspirin"))
    assert read(tmp_path / f"note.txt{ending}") == {"note": "Aspirin"}
    (tmp_path / f"cut.txt{ending}").write_bytes(pack(b"Aspirin" * 100)[:-12])
    notes = Notes(NoteInputs(files=(tmp_path / f"cut.txt{ending}", tmp_path / f"note.txt{ending}")))
    assert [note.id for note in notes] == ["note"]
    assert "damaged or cut short" in notes.skipped[0].problem


def test_a_pattern_names_files_from_where_it_begins(folder):
    assert list(read(folder / "**" / "*.txt")) == ["2024/b", "a"]
    assert list(read(folder / "*.txt")) == ["a"]
    assert list(read(folder / "20??" / "*.md")) == ["2024/readme"]
    with pytest.raises(InputError, match="no file matches this pattern"):
        read(folder / "*.doc")
    (folder / "[x].txt").write_text("a file with this very name")
    assert list(read(folder / "[x].txt")) == ["[x]"]


def test_tables_of_a_folder_are_read_if_it_has_no_texts(tmp_path):
    (tmp_path / "rows.csv").write_text("id,text\n1,x\n")
    assert read(tmp_path) == {"1": "x"}


def test_a_table_in_another_encoding_is_converted_while_it_is_read(tmp_path):
    rows = [f"{number},más fiebre {'x' * 1000}" for number in range(200)]
    (tmp_path / "a.csv").write_bytes("\n".join(["id,text", *rows]).encode("latin-1"))
    found = read(tmp_path / "a.csv", encoding="latin-1")
    assert list(found.values()) == [row.partition(",")[2] for row in rows]
    (tmp_path / "b.csv").write_bytes("id,text\n1,más\n".encode("utf-16"))
    assert read(tmp_path / "b.csv", encoding="utf-16") == {"1": "más"}
    (tmp_path / "c.csv").write_bytes(b"id,text\n1,m\xe1s\n")
    notes = Notes(NoteInputs(files=(tmp_path / "c.csv",), encoding="utf-16"))
    assert list(notes) == []
    assert notes.skipped[0].problem.startswith("neither UTF-8 nor utf-16 at byte")
