"""Packing folders the way releases are shipped, with the same bytes every time: sorted members, no times, no owners."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from osler.clinic.distributions.base import Package
from osler.core.files import remove_tree

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
_LEVEL = 6


def pack(folder: Path, packages: Iterable[Package]) -> None:
    """Put every package of the folder into its archive, and take away what was packed."""
    for package in packages:
        source, archive = folder / package.folder, folder / package.archive
        if package.archive.endswith(".zip"):
            _zip(source, archive)
        elif package.archive.endswith(".tar.gz"):
            _tar(source, archive)
        else:
            _gzip(source, archive)
        remove_tree(source)


def _members(source: Path) -> Iterator[tuple[str, Path]]:
    """Every file with its name in the archive, which begins with the packed folder's own."""
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    return ((path.relative_to(source.parent).as_posix(), path) for path in paths)


def _zip(source: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as target:
        for name, path in _members(source):
            info = zipfile.ZipInfo(name, _FIRST_DAY)
            info.external_attr = 0o644 << 16
            info.create_system = 3
            target.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED, _LEVEL)


def _tar(source: Path, archive: Path) -> None:
    with (
        open(archive, "wb") as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for name, path in _members(source):
            info = tarfile.TarInfo(name)
            info.size = path.stat().st_size
            with open(path, "rb") as content:
                target.addfile(info, content)


def _gzip(source: Path, archive: Path) -> None:
    with (
        open(source, "rb") as content,
        open(archive, "wb") as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as stream,
    ):
        shutil.copyfileobj(content, stream)
