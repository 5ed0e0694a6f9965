"""Write a fake official distribution, packed or plain, with a README that says it is synthetic."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import textwrap
import zipfile
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from osler.clinic.distributions import get_distribution
from osler.clinic.distributions.base import Distribution, DistributionWriter
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe
from osler.core.files import remove_tree, write_atomic
from osler.core.seeding import derive

_NOTICE = (
    "SYNTHETIC DATA. This is not the real corpus and holds nothing of it. Every text, name, number and annotation in this "
    "folder was made up by the synthetic clinic of osler. Only the file names and the file format are those of the official "
    "release, so that programs that will read the real files can be tried before a data agreement arrives. Results on these "
    "files say nothing about results on the real corpus and must not be reported as such."
)


class SynthesizeRecipe(Recipe):
    """Recipe of a fake distribution."""

    later: ClassVar = ("release",)

    task: str
    """Name of an access-controlled task."""
    n: int = Field(50, ge=4)
    """Training records (documents, sentences or pairs); other splits keep their proportion in the real release. Fewer
    than four cannot fill every official folder."""
    release: str | None = None
    """Release to mimic, if the corpus has several; `osler tasks info` lists them."""
    seed: int = Field(0, description="another seed gives other records")
    archives: bool = False
    """Pack the files as in the official release, instead of leaving plain folders."""


def plan(recipe: SynthesizeRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    distribution = get_distribution(recipe.task, recipe.release)
    shape = "official archives" if recipe.archives else "plain folders"
    return [
        f"make up {recipe.n} training records in the format of {distribution.title}, seed {recipe.seed}",
        f"write them as {shape} to {out}: synthetic, not the real corpus",
    ]


def run(recipe: SynthesizeRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Write the distribution."""
    distribution = get_distribution(recipe.task, recipe.release)

    def build(work: Workspace) -> None:
        # The writers need empty folders: remove leftovers of a killed run.
        for folder in distribution.packages:
            remove_tree(work.path / folder)
        # Distributions of one seed share no text, since a model may be trained on several tasks.
        writer = DistributionWriter(distribution, work.path, recipe.n, derive(recipe.seed, distribution.name))
        distribution.make(writer)
        if recipe.archives:
            for folder, archive in distribution.packages.items():
                _pack(work.path / folder, work.path / archive)
        write_atomic(work.path / "README.txt", _readme(distribution, recipe, writer))
        work.counts.update(writer.counts())

    return produce(out, kind="distribution", recipe=recipe, parents={}, build=build, force=force)


def _readme(distribution: Distribution, recipe: SynthesizeRecipe, writer: DistributionWriter) -> str:
    release = f" --release {recipe.release}" if recipe.release else ""
    command = f"osler tasks synthesize {recipe.task}{release} --n {recipe.n} --seed {recipe.seed}"
    lines = [
        textwrap.fill(_NOTICE, 100),
        "",
        f"Mimics: {distribution.title}",
        f"Made with: {command}{' --archives' if recipe.archives else ''}",
        f"Read by: the format {distribution.format!r} of osler",
        "",
    ]
    for split, count in writer.records.items():
        lines.append(f"  {split:<6}{count:>8} records   {'  '.join(distribution.splits[split])}")
    return "\n".join([*lines, ""])


def _pack(source: Path, archive: Path) -> None:
    """Move a folder or file into its archive: sorted members, no times and no owners, so the bytes are always the same."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    members = [(path.relative_to(source.parent).as_posix(), path) for path in files]
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as target:
            for name, path in members:
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.external_attr = 0o644 << 16
                info.create_system = 3
                target.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED, 6)
    else:
        with open(archive, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
            if source.is_file():
                with open(source, "rb") as content:
                    shutil.copyfileobj(content, stream)
            else:
                with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
                    for name, path in members:
                        member = tarfile.TarInfo(name)
                        member.size = path.stat().st_size
                        with open(path, "rb") as content:
                            tar.addfile(member, content)
    remove_tree(source)
