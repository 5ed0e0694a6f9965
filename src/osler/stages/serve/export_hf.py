"""Export one head of a bundle as a stock Hugging Face model."""

from __future__ import annotations

from pathlib import Path

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import RecipeError
from osler.stages.serve.config import ExportRecipe


def plan(recipe: ExportRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    Artifact.open(recipe.bundle, kind="bundle")
    head = _head(BundleSpec.load(recipe.bundle), recipe)
    return [f"export {head} of {recipe.bundle} as a stock Hugging Face model", f"write it to {out}"]


def run(recipe: ExportRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the exported folder."""
    artifact = Artifact.open(recipe.bundle, kind="bundle")
    name = _head(BundleSpec.load(recipe.bundle), recipe)

    def build(work: Workspace) -> None:
        from osler.nn.export import to_hf

        bundle = Bundle.load(recipe.bundle, "cpu")
        labels = bundle.builders[name].outputs
        to_hf(bundle.model, name, labels, work.path)
        Tokenizer.open(recipe.bundle).copy_to(work.path)
        work.counts.update(labels=len(labels))

    return produce(out, kind="hf", recipe=recipe, parents={"bundle": artifact}, build=build, force=force)


def _head(spec: BundleSpec, recipe: ExportRecipe) -> str:
    """The head to export: the one that is named, or the only one."""
    if recipe.head is not None:
        spec.head(recipe.head)
        return recipe.head
    if len(spec.heads) > 1:
        listed = ", ".join(spec.heads)
        raise RecipeError(
            f"the bundle has {len(spec.heads)} heads", where=recipe.bundle, fix=f"Choose one with --head: {listed}"
        )
    return next(iter(spec.heads))
