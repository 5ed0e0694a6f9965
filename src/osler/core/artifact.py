"""Artifacts: the folders that stages read and write.

An artifact is a folder with a `manifest.json`, which is written last. It is built as `NAME.partial` and then renamed to
`NAME`. A killed run leaves `NAME.partial` behind, and the same command resumes from it. The manifest contains no timestamps
or host names: the same recipe on the same parents gives the same bytes. Files that differ from run to run, such as timings,
go to `logs/` and are not hashed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ValidationError

from osler.core.config import Recipe
from osler.core.console import console
from osler.core.errors import ArtifactError, OutputError, writing
from osler.core.files import (
    locked,
    remove_half_written,
    remove_tree,
    sha256,
    sync_folder,
    unconverted,
    write_atomic,
    write_json,
)

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
LOGS = "logs"
_IDENTITY = "identity.json"
_TRAINED = "export.json"
_COMMANDS = {
    "corpus": "corpus build",
    "tokenizer": "vocab train",
    "encoder": "pretrain",
    "task": "tasks prepare",
    "bundle": "finetune",
}
M = TypeVar("M", bound=BaseModel)


def read_model(kind: type[M], path: Path, *, problem: str = "damaged", fix: str) -> M:
    """Read a JSON file of an artifact. If it is damaged, the error names the file and the first invalid value."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = "".join(f"{part}: " for part in first["loc"])
        raise ArtifactError(f"{problem}: {place}{first['msg']}", where=path, fix=fix) from None


@dataclass(frozen=True)
class Manifest:
    """Kind and recipe of an artifact, digests of its parents, and a hash of every file."""

    kind: str
    format_version: int
    recipe: dict[str, Any]
    identity: str
    parents: dict[str, str]
    counts: dict[str, Any]
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """The hash that child artifacts record. It covers kind, identity, parents and every file."""
        return _hash([self.kind, self.format_version, self.identity, self.parents, self.files])

    @classmethod
    def read(cls, path: Path) -> Manifest:
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values["format_version"]
            if version > FORMAT_VERSION:
                raise ArtifactError(
                    f"made by a newer version of osler (format {version}; this version reads up to {FORMAT_VERSION})",
                    where=path.parent,
                    fix="Upgrade osler: pip install -U osler",
                )
            return cls(**values)
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError("the manifest is damaged", where=path, fix="Make the artifact again") from error


@dataclass(frozen=True)
class Artifact:
    """A finished artifact on disk."""

    path: Path
    manifest: Manifest
    reused: bool = False

    kind: ClassVar[str | None] = None
    """The kind of artifact that a subclass opens."""

    @property
    def counts(self) -> dict[str, Any]:
        """Counts in the manifest, such as documents and words."""
        return self.manifest.counts

    @classmethod
    def open(cls, path: str | Path, kind: str | None = None) -> Self:
        """Open a finished artifact. Raises ArtifactError if there is none or it is of another kind."""
        path, kind = Path(path), kind or cls.kind
        command = f" (osler {_COMMANDS[kind]})" if kind in _COMMANDS else ""
        if not path.exists():
            raise ArtifactError("no such folder", where=path, fix=f"Make it first{command}, or check the path")
        if not (path / MANIFEST).is_file():
            if kind in ("encoder", "bundle") and (older := unconverted(path)):
                raise older
            wanted = f"{_with_article(kind)} made by osler" if kind else "a finished osler artifact"
            missing = f": {MANIFEST} is missing" if path.is_dir() else ", it is a file"
            raise ArtifactError(
                f"this is not {wanted}{missing}",
                where=path,
                fix=f"Give the folder of {_with_article(kind)}{command}" if kind else "Make it again",
            )
        manifest = Manifest.read(path / MANIFEST)
        if kind is not None and manifest.kind != kind:
            raise ArtifactError(
                f"this folder holds {_with_article(manifest.kind)}, not {_with_article(kind)}",
                where=path,
                fix=f"Give a folder that holds {_with_article(kind)}{command}",
            )
        for name in manifest.files:
            if not (path / name).is_file():
                raise ArtifactError(
                    f"the file {name} is missing", where=path, fix="Make the artifact again with --force"
                )
        return cls(path, manifest)

    def verify(self) -> None:
        """Check every file against its recorded hash."""
        for name, expected in self.manifest.files.items():
            if sha256(self.path / name) != expected:
                raise ArtifactError(
                    f"the file {name} was changed after it was made",
                    where=self.path,
                    fix="Make the artifact again with --force",
                )


@dataclass
class Workspace:
    """The folder of an artifact under construction. It may contain files of an interrupted run."""

    path: Path
    counts: dict[str, Any] = field(default_factory=dict)
    main: bool = True
    """Whether this process may write. Under torchrun, only rank 0 may."""

    @property
    def logs(self) -> Path:
        """Folder for timings and training curves, which are not hashed."""
        folder = self.path / LOGS
        folder.mkdir(exist_ok=True)
        return folder

    def finish_training(self) -> None:
        """Mark the trained model as completely written, then delete the checkpoints."""
        write_json(self.logs / _TRAINED, self.counts)
        remove_tree(self.path / "checkpoints")

    def training_is_finished(self) -> bool:
        """Whether an earlier process reached `finish_training`; if so, restore its counts.

        Also true on the other ranks of a torchrun once rank 0 has renamed the folder.
        """
        record = self.path / LOGS / _TRAINED
        if not record.is_file():
            return not self.path.exists()
        self.counts.update(json.loads(record.read_text(encoding="utf-8")))
        if self.main:
            remove_tree(self.path / "checkpoints")
        return True


def identity_of(kind: str, recipe: Recipe, parents: Mapping[str, str | Artifact]) -> str:
    """Hash of everything that determines the content of an artifact."""
    return _hash([kind, FORMAT_VERSION, recipe.identity(), _digests(parents)])


def produce(
    out: str | Path,
    *,
    kind: str,
    recipe: Recipe,
    parents: Mapping[str, str | Artifact],
    build: Callable[[Workspace], None],
    force: bool = False,
    together: bool = False,
) -> Artifact:
    """Make an artifact at `out`, or reuse the one there if it was made from the same recipe and parents.

    Under torchrun, rank 0 makes it and the others wait. With `together`, all ranks call `build` on the same folder, but only
    rank 0 (`Workspace.main`) may write.
    """
    identity = identity_of(kind, recipe, parents)
    out = Path(os.path.abspath(out))
    partial = out.with_name(out.name + ".partial")
    if os.environ.get("RANK", "0") != "0":
        return _follow(out, partial, kind, identity, build if together else None, force=force)
    lock, old = out.with_name(f".{out.name}.lock"), out.with_name(f".{out.name}.old")
    with writing(out):
        existing = _reusable(out, kind, identity, force=force)
        if existing is not None:
            if lock.exists() or old.exists():  # left by a run that was killed just after it finished
                with suppress(OutputError), locked(lock, out):
                    remove_tree(old)
            return existing
        out.parent.mkdir(parents=True, exist_ok=True)
    with locked(lock, out), writing(out):
        # Another process may have finished it before this one got the lock.
        existing = _reusable(out, kind, identity, force=force)
        if existing is not None:
            return existing
        manifest = _finished_partial(partial, identity)
        if manifest is None:
            _prepare_partial(partial, identity, force=force)
            workspace = Workspace(partial)
            build(workspace)
            manifest = _finish_partial(workspace, kind, recipe, identity, _digests(parents))
        remove_tree(old)
        if os.path.lexists(out):
            os.rename(out, old)
        os.rename(partial, out)
        sync_folder(out.parent)
        remove_tree(old)
    return Artifact(out, manifest)


def check_out(
    out: str | Path, *, kind: str, recipe: Recipe, parents: Mapping[str, str | Artifact], force: bool = False
) -> bool:
    """Raise the error that `produce` would raise for this `out`; return whether the artifact is already there."""
    out, identity = Path(os.path.abspath(out)), identity_of(kind, recipe, parents)
    if _reusable(out, kind, identity, force=force):
        return True
    if not force:
        _refuse_unfinished(out.with_name(out.name + ".partial"), identity)
    above = next(folder for folder in out.parents if folder.exists())
    with writing(out):
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return False


def _refuse_unfinished(partial: Path, identity: str) -> None:
    """Refuse to delete checkpoints of an unfinished run with another recipe: they may be days of work."""
    if (partial / "checkpoints").is_dir() and _identity_in(partial) != identity:
        raise OutputError(
            "this is an unfinished run with another recipe or other inputs, and it has checkpoints",
            where=partial,
            fix="Finish it with its own command, choose another --out, or give --force to delete it and start over",
        )


def _follow(
    out: Path, partial: Path, kind: str, identity: str, build: Callable[[Workspace], None] | None, *, force: bool
) -> Artifact:
    """Run on the other ranks of a torchrun: join the build if there is one, then wait for rank 0."""
    while True:
        if build is not None and _identity_in(partial) == identity:
            build(Workspace(partial, main=False))
            build = None
        # With --force, the old artifact is in place until the build ends and must not end the wait.
        waiting = force and build is not None
        if not waiting and (out / MANIFEST).is_file() and _identity_in(partial) is None:
            artifact = Artifact.open(out, kind=kind)
            if artifact.manifest.identity == identity:
                return artifact
        time.sleep(0.2)


def _reusable(out: Path, kind: str, identity: str, *, force: bool = False) -> Artifact | None:
    """Return the artifact at `out` if this recipe made it, or None if `out` is free or may be replaced. Otherwise raise."""
    if is_free(out) or force:
        return None
    manifest = Artifact.open(out).manifest
    if manifest.kind != kind or manifest.identity != identity:
        found = _with_article(manifest.kind)
        raise OutputError(
            f"this folder holds {found} made from another recipe or other inputs",
            where=out,
            fix="Choose another --out, or replace it with --force",
        )
    return Artifact(out, manifest, reused=True)


def is_free(out: Path) -> bool:
    """Whether `out` is missing or empty. False if it holds an artifact; raises if it holds anything else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return True
    if not (out / MANIFEST).is_file():
        # Not even --force replaces it: a mistyped --out must not delete other files.
        fix = "Choose another --out, or remove it first"
        raise OutputError("this exists and is not a finished osler artifact", where=out, fix=fix)
    return False


def _finished_partial(partial: Path, identity: str) -> Manifest | None:
    """Return the manifest of a partial folder that is complete but was not renamed because the run was killed."""
    if not (partial / MANIFEST).is_file() or (partial / _IDENTITY).exists():
        return None
    try:
        manifest = Artifact.open(partial).manifest
    except ArtifactError:
        return None
    return manifest if manifest.identity == identity else None


def _prepare_partial(partial: Path, identity: str, *, force: bool) -> None:
    """Keep a partial folder with the same identity, to resume from it; otherwise start with an empty folder."""
    if partial.exists():
        if _identity_in(partial) == identity:
            return
        if not force:
            _refuse_unfinished(partial, identity)
        console().print(f"removing {partial.name}, an unfinished run with other settings or inputs", style="yellow")
        remove_tree(partial)
    partial.mkdir()
    write_json(partial / _IDENTITY, {"identity": identity})


def _identity_in(partial: Path) -> str | None:
    try:
        return str(json.loads((partial / _IDENTITY).read_text())["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _finish_partial(
    workspace: Workspace, kind: str, recipe: Recipe, identity: str, parents: dict[str, str]
) -> Manifest:
    write_atomic(workspace.path / "recipe.toml", recipe.to_toml())
    # Done here and not at the start, because a worker of the killed run may have outlived it for a moment.
    remove_half_written(workspace.path)
    files = {}
    for path in sorted(workspace.path.rglob("*")):
        name = path.relative_to(workspace.path).as_posix()
        # recipe.toml is not hashed: its input paths may differ between machines that make the same artifact.
        if path.is_file() and name not in {MANIFEST, _IDENTITY, "recipe.toml"} and not name.startswith(f"{LOGS}/"):
            files[name] = sha256(path)
    manifest = Manifest(kind, FORMAT_VERSION, recipe.resolved(), identity, parents, workspace.counts, files)
    write_json(workspace.path / MANIFEST, asdict(manifest))
    # Must come last: if the run is killed before this line, the same command resumes from the folder.
    (workspace.path / _IDENTITY).unlink()
    return manifest


def _digests(parents: Mapping[str, str | Artifact]) -> dict[str, str]:
    return {
        name: parent.manifest.digest if isinstance(parent, Artifact) else parent
        for name, parent in sorted(parents.items())
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _with_article(kind: str) -> str:
    if kind in ("tokens", "annotations"):
        return kind
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"
