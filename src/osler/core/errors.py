"""The errors a user sees.

Every message says where the problem is, what it is and what to change. It never quotes document text: a location is a file with
a line, an index or a character offset. The command line prints only the message and exits with code 2.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class OslerError(Exception):
    """A problem the user can fix: `where` it is, what the `problem` is, and how to `fix` it."""

    exit_code = 2

    def __init__(self, problem: str, *, where: str | Path | None = None, fix: str | None = None) -> None:
        self.problem = problem.rstrip(".")
        self.where = str(where) if where is not None else None
        self.fix = fix.rstrip(".") if fix else None
        prefix = f"{self.where}: " if self.where else ""
        sentences = [part if part.endswith("?") else f"{part}." for part in (self.problem, self.fix) if part]
        super().__init__(prefix + " ".join(sentences))


class RecipeError(OslerError):
    """A recipe, an override or an option is wrong."""


class InputError(OslerError):
    """A file or value that the user gave is wrong."""


class ArtifactError(OslerError):
    """A folder is not the expected artifact: missing, unfinished, of another kind or of a newer format."""


class OutputError(OslerError):
    """The result cannot be written: the disk is full, the folder is read-only or already holds something else."""


class MissingExtraError(OslerError):
    """A part of osler needs an optional dependency that is not installed."""


class UnknownNameError(OslerError):
    """A name is not in its registry."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None if none is close enough to be a typo."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


_OUTPUT_PROBLEMS = {
    errno.ENOSPC: ("the disk is full", "Free some space or choose another --out"),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or choose another --out"),
    errno.EFBIG: (
        "the file would exceed the size limit of this process",
        "Raise the limit (ulimit -f) or choose another --out",
    ),
    errno.EROFS: ("the file system is read-only", "Choose another --out"),
    errno.EACCES: ("permission denied", "Choose an --out you may write to"),
    errno.EPERM: ("the operation is not permitted", "Choose an --out you may write to"),
    errno.EEXIST: ("a part of the path is a file, not a folder", "Choose another --out"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Choose another --out"),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter --out"),
    errno.ELOOP: ("the path is a circle of symbolic links", "Choose another --out"),
    errno.ENOLCK: ("the file system has no locks", "Choose an --out on another file system"),
    errno.EOPNOTSUPP: ("the file system has no locks", "Choose an --out on another file system"),
}


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn an operating system error while writing to `target` into an OutputError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OUTPUT_PROBLEMS:
            raise
        problem, fix = _OUTPUT_PROBLEMS[error.errno]
        raise OutputError(f"cannot write: {problem}", where=target, fix=fix) from error
