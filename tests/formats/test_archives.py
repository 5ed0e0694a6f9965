"""Archives that cannot exhaust memory, odd zips with clear errors, and symbolic links."""

from __future__ import annotations

import io
import logging
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats import archives
from osler.formats.archives import Limits
from osler.formats.registry import get_format
from osler.formats.sources import SourceTree


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def saved(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def refused(path: Path, problem: str, limits: Limits | None = None) -> str:
    def read() -> None:
        with SourceTree.open(path, limits or Limits()) as tree:
            for name in tree:
                tree.read_bytes(name)

    with pytest.raises(InputError, match=problem) as caught:
        read()
    message = str(caught.value)
    assert str(path) in message
    return message


def overlapping(count: int, content: bytes) -> bytes:
    """A zip whose list names one member many times: a few bytes a copy."""
    data = zipped({"0000.txt": content})
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[start:end]
    listed = b"".join(entry.replace(b"0000.txt", b"%04d.txt" % number) for number in range(count))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(listed), start, 0)
    return data[:start] + listed + tail


def test_members_that_share_their_bytes_are_a_bomb(tmp_path: Path) -> None:
    path = saved(tmp_path, "x.zip", overlapping(400, bytes(1 << 20)))
    assert path.stat().st_size < 27_000
    assert "unpack it yourself" in refused(path, "members share their bytes")


def test_members_that_are_too_large_together_are_a_bomb(tmp_path: Path) -> None:
    files = {f"{number}.txt": bytes(1 << 16) for number in range(20)}
    refused(saved(tmp_path, "x.zip", zipped(files)), "decompression bomb", Limits(ratio=1, ratio_floor=1 << 20))


def test_nested_archives_are_bounded_together(tmp_path: Path) -> None:
    inner = zipped({"a.txt": b"text"})
    for number in range(8):
        saved(tmp_path, f"{number}.zip", zipped({"inner.zip": inner}))
    refused(tmp_path, "nested archives expand", Limits(expanded=4 * len(inner)))


def test_nested_archives_leave_memory_for_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    real = archives.tempfile.SpooledTemporaryFile
    monkeypatch.setattr(
        archives.tempfile, "SpooledTemporaryFile", lambda max_size: rooms.append(max_size) or real(max_size=max_size)
    )
    inner = zipped({"a.txt": b"text"})
    path = saved(tmp_path, "x.zip", zipped({f"{number}.zip": inner for number in range(3)}))
    SourceTree.open(path, Limits(in_memory=len(inner) + 5)).close()
    assert rooms == [len(inner) + 5, 5, 1]


@pytest.mark.parametrize("limits", [Limits(members=50), Limits(directory=1000)])
def test_too_many_members_are_refused(tmp_path: Path, limits: Limits) -> None:
    path = saved(tmp_path, "x.zip", zipped({f"{number}.txt": b"" for number in range(100)}))
    assert "Unpack it yourself" in refused(path, "too many files", limits)


def test_too_many_members_of_a_tar_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.xz", "w:xz") as archive:
        for number in range(100):
            archive.addfile(tarfile.TarInfo(f"{number}.txt"))
    refused(tmp_path / "x.tar.xz", "too many files", Limits(members=50))


def test_a_member_name_that_is_not_utf8(tmp_path: Path) -> None:
    data = zipped({"año.txt": b"x"}).replace("año".encode(), b"a\xf1\xf1o")
    assert "Unpack it yourself" in refused(saved(tmp_path, "x.zip", data), "name is not valid UTF-8")


def test_a_member_without_a_name_is_damage(tmp_path: Path) -> None:
    data = zipped({"a.txt": b"x"}).replace(b"a.txt", b"\0.txt")  # zipfile ends a name at its NUL
    refused(saved(tmp_path, "x.zip", data), "damaged")


def test_a_tar_with_latin1_names_is_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        for name, content in {"año.txt": b"aspirin", "año.ann": b"T1\tDrug 0 7\taspirin\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (document,) = get_format("brat").read(tmp_path / "x.tar")
    assert document.id == "a\ufffdo"
    get_format("jsonl").write([document], tmp_path / "out.jsonl")


@pytest.mark.parametrize("field", ["version", "compression"])
def test_an_unsupported_zip_is_named(tmp_path: Path, field: str) -> None:
    data = bytearray(zipped({"a.txt": b"x"}))
    listed = data.index(b"PK\x01\x02")
    offsets = {"version": [listed + 6], "compression": [listed + 10, 8]}[field]
    for offset in offsets:
        data[offset] = 99
    message = refused(saved(tmp_path, "x.zip", bytes(data)), "version or a compression that is not supported")
    assert "Unpack it yourself" in message


def test_a_member_offset_outside_the_file_is_damage(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.txt": b"x"}))
    listed = data.index(b"PK\x01\x02")
    data[listed + 42 : listed + 46] = b"\xff\xff\xff\x7f"
    refused(saved(tmp_path, "x.zip", bytes(data)), "damaged")


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder with links to its own files and folders, and to others."""
    folder = tmp_path / "notes"
    (folder / "own").mkdir(parents=True)
    (folder / "own" / "a.txt").write_text("inside")
    (folder / "b.txt").symlink_to(folder / "own" / "a.txt")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret.txt").write_text("outside")
    (folder / "c.txt").symlink_to(tmp_path / "private" / "secret.txt")
    (folder / "d").symlink_to(tmp_path / "private")
    return folder


def test_links_out_of_a_folder_are_not_followed_and_named_once(linked: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="osler"):
        for _ in range(2):
            with SourceTree.open(linked) as tree:
                assert list(tree) == ["b.txt", "own/a.txt"]
    (record,) = caplog.records
    assert "links_not_followed" in record.message
    assert '"links": 2' in record.message
    assert str(linked / "d") in record.message


def test_a_link_that_is_given_is_followed(linked: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(linked)
    with SourceTree.open(tmp_path / "link") as tree:
        assert "own/a.txt" in tree
    with SourceTree.open(linked / "c.txt") as tree:
        assert tree.text("c.txt") == "outside"
