from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.inputs import find_inputs, names_digest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b/2.txt", "b/10.txt", "a/1.txt", "c.jsonl.xz", "note.pdf", ".hidden/x.txt", "a/.x.txt"):
        path = tmp_path / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "raw"


def _names(*files: Path | str, **options: str) -> list[str]:
    return [file.name for file in find_inputs([CorpusSource(files=files, **options)])]


def test_a_folder_is_walked_in_sorted_order_without_hidden_and_unknown_files(tree: Path) -> None:
    assert _names(tree) == ["c.jsonl.xz", "a/1.txt", "b/10.txt", "b/2.txt"]


def test_patterns_are_sorted_and_named_from_their_fixed_part(tree: Path) -> None:
    assert _names(tree / "**" / "*.txt") == ["a/1.txt", "b/10.txt", "b/2.txt"]


def test_a_file_given_twice_is_read_once(tree: Path) -> None:
    assert _names(tree / "b" / "2.txt", tree / "b") == ["2.txt", "10.txt"]


def test_sources_are_named_after_the_folder_or_the_container_file(tree: Path) -> None:
    files = find_inputs([CorpusSource(files=[tree])])
    assert [file.source_name for file in files] == ["c", "a", "b", "b"]
    assert {file.source_name for file in find_inputs([CorpusSource(files=[tree], name="mine")])} == {"mine"}


def test_file_names_are_part_of_the_identity(tree: Path) -> None:
    before = names_digest(find_inputs([CorpusSource(files=[tree])]))
    (tree / "a" / "1.txt").rename(tree / "a" / "3.txt")
    assert names_digest(find_inputs([CorpusSource(files=[tree])])) != before


def test_a_name_that_is_not_utf8_is_converted(tmp_path: Path) -> None:
    (tmp_path / "n\udce9.txt").write_text("x")
    assert _names(tmp_path) == ["n\ufffd.txt"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing.txt", "no such file or folder"),
        ("*.csv", "no file matches"),
        ("raw/note.pdf", "no reader for this file type"),
    ],
)
def test_nothing_to_read_is_an_error(tree: Path, name: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        _names(tree.parent / name)


def test_a_folder_without_readable_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no files to read.*\.jsonl"):
        _names(tmp_path)


def test_a_reader_can_be_forced(tree: Path) -> None:
    assert _names(tree / "note.pdf", reader="text") == ["note.pdf"]


def test_links_out_of_a_folder_are_not_followed_and_named(tree: Path, tmp_path: Path, caplog) -> None:
    (tmp_path / "secret.txt").write_text("outside")
    (tree / "a" / "secret.txt").symlink_to(tmp_path / "secret.txt")
    (tree / "own.txt").symlink_to(tree / "a" / "1.txt")
    assert _names(tree) == ["c.jsonl.xz", "own.txt", "b/10.txt", "b/2.txt"]
    assert str(tree / "a" / "secret.txt") in caplog.text
    assert _names(tree / "a" / "secret.txt") == ["secret.txt"]
