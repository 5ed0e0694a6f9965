"""Artifacts: the folders through which stages meet.

An artifact is a folder with a `manifest.json` that is written last. It is built beside its place, in `NAME.partial`, which
survives a kill so that the same command continues from it, and moved into place by one rename. The manifest holds no time
and no machine: the same recipe on the same parents gives the same bytes. What differs from run to run (timings) lives below
`logs/` and is not hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from osler.core.config import Recipe
from osler.core.errors import ArtifactError, OutputError, writing
from osler.core.files import locked, remove_tree, sha256, sync_folder, write_atomic, write_json

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
LOGS = "logs"
_IDENTITY = "identity.json"
_TRAINED = "export.json"


@dataclass(frozen=True)
class Manifest:
    """What an artifact is, what it was made from, and the hash of every file in it."""

    kind: str
    format_version: int
    recipe: dict[str, Any]
    identity: str
    parents: dict[str, str]
    counts: dict[str, Any]
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """The hash that children record: it covers kind, recipe identity, parents and every file."""
        return _hash([self.kind, self.format_version, self.identity, self.parents, self.files])


@dataclass(frozen=True)
class Artifact:
    """A finished artifact on disk."""

    path: Path
    manifest: Manifest
    reused: bool = False

    @classmethod
    def open(cls, path: Path, kind: str | None = None) -> Artifact:
        """Open a finished artifact, or say why it is none."""
        if not path.exists():
            raise ArtifactError("no such folder", where=path, fix=f"Make it first{_maker(kind)}, or check the path")
        manifest_path = path / MANIFEST
        if not manifest_path.is_file():
            raise ArtifactError(
                f"not a finished osler artifact: {MANIFEST} is missing",
                where=path,
                fix=f"Run the command that makes it again{_maker(kind)}",
            )
        try:
            manifest = Manifest(**json.loads(manifest_path.read_text(encoding="utf-8")))
        except (json.JSONDecodeError, TypeError, UnicodeDecodeError) as error:
            version = _version_of(manifest_path)
            if version is not None and version > FORMAT_VERSION:
                raise _too_new(path, version) from error
            raise ArtifactError(
                "the manifest is damaged", where=manifest_path, fix="Make the artifact again"
            ) from error
        if manifest.format_version > FORMAT_VERSION:
            raise _too_new(path, manifest.format_version)
        if kind is not None and manifest.kind != kind:
            raise ArtifactError(
                f"this artifact is of the kind {manifest.kind}, not {kind}",
                where=path,
                fix=f"Give a folder of the kind {kind}{_maker(kind)}",
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
                    f"the file {name} was changed after it was made", where=self.path, fix="Make it again with --force"
                )


@dataclass
class Workspace:
    """The folder under construction. What an interrupted run left in it is still there."""

    path: Path
    counts: dict[str, Any] = field(default_factory=dict)
    main: bool = True
    """Whether this process writes; under torchrun only the first does."""

    @property
    def logs(self) -> Path:
        """Where timings and training curves go; not part of the artifact's hash."""
        folder = self.path / LOGS
        folder.mkdir(exist_ok=True)
        return folder

    def finish_training(self) -> None:
        """Note that every file of the trained model is written, then drop the checkpoints it was made from."""
        write_json(self.logs / _TRAINED, self.counts)
        remove_tree(self.path / "checkpoints")

    def training_is_finished(self) -> bool:
        """Whether an earlier process got as far as `finish_training`; its counts are restored.

        Also true for the other processes of a torchrun once the first one has moved the folder into place.
        """
        note = self.path / LOGS / _TRAINED
        if not note.is_file():
            return not self.path.exists()
        self.counts.update(json.loads(note.read_text(encoding="utf-8")))
        if self.main:
            remove_tree(self.path / "checkpoints")
        return True


def identity_of(kind: str, recipe: Recipe, parents: Mapping[str, str | Artifact]) -> str:
    """The hash of everything that decides the content of an artifact."""
    return _hash([kind, FORMAT_VERSION, recipe.identity(), _digests(parents)])


def produce(
    out: Path,
    *,
    kind: str,
    recipe: Recipe,
    parents: Mapping[str, str | Artifact],
    build: Callable[[Workspace], None],
    force: bool = False,
    together: bool = False,
) -> Artifact:
    """Make an artifact at `out`, or reuse the one that is there if the same recipe and parents made it.

    Under torchrun the first process makes it and the others wait; with `together` they build too, each with the same
    workspace, in which only the first (`Workspace.main`) may write.
    """
    identity = identity_of(kind, recipe, parents)
    out = Path(os.path.abspath(out))
    partial = out.with_name(out.name + ".partial")
    if os.environ.get("RANK", "0") != "0":
        return _follow(out, partial, kind, identity, build if together else None, force=force)
    existing = _existing(out, kind, identity, force=force)
    if existing is not None:
        return existing
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    lock = out.with_name(f".{out.name}.lock")
    with locked(lock, out):
        # Another process may have finished it while this one waited to look.
        existing = _existing(out, kind, identity, force=force)
        if existing is not None:
            return existing
        with writing(out):
            manifest = _sealed(partial, identity)
            if manifest is None:
                _open_partial(partial, identity)
                workspace = Workspace(partial)
                build(workspace)
                manifest = _seal(workspace, kind, recipe, identity, _digests(parents))
            _move_into_place(partial, out)
        lock.unlink(missing_ok=True)
    return Artifact(out, manifest)


def _follow(
    out: Path, partial: Path, kind: str, identity: str, build: Callable[[Workspace], None] | None, *, force: bool
) -> Artifact:
    """What the other processes of a torchrun do: take part in the build if asked to, then wait for the first."""
    while True:
        if build is not None and _identity_in(partial) == identity:
            build(Workspace(partial, main=False))
            build = None
        # With --force the old artifact is still in place at first: it must not end the wait.
        waiting = force and build is not None
        if not waiting and (out / MANIFEST).is_file() and _identity_in(partial) is None:
            artifact = Artifact.open(out, kind=kind)
            if artifact.manifest.identity == identity:
                return artifact
        time.sleep(0.2)


def _identity_in(partial: Path) -> str | None:
    try:
        return str(json.loads((partial / _IDENTITY).read_text())["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _existing(out: Path, kind: str, identity: str, *, force: bool) -> Artifact | None:
    if not out.exists() or force:
        return None
    if out.is_dir() and not any(out.iterdir()):
        return None
    if not (out / MANIFEST).is_file():
        raise OutputError(
            "something is there that is not a finished osler artifact",
            where=out,
            fix="Choose another --out, or replace it with --force",
        )
    artifact = Artifact.open(out)
    if artifact.manifest.kind != kind or artifact.manifest.identity != identity:
        raise OutputError(
            f"an artifact of the kind {artifact.manifest.kind} is there that was made from another recipe or other inputs",
            where=out,
            fix="Choose another --out, or replace it with --force",
        )
    return Artifact(out, artifact.manifest, reused=True)


def _sealed(partial: Path, identity: str) -> Manifest | None:
    """The manifest of a folder that a kill kept from being moved into place when all else was done."""
    if not (partial / MANIFEST).is_file() or (partial / _IDENTITY).exists():
        return None
    try:
        manifest = Artifact.open(partial).manifest
    except ArtifactError:
        return None
    return manifest if manifest.identity == identity else None


def _open_partial(partial: Path, identity: str) -> None:
    """Continue a half-built folder of the same identity; start anew where it is of another."""
    if partial.exists():
        if _identity_in(partial) == identity:
            for left in partial.rglob(".*.tmp"):  # half a file, from a process that was killed while it wrote
                left.unlink()
            return
        remove_tree(partial)
    partial.mkdir()
    write_json(partial / _IDENTITY, {"identity": identity})


def _seal(workspace: Workspace, kind: str, recipe: Recipe, identity: str, parents: dict[str, str]) -> Manifest:
    write_atomic(workspace.path / "recipe.toml", recipe.to_toml())
    files = {}
    for path in sorted(workspace.path.rglob("*")):
        name = path.relative_to(workspace.path).as_posix()
        # recipe.toml names input paths, which may differ between two machines that make the same thing.
        if path.is_file() and name not in {MANIFEST, _IDENTITY, "recipe.toml"} and not name.startswith(f"{LOGS}/"):
            files[name] = sha256(path)
    manifest = Manifest(kind, FORMAT_VERSION, recipe.resolved(), identity, parents, workspace.counts, files)
    write_json(workspace.path / MANIFEST, asdict(manifest))
    # Last: a kill before this line finds a folder that the same command can go on with.
    (workspace.path / _IDENTITY).unlink()
    return manifest


def _move_into_place(partial: Path, out: Path) -> None:
    old = out.with_name(f".{out.name}.old")
    remove_tree(old)
    if out.exists():
        os.rename(out, old)
    os.rename(partial, out)
    sync_folder(out.parent)
    remove_tree(old)


def _digests(parents: Mapping[str, str | Artifact]) -> dict[str, str]:
    return {
        name: parent.manifest.digest if isinstance(parent, Artifact) else parent
        for name, parent in sorted(parents.items())
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _version_of(manifest_path: Path) -> int | None:
    try:
        version = json.loads(manifest_path.read_text(encoding="utf-8"))["format_version"]
    except (ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) else None


def _too_new(path: Path, version: int) -> ArtifactError:
    return ArtifactError(
        f"made by a newer osler (format version {version}; this one reads up to {FORMAT_VERSION})",
        where=path,
        fix="Upgrade osler: pip install -U osler",
    )


def _maker(kind: str | None) -> str:
    commands = {
        "corpus": "corpus",
        "tokenizer": "vocab",
        "encoder": "pretrain",
        "task": "tasks prepare",
        "bundle": "finetune",
    }
    return f" (osler {commands[kind]})" if kind in commands else ""
