"""Input in any packing: the same virtual files, strict text, and archives that cannot do harm."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats.archives import Limits
from osler.formats.registry import get_format
from osler.formats.sources import SourceTree

FILES = {"train/a.txt": b"aspirin", "train/a.ann": b"T1\tDrug 0 7\taspirin\n"}


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def plain(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def packed(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("packing", ["folder", "zip", "tar", "tar.gz", "tar.xz", "nested", "single"])
def test_every_packing_gives_the_same_document(packing: str, tmp_path: Path) -> None:
    paths = {
        "folder": lambda: plain(tmp_path / "x"),
        "zip": lambda: packed(tmp_path, "x.zip", zipped(FILES)),
        "tar": lambda: packed(tmp_path, "x.tar", tarred(FILES)),
        "tar.gz": lambda: packed(tmp_path, "x.tgz", tarred(FILES, "w:gz")),
        "tar.xz": lambda: packed(tmp_path, "x.tar.xz", tarred(FILES, "w:xz")),
        "nested": lambda: packed(tmp_path, "x.zip", zipped({"in/y.tar.gz": tarred(FILES, "w:gz")})),
        "single": lambda: packed(
            tmp_path,
            "x.tar",
            tarred({"a.txt.xz": lzma.compress(b"aspirin"), "a.ann.gz": gzip.compress(FILES["train/a.ann"])}),
        ),
    }
    (document,) = get_format("brat").read(paths[packing]())
    assert (document.id, document.text, document.spans[0].fragments) == ("a", "aspirin", ((0, 7),))


def test_names_of_a_folder_show_archives_as_folders_and_hide_junk(tmp_path: Path) -> None:
    packed(tmp_path, "b.zip", zipped({"c.txt": b"", "__MACOSX/c.txt": b"", "d/._e.txt": b""}))
    packed(tmp_path, "f.tsv.gz", gzip.compress(b"x"))
    packed(tmp_path, ".hidden", b"")
    with SourceTree.open(tmp_path) as tree:
        assert list(tree) == ["b.zip/c.txt", "f.tsv"]
        assert tree.names("*.TSV") == ["f.tsv"]


def test_a_plain_file_keeps_its_name_beside_its_compressed_copy(tmp_path: Path) -> None:
    packed(tmp_path, "f.tsv.gz", gzip.compress(b"packed"))
    packed(tmp_path, "f.tsv", b"plain")
    with SourceTree.open(tmp_path) as tree:
        assert list(tree) == ["f.tsv", "f.tsv.gz"]
        assert tree.text("f.tsv") == "plain"


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "..\\evil.txt", "C:/evil.txt"])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_that_point_outside_are_refused(name: str, pack: object, tmp_path: Path) -> None:
    path = packed(tmp_path, "x.zip" if pack is zipped else "x.tar", pack({name: b"x"}))  # type: ignore[operator]
    with pytest.raises(InputError, match="points outside"):
        SourceTree.open(path)


def test_links_in_archives_are_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(InputError, match="links"):
        SourceTree.open(packed(tmp_path, "x.tar", data.getvalue()))


@pytest.mark.parametrize("name", ["x.zip", "x.xz", "x.gz", "x.tar.xz"])
def test_a_decompression_bomb_is_refused_while_it_grows(name: str, tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    data = {
        "x.zip": zipped({"a.txt": zeros}),
        "x.xz": lzma.compress(zeros),
        "x.gz": gzip.compress(zeros),
        "x.tar.xz": tarred({"a.txt": zeros}, "w:xz"),
    }[name]
    limits = Limits(ratio=100, ratio_floor=1 << 16)
    with (
        pytest.raises(InputError, match="decompression bomb"),
        SourceTree.open(packed(tmp_path, name, data), limits) as tree,
    ):
        tree.read_bytes(next(iter(tree)))


def test_small_repetitive_files_are_no_bombs_and_absolute_limits_hold(tmp_path: Path) -> None:
    path = packed(tmp_path, "x.gz", gzip.compress(bytes(1 << 20)))
    with SourceTree.open(path) as tree:
        assert len(tree.read_bytes("x")) == 1 << 20
    with pytest.raises(InputError, match="bomb"), SourceTree.open(path, Limits(expanded=1000)) as tree:
        tree.read_bytes("x")


def test_archives_nested_without_end_are_refused(tmp_path: Path) -> None:
    data = zipped({"a.txt": b"x"})
    for _ in range(6):
        data = zipped({"inner.zip": data})
    with pytest.raises(InputError, match="nested"):
        SourceTree.open(packed(tmp_path, "x.zip", data))


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tar.xz", "x.gz", "x.xz"])
def test_a_truncated_archive_is_one_clear_error(name: str, tmp_path: Path) -> None:
    content = {"a.txt": bytes(range(256)) * 40}
    data = {
        "x.zip": zipped(content),
        "x.tar": tarred(content),
        "x.tar.gz": tarred(content, "w:gz"),
        "x.tar.xz": tarred(content, "w:xz"),
        "x.gz": gzip.compress(content["a.txt"]),
        "x.xz": lzma.compress(content["a.txt"]),
    }[name]
    path = packed(tmp_path, name, data[: len(data) // 2])
    with pytest.raises(InputError, match="damaged"), SourceTree.open(path) as tree:
        tree.read_bytes(next(iter(tree)))


def test_wrong_encoding_names_file_and_line(tmp_path: Path) -> None:
    packed(tmp_path, "a.txt", "uno\ndos\ncabeza pequeña\n".encode("latin-1"))
    with SourceTree.open(tmp_path) as tree:
        with pytest.raises(InputError, match=r"a\.txt:3: not valid UTF-8"):
            tree.text("a.txt")
        with pytest.raises(InputError, match=r"a\.txt:3: ") as caught:
            list(tree.lines("a.txt"))
        assert "cabeza" not in str(caught.value)
    packed(tmp_path, "b.txt", "hola".encode("utf-16"))
    with SourceTree.open(tmp_path) as tree, pytest.raises(InputError, match="UTF-16"):
        tree.text("b.txt")


def test_text_keeps_every_character_and_lines_drop_marks_and_ends(tmp_path: Path) -> None:
    packed(tmp_path, "a.txt", "\ufeffone\r\ntwo\u2028x\x0b\r\n\nend".encode())
    with SourceTree.open(tmp_path) as tree:
        assert tree.text("a.txt") == "\ufeffone\r\ntwo\u2028x\x0b\r\n\nend"
        assert list(tree.lines("a.txt")) == [(1, "one"), (2, "two\u2028x\x0b"), (3, ""), (4, "end")]


def test_nul_and_missing_files_are_errors(tmp_path: Path) -> None:
    packed(tmp_path, "a.txt", b"one\ntwo\x00")
    with SourceTree.open(tmp_path) as tree, pytest.raises(InputError, match=r"a\.txt:2: NUL"):
        tree.text("a.txt")
    with pytest.raises(InputError, match="no such file"):
        SourceTree.open(tmp_path / "nothing")
