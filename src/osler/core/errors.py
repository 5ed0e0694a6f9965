"""Errors shown to users.

Every message says where the problem is, what it is and how to fix it. It never quotes document text: a location is a file with a
line, an index or a character offset. The command line prints only the message and exits with code 2.
"""

from __future__ import annotations

import difflib
import errno
import os
import traceback
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
    """An optional dependency is needed and not installed."""


class UnknownNameError(OslerError):
    """A name is not in its registry."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None if none is close enough to be a typo."""
    matches = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def alternatives(name: str, known: Iterable[str], heading: str = "Known") -> str:
    """Return the fix for an unknown name: "Did you mean 'train'?", if a known name is close, and the list of all."""
    names = list(known)
    close = nearest(name, names)
    question = f"Did you mean {close!r}? " if close else ""
    return f"{question}{heading}: {', '.join(names) or 'none'}"


_OTHER_OUT = "Choose another --out"
_OUTPUT_PROBLEMS = {
    errno.ENOSPC: ("the disk is full", "Free some space or choose another --out"),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or choose another --out"),
    errno.EFBIG: (
        "the file would exceed the size limit of this process",
        "Raise the limit (ulimit -f) or choose another --out",
    ),
    errno.EROFS: ("the file system is read-only", _OTHER_OUT),
    errno.EACCES: ("permission denied", "Choose an --out you may write to"),
    errno.EPERM: ("the operation is not permitted", "Choose an --out you may write to"),
    errno.EEXIST: ("a part of the path is a file, not a folder", _OTHER_OUT),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", _OTHER_OUT),
    errno.EISDIR: ("this is a folder, not a file", _OTHER_OUT),
    errno.ENOENT: ("files cannot be created here", _OTHER_OUT),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter --out"),
    errno.EINVAL: ("the name is not valid on this file system", _OTHER_OUT),
    errno.ELOOP: ("the path has a loop of symbolic links", _OTHER_OUT),
    errno.EIO: ("the disk reports an error", "Check the disk, or choose another --out"),
    errno.ENOLCK: ("the file system has no locks", "Choose an --out on another file system"),
    errno.EOPNOTSUPP: ("the file system has no locks", "Choose an --out on another file system"),
}


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn an operating system error while writing to `target` into an OutputError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OUTPUT_PROBLEMS or not _concerns(target, error.filename):
            raise
        problem, fix = _OUTPUT_PROBLEMS[error.errno]
        raise OutputError(f"cannot write: {problem}", where=target, fix=fix) from error


def _concerns(target: Path, filename: object) -> bool:
    """Whether an error concerns `target` (its folder, a file in it, or the `.partial` beside it) and not an input."""
    if not isinstance(filename, str | bytes | os.PathLike):
        return True  # an error in write() names no file
    out, path = Path(os.path.abspath(target)), Path(os.path.abspath(os.fsdecode(filename)))
    if out.is_relative_to(path):
        return True
    return path.is_relative_to(out.parent) and out.name in path.relative_to(out.parent).parts[0]


def explain_system_error(error: Exception) -> OslerError | None:
    """Return the error to show for an operating system error that nothing else explains; None for any other error."""
    if isinstance(error, MemoryError):
        return OslerError("memory ran out", fix="Use a smaller batch, fewer workers or a machine with more memory")
    if not isinstance(error, OSError) or not error.strerror:
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(_OUTPUT_PROBLEMS[error.errno][0], where=_shown(error), fix="Free some space and run again")
    fix = "Check the path and its permissions" if error.filename else None
    problem = f"{error.strerror[:1].lower()}{error.strerror[1:]}"
    return OslerError(problem, where=_shown(error), fix=fix)


def place_of(error: BaseException) -> str:
    """Return where an error was raised: the last line in osler, and the line in the library that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    package = Path(__file__).parents[1]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(package)]
    places = [f"{Path(own[-1].filename).relative_to(package).as_posix()}:{own[-1].lineno}"] if own else []
    if frames and (not own or frames[-1] is not own[-1]):
        places.append(f"{Path(frames[-1].filename).name}:{frames[-1].lineno}")
    return ", ".join(places) or "an unknown place"


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error message, or the kind of error if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _shown(error: OSError) -> str | None:
    return os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | os.PathLike) else None
