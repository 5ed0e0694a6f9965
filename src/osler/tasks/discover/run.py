"""From a folder of annotated files to a card that works: look, draft, read the data through the draft, and write down what came."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import Field

from osler.core.config import Recipe, runtime
from osler.core.errors import InputError, RecipeError
from osler.formats.base import Kind as Defect
from osler.formats.base import Problems, configure
from osler.formats.registry import detect_formats, get_format
from osler.formats.sources import SourceTree
from osler.tasks.card import Kind, TaskCard
from osler.tasks.counts import Tally
from osler.tasks.discover.draft import draft_card, read_draft
from osler.tasks.discover.splits import Plan, plan_splits
from osler.tasks.discover.survey import Survey
from osler.tasks.expectations import Counts
from osler.tasks.narrow import Narrow
from osler.tasks.sources import open_source
from osler.tasks.sources.find import Located


class DiscoverRecipe(Recipe):
    """What to look at, and what is known beforehand."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9\-]*$")
    source: Path = runtime()
    """A file, a folder or an archive."""
    format: str | None = None
    """The format of the files; seen from them where it is left out."""
    kind: Kind | None = None
    """The kind of task, where the data would serve several; else the richest."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the format, such as the names of the columns of a table."""


@dataclass(frozen=True)
class Discovery:
    """A card and what it was made from."""

    card: TaskCard
    text: str
    plan: Plan
    survey: Survey
    counts: dict[str, dict[str, Any]]
    problems: dict[str, dict[str, int]]


def discover(recipe: DiscoverRecipe) -> Discovery:
    """Make the card of the data in a folder."""
    with SourceTree.open(recipe.source) as tree:
        name = recipe.format or _format(tree, recipe.source)
        format_ = configure(get_format(name), recipe.options)
        plan = plan_splits(tree, format_)
        survey = Survey()
        for names in plan.names.values():
            part = Located("", {file: file for file in names}).tree(tree)
            for record in format_.read(part, problems=Problems()):
                survey.add(record)
        kind = _kind(recipe, survey)
        first = draft_card(recipe.name, kind, survey, plan, name, recipe.options)
        counts, problems = _tried(read_draft(first, recipe.name), tree, recipe.source)
    text = draft_card(recipe.name, kind, survey, plan, name, recipe.options, counts=counts, problems=problems)
    return Discovery(read_draft(text, recipe.name), text, plan, survey, counts, problems)


def _format(tree: SourceTree, where: Path) -> str:
    found = detect_formats(tree)
    if len(found) == 1:
        return found[0]
    problem = f"this could be {' or '.join(found)}" if found else "no format osler knows looks like this"
    raise InputError(problem, where=where, fix="Name the format with --format: see `osler convert --list`")


def _kind(recipe: DiscoverRecipe, survey: Survey) -> Kind:
    if not survey.records:
        raise InputError("nothing was read", where=recipe.source, fix="Check --format and the files")
    if 0 < survey.pairs < survey.records:
        raise InputError("single texts and pairs of texts are mixed", where=recipe.source, fix="Make two tasks of them")
    try:
        richest = survey.kind()
    except InputError as error:
        raise InputError(error.problem, where=recipe.source, fix=error.fix) from None
    if recipe.kind is None:
        return richest
    if recipe.kind not in survey.possible():
        possible = ", ".join(survey.possible())
        raise RecipeError(f"the data does not make a {recipe.kind} task", where=recipe.source, fix=f"Use: {possible}")
    return recipe.kind


def _tried(
    card: TaskCard, tree: SourceTree, where: Path
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, int]]]:
    """Read everything as `osler tasks prepare` will: counts and defects by split."""
    tolerant = card.model_copy(update={"tolerated": get_args(Defect)})
    tallies = {split: Tally(card.kind) for split in card.source.splits}
    narrow = Narrow(card)
    with open_source(tolerant, tree) as source:
        for split, record in source.records():
            tallies[split].add(narrow(record))
        problems: dict[str, dict[str, int]] = source.facts().get("problems", {})
    counts = {}
    for split in ("train", "dev", "test"):
        found = tallies[split].as_dict()
        if not found["documents"]:
            raise InputError(
                f"the split {split!r} would be empty", where=where, fix="Give more data, or splits by folder"
            )
        # A card states what `osler tasks check` compares; a code system would fill pages.
        stated = set(Counts.model_fields) - ({"labels"} if card.discover_labels else set())
        counts[split] = {key: value for key, value in found.items() if key in stated}
    return counts, problems
