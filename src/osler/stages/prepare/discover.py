"""Write a card for a user's own annotated files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import Field

from osler.core.config import Recipe, runtime, validate
from osler.core.errors import InputError, RecipeError
from osler.formats.base import Defect, Problems, configure
from osler.formats.registry import detect_formats, get_format
from osler.formats.sources import SourceTree
from osler.stages.prepare.survey import SHARES, Guess, SplitPlan, Survey, plan_splits
from osler.tasks.card import ExpectedCounts, Kind, TaskCard
from osler.tasks.records import Narrow, RecordCounts
from osler.tasks.sources import open_source

_WIDTH = 100
MANY = 300
"""Past so many labels (a code system) the card does not list them; they are read from the data when it is prepared."""

_WHAT = {
    Kind.TAGGING: "Mentions",
    Kind.RELATION: "Relations",
    Kind.CLASSIFICATION: "One label for each {unit}",
    Kind.MULTILABEL: "Labels of each {unit}",
    Kind.REGRESSION: "A value for each {unit}",
}
_PROTOCOLS: Mapping[Kind, tuple[str, str, str]] = {
    Kind.TAGGING: ("strict", "f1", "Exact characters and label, micro-averaged; first sub-word labelled."),
    Kind.RELATION: ("gold-mentions", "f1", "Between gold mentions, set-based, micro over relation labels."),
    Kind.CLASSIFICATION: ("whole", "accuracy", "Accuracy; long texts in windows, outputs averaged."),
    Kind.MULTILABEL: ("whole", "f1", "Micro-averaged over labels; a label holds if any window shows it."),
    Kind.REGRESSION: ("whole", "pearson", "Pearson correlation."),
}


def draft_card(
    name: str,
    kind: Kind,
    survey: Survey,
    plan: SplitPlan,
    format_name: str,
    options: Mapping[str, Any],
    *,
    counts: Mapping[str, Mapping[str, Any]] | None = None,
    problems: Mapping[str, Mapping[str, int]] | None = None,
) -> str:
    """The text of a card; counts and known defects are added once the card was tried."""
    guess = survey.language.guess()
    protocol = _PROTOCOLS[kind][0]
    unit = "pair" if survey.pairs else "text"
    parts = [
        "# A task of your own. Every value may be edited; `osler tasks check` compares the counts at the end.\n",
        _toml(name=name, title=f"{_WHAT[kind].format(unit=unit)} in {name}", kind=kind.value),
    ]
    if survey.pairs:
        parts.append(_toml(record="pair"))
    parts += _language(guess)
    parts.append(_comment("clinical or biomedical, for lists."))
    parts.append(_toml(domain="clinical"))
    parts += _labels(kind, survey)
    if (place := survey.sentence_source()) != "split":
        parts.append(_comment("Where a sentence ends: split (osler's splitter), lines, or meta (as the corpus says)."))
        parts.append(_toml(sentences=place))
    parts.append(_comment("For readers of your results."))
    parts.append(_toml(licence="unknown", access="", citation=""))
    if problems:
        parts.append(_comment("Defects of the files that were found and are accepted; more of them is an error."))
        parts.append(_toml(known_problems={split: dict(found) for split, found in problems.items()}))
    parts.append(_comment("The protocol used where none is named."))
    parts.append(_toml(protocol=protocol))
    parts += _source(survey, plan, format_name, options)
    parts.append(_protocol(kind, survey))
    if counts:
        parts.append(_comment("What was found when this card was written."))
        parts.append(tomli_w.dumps({"counts": counts}))
    return "".join(parts)


def read_draft(text: str, where: str) -> TaskCard:
    """The card a text makes."""
    return validate(TaskCard, tomllib.loads(text), where=where)


def _language(guess: Guess) -> list[str]:
    return [_comment(f"A guess: {guess}."), _toml(language=guess.language)]


def _labels(kind: Kind, survey: Survey) -> list[str]:
    found = survey.task_labels(kind)
    parts: list[str] = []
    if found and len(found) > MANY and kind is not Kind.RELATION:
        parts.append(
            _comment(f"There are {len(found):,} labels; they are read from the data when the task is prepared.")
        )
        parts.append(_toml(discover_labels=True))
    elif found:
        parts.append(_comment('Take out what the model should not learn; `label_map = { old = "new" }` renames.'))
        parts.append(_toml(labels=sorted(found)))
    if kind is Kind.RELATION:
        parts.append(_comment("Which mentions may be head and tail of a relation, as they occur."))
        parts.append(_toml(pairs=[list(pair) for pair in sorted(survey.arguments)]))
        parts.append(_comment("The name of `no relation`; and whether head and tail may change places."))
        parts.append(_toml(negative="none" if "false" in found else "false", symmetric=False))
    if kind is Kind.REGRESSION and survey.pairs:
        parts.append(_comment("Whether the two texts may change places, as they may in similarity."))
        parts.append(_toml(symmetric=True))
    return parts


def _source(survey: Survey, plan: SplitPlan, format_name: str, options: Mapping[str, Any]) -> list[str]:
    source: dict[str, Any] = {"reader": "files", "format": format_name}
    if options:
        source["options"] = dict(options)
    parts = [_comment(f"Where the records are. Splits were seen from: {plan.how}."), "[source]\n", _toml(**source)]
    for split in ("train", "dev", "test"):
        if split in plan.files:
            parts.append(f"\n[source.splits.{split}]\n" + _toml(files=list(plan.files[split])))
    for split in plan.carved:
        share = SHARES[split]
        note = f"No files of a {split} set were seen: {share:.0%} of train, drawn by a hash, groups kept together."
        parts.append(_comment(note))
        carve = {"of": "train", "share": share, "seed": 0, "by": survey.group()}
        parts.append(f"[source.splits.{split}]\n" + _toml(carve=carve))
    return parts


def _protocol(kind: Kind, survey: Survey) -> str:
    name, metric, description = _PROTOCOLS[kind]
    values: dict[str, Any] = {"metric": metric, "description": description}
    comment = "\n"
    if kind is Kind.RELATION:
        values["candidates"] = survey.candidates()
        crossing = f"{survey.crossing:,} of {survey.relations.total():,} relations here do"
        comment = _comment(f"`candidates` may be sentence, or document where relations cross sentences: {crossing}.")
    if kind is Kind.CLASSIFICATION and survey.unlabelled:
        values["records"] = "labelled"
        comment = _comment(f"{survey.unlabelled:,} records have no label and take no part.")
    return f"{comment}[protocols.{name}]\n{_toml(**values)}"


def _comment(text: str) -> str:
    return f"\n# {text}\n"


def _toml(**values: Any) -> str:
    """Plain values, lists and inline tables; what holds tables of its own is left to the callers."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return _list([_value(item) for item in value])
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _list(items: list[str]) -> str:
    """On one line where it fits, else on as few as it needs."""
    whole = f"[{', '.join(items)}]"
    if len(whole) <= _WIDTH:
        return whole
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > _WIDTH:
            lines.append("")
        lines[-1] += f"{item}, "
    return "[\n" + "".join(f"    {line.rstrip()}\n" for line in lines) + "]"


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


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
    plan: SplitPlan
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
            for record in format_.read(tree.view({name: name for name in names}), problems=Problems()):
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
    tallies = {split: RecordCounts(card.kind) for split in card.source.splits}
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
        stated = set(ExpectedCounts.model_fields) - ({"labels"} if card.discover_labels else set())
        counts[split] = {key: value for key, value in found.items() if key in stated}
    return counts, problems
