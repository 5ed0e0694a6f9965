"""Write a fake official distribution, packed or plain, with a README that says what it is."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from osler.clinic.distributions import get_distribution
from osler.clinic.distributions.base import Order
from osler.clinic.distributions.notice import README, notice
from osler.clinic.distributions.packing import pack
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe
from osler.core.files import remove_tree, write_atomic
from osler.core.seeding import derive


class SynthesizeRecipe(Recipe):
    """Whose files, and how many."""

    task: str
    """The name of an access-controlled task."""
    n: int = Field(50, ge=4)
    """Records (documents, sentences or pairs) in training; other splits are as large as they are to it in the real release. Fewer than
    four cannot fill every official folder."""
    seed: int = 0
    archives: bool = False
    """Whether the files are packed as they are shipped officially, or lie in plain folders."""


def plan(recipe: SynthesizeRecipe, out: Path) -> list[str]:
    """What `run` will do, for a person."""
    distribution = get_distribution(recipe.task)
    shape = "official archives" if recipe.archives else "plain folders"
    return [
        f"make up {recipe.n} training records in the format of {distribution.title}, seed {recipe.seed}",
        f"write them as {shape} to {out}: synthetic, not the real corpus",
    ]


def run(recipe: SynthesizeRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the distribution."""
    distribution = get_distribution(recipe.task)
    # Two distributions of one seed share no text, as two tasks that are trained together should not.
    order = Order(recipe.n, derive(recipe.seed, distribution.name))

    def build(work: Workspace) -> None:
        # The writers want empty folders: what a killed run left goes first.
        for package in distribution.packages:
            remove_tree(work.path / package.folder)
        tally = distribution.make(order, work.path)
        if recipe.archives:
            pack(work.path, distribution.packages)
        write_atomic(work.path / README, notice(distribution, tally.records, made_with=_command(recipe)))
        work.counts.update(tally.counts())

    return produce(out, kind="distribution", recipe=recipe, parents={}, build=build, force=force)


def _command(recipe: SynthesizeRecipe) -> str:
    packed = " --archives" if recipe.archives else ""
    return f"osler tasks synthesize {recipe.task} --n {recipe.n} --seed {recipe.seed}{packed}"
