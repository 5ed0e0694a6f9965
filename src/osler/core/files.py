"""Atomic writes, content hashes, locks, and errors for damaged Parquet files and older model folders."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from osler.core.errors import ArtifactError, OutputError, writing
from osler.core.extras import require

TEMPORARY = ".tmp"
"""Suffix of a half-written file; its name begins with a dot."""


@contextmanager
def atomic(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing that replaces `path` when the block succeeds, so that no reader sees half a file.

    A killed process leaves `.NAME.tmp`, which the next writer of `path` overwrites. Concurrent writers take turns. With `sync`,
    which costs some milliseconds, the file also survives a power cut.
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _open_locked(temporary, wait=True) as handle:
            try:
                handle.truncate(0)
                yield handle
                handle.flush()
                if sync:
                    os.fsync(handle.fileno())
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        if sync:
            sync_folder(path.parent)


def _open_locked(path: Path, *, wait: bool) -> IO[bytes]:
    """Open a file for writing and lock it; closing it releases the lock."""
    while True:
        handle = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder of the lock may have renamed or removed its file; then this is no longer `path`.
            if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            handle.close()
            raise
        handle.close()


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file atomically."""
    with atomic(path) as handle:
        handle.write(data.encode() if isinstance(data, str) else data)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, with keys in the given order and one trailing newline."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def csv_row(cells: Iterable[object]) -> str:
    """Return one row of CSV that ends in a line feed.

    Fields with a carriage return are quoted: readers end a row there. `csv.writer` only quotes them if its rows end in one too.
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def open_private(path: Path) -> IO[bytes]:
    """Create a file for writing that only its owner can read."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def remove_half_written(folder: Path) -> None:
    """Delete the temporary files of killed writers below a folder that only this process writes to."""
    with writing(folder):
        for leftover in folder.rglob(f".*{TEMPORARY}"):
            leftover.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def fingerprint(paths: Iterable[Path]) -> str:
    """Hash the contents of several files in the given order, regardless of their names and times."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(bytes.fromhex(sha256(path)))
    return digest.hexdigest()


def remove_tree(folder: Path) -> None:
    """Delete a folder, file or link if it exists."""
    with writing(folder):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)


@contextmanager
def locked(path: Path, target: Path) -> Iterator[None]:
    """Hold a lock file at `path` for the block. Raises OutputError if another process is writing `target`."""
    with writing(target):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = _open_locked(path, wait=False)
        except BlockingIOError as error:
            raise OutputError(
                "another osler process is writing here",
                where=target,
                fix="Wait until it is done, or choose another --out",
            ) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        handle.close()


def unconverted(folder: Path) -> ArtifactError | None:
    """Return the error for a published model in an older layout, which `osler convert-model` reads; None for other folders."""
    files = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    safe = {"model.safetensors", "model.safetensors.index.json"} & files
    pickled = sorted(name for name in files if name.startswith("pytorch_model") and ".bin" in name)
    tensorflow = sorted(name for name in files if ".ckpt" in name and name.endswith(".index"))
    vocabulary = sorted({"vocab.txt", "vocab.json"} & files)
    if pickled and not safe:
        problem = f"the weights are a pickle ({pickled[0]}), which could run code when it is read"
    elif tensorflow and not safe:
        problem = f"the weights are a TensorFlow checkpoint ({tensorflow[0]})"
    elif "bert_config.json" in files and "config.json" not in files:
        problem = "the configuration is in an older form (bert_config.json, no config.json)"
    elif safe and vocabulary and "tokenizer.json" not in files:
        problem = f"the tokenizer is in an older form ({vocabulary[0]}, no tokenizer.json)"
    else:
        return None
    fix = f"Convert the model first: osler convert-model {folder} --out DIR"
    return ArtifactError(problem, where=folder, fix=fix)


@contextmanager
def undamaged(
    path: Path,
    problem: str = "this file of the corpus is damaged",
    fix: str = "Make the corpus again with --force",
) -> Iterator[None]:
    """Turn an error while reading `path` into one that names the file; pyarrow's own may quote the content."""
    arrow = require("pyarrow", "corpus")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise ArtifactError(problem, where=path, fix=fix) from error
