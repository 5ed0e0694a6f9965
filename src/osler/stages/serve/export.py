"""Export one head of a bundle as a stock Hugging Face model."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from osler.artifacts.bundle import Bundle
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe, runtime
from osler.core.errors import RecipeError
from osler.nn.export import to_hf


class ExportRecipe(Recipe):
    """Export one head of a bundle."""

    bundle: Path = runtime()
    head: str | None = None
    """The head to export; not needed if the bundle has only one."""
    to: Literal["hf"] = "hf"


def plan(recipe: ExportRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    return [
        f"export {recipe.head or 'the only head'} of {recipe.bundle} as a stock Hugging Face model",
        f"write it to {out}",
    ]


def run(recipe: ExportRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the exported folder."""
    artifact = Artifact.open(recipe.bundle, kind="bundle")

    def build(work: Workspace) -> None:
        bundle = Bundle.load(recipe.bundle, "cpu")
        names = list(bundle.spec.heads)
        if recipe.head is None and len(names) > 1:
            raise RecipeError(
                f"the bundle has {len(names)} heads",
                where=recipe.bundle,
                fix=f"Choose one with --head: {', '.join(names)}",
            )
        name = recipe.head or names[0]
        bundle.spec.head(name)
        labels = bundle.builders[name].outputs
        to_hf(bundle.model, name, labels, work.path)
        Tokenizer.open(recipe.bundle).copy_to(work.path)
        work.counts.update(labels=len(labels))

    return produce(out, kind="hf", recipe=recipe, parents={"bundle": artifact}, build=build, force=force)
