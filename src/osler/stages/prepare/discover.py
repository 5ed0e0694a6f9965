"""Write a task card for a user's own annotated files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import tomli_w

from osler.core.errors import InputError, OutputError, RecipeError
from osler.formats.base import Defect, Format, Problems, configure
from osler.formats.registry import detect_format, get_format
from osler.formats.sources import SourceTree
from osler.stages.prepare.config import DiscoverRecipe
from osler.stages.prepare.survey import SHARES, SplitPlan, Survey, plan_splits
from osler.tasks.card import ExpectedCounts, Kind, TaskCard
from osler.tasks.catalogue import make_card
from osler.tasks.records import RecordCounts, RecordReducer
from osler.tasks.sources import open_source

_WIDTH = 100
_MANY = 300
"""With more labels than this (a code system), the card takes them from the data instead of listing them."""

_TITLES = {
    Kind.TAGGING: "Mentions",
    Kind.RELATION: "Relations",
    Kind.CLASSIFICATION: "One label for each {unit}",
    Kind.MULTILABEL: "Labels of each {unit}",
    Kind.REGRESSION: "A value for each {unit}",
    Kind.ATTRIBUTES: "Attributes of mentions",
}
_FAMILIES = {
    Kind.TAGGING: ("ner", "strict"),
    Kind.REGRESSION: ("regression", "pearson"),
    Kind.ATTRIBUTES: ("attributes", "micro"),
}
"""Family of protocols and default protocol of the shipped tasks of a kind."""
_PROTOCOLS: Mapping[Kind, Mapping[str, Mapping[str, Any]]] = {
    Kind.RELATION: {
        "micro": {"metric": "f1", "description": "Between gold mentions, micro-averaged over relation labels."},
        "macro": {"metric": "macro_f1", "description": "As micro, with the mean of the labels' F1."},
        "micro-train+dev": {
            "metric": "f1",
            "train_on": ["train", "dev"],
            "description": "As micro, trained on train and dev together.",
        },
    },
    Kind.CLASSIFICATION: {
        "accuracy": {"metric": "accuracy", "description": "Accuracy; long texts in windows, outputs averaged."},
        "macro": {"metric": "macro_f1", "description": "The mean of the labels' F1."},
        "accuracy-train+dev": {
            "metric": "accuracy",
            "train_on": ["train", "dev"],
            "description": "As accuracy, trained on train and dev together.",
        },
    },
    Kind.MULTILABEL: {
        "micro": {"metric": "f1", "description": "Micro-averaged over labels; a label holds if any window shows it."},
        "map": {"metric": "map", "description": "Mean average precision of the ranked labels."},
    },
}
"""Protocols of the other kinds, as in shipped tasks; the first is the default."""


@dataclass(frozen=True)
class Discovery:
    """A card and the data it was made from."""

    card: TaskCard
    text: str
    plan: SplitPlan
    survey: Survey
    counts: dict[str, dict[str, Any]]
    problems: dict[str, dict[str, int]]


def check_card_path(path: Path, *, force: bool) -> None:
    """Reject a path where the card cannot be written."""
    if path.suffix != ".toml":
        raise OutputError("a card must be a .toml file", where=path, fix="Give --out a name that ends in .toml")
    if path.exists() and not force:
        raise OutputError("this file exists", where=path, fix="Choose another --out, or replace it with --force")


def discover(recipe: DiscoverRecipe) -> Discovery:
    """Make a card for the data in a folder."""
    with SourceTree.open(recipe.source) as tree:
        name = recipe.format or detect_format(tree, recipe.source, "--format")
        format_ = configure(get_format(name), recipe.options)
        plan = plan_splits(tree, format_)
        survey = Survey()
        for files in plan.names.values():
            for record in format_.read(tree.view({file: file for file in files}), problems=Problems()):
                survey.add(record)
        kind = _kind(recipe, survey)
        draft = _draft(recipe, kind, survey, plan, format_, {}, {})
        counts, problems = _try_card(_parse(draft, recipe.name), tree, recipe.source)
    text = _draft(recipe, kind, survey, plan, format_, counts, problems)
    return Discovery(_parse(text, recipe.name), text, plan, survey, counts, problems)


def _kind(recipe: DiscoverRecipe, survey: Survey) -> Kind:
    if not survey.records:
        raise InputError("no records found", where=recipe.source, fix="Check --format and the files")
    if 0 < survey.pairs < survey.records:
        problem = "single texts and pairs of texts are mixed"
        raise InputError(problem, where=recipe.source, fix="Make one task for each")
    richest = survey.kind(recipe.source)
    if recipe.kind is None:
        return richest
    if recipe.kind not in survey.possible():
        possible = ", ".join(survey.possible())
        raise RecipeError(
            f"the data does not fit a {recipe.kind} task", where=recipe.source, fix=f"Give --kind one of: {possible}"
        )
    return recipe.kind


def _parse(text: str, where: str) -> TaskCard:
    return make_card(tomllib.loads(text), where)


def _try_card(
    card: TaskCard, tree: SourceTree, where: Path
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, int]]]:
    """Read everything as `osler tasks prepare` would; return counts and defects by split."""
    tolerant = card.model_copy(update={"tolerated": get_args(Defect)})
    tallies = {split: RecordCounts(card.kind) for split in card.source.splits}
    reducer = RecordReducer(card)
    with open_source(tolerant, tree) as source:
        for split, record in source.records():
            tallies[split].add(reducer(record))
        problems: dict[str, dict[str, int]] = source.facts().get("problems", {})
    # The card states what `osler tasks check` compares, but the labels of a code system would fill pages.
    stated = set(ExpectedCounts.model_fields) - ({"labels"} if card.discover_labels else set())
    counts = {}
    for split in ("train", "dev", "test"):
        found = tallies[split].as_dict()
        if not found["documents"]:
            problem = f"the split {split!r} would be empty"
            raise InputError(problem, where=where, fix="Give more data, or put each split into its own folder")
        counts[split] = {key: value for key, value in found.items() if key in stated}
    return counts, problems


def _draft(
    recipe: DiscoverRecipe,
    kind: Kind,
    survey: Survey,
    plan: SplitPlan,
    format_: Format,
    counts: Mapping[str, Mapping[str, Any]],
    problems: Mapping[str, Mapping[str, int]],
) -> str:
    """Return the text of a card. Counts and known defects are empty until the card has been tried."""
    title = _TITLES[kind].format(unit="pair" if survey.pairs else "text")
    parts = [
        "# Your own task. Edit any value; `osler tasks check` compares the data with the counts at the end.\n",
        _toml(name=recipe.name, title=f"{title} in {recipe.name}", kind=kind.value),
    ]
    if survey.pairs:
        parts.append(_toml(record="pair"))
    parts.append(_entry(f"A guess: {survey.language}.", language=survey.language.language))
    parts.append(_entry("clinical or biomedical; for lists of tasks.", domain="clinical"))
    parts += _labels(kind, survey)
    if (source := survey.sentence_source()) != "split":
        comment = "Where sentences end: split (osler's splitter), lines, or meta (as the corpus says)."
        parts.append(_entry(comment, sentences=source))
    parts.append(_entry("For readers of your results.", licence="unknown", access="", citation=""))
    if problems:
        comment = "Defects found in the files and accepted; more of them is an error."
        parts.append(_entry(comment, known_problems=problems))
    if kind in _FAMILIES:
        family, default = _FAMILIES[kind]
        comment = f"The protocols of all shipped {kind} tasks (`osler tasks info` shows them); add your own below."
        parts.append(_entry(comment, protocol_family=family))
    else:
        default = next(iter(_PROTOCOLS[kind]))
    parts.append(_entry("The default protocol.", protocol=default))
    parts += _source(recipe, survey, plan, format_)
    parts += _protocols(kind, survey)
    if counts:
        parts += [_entry("Counts at the time this card was written."), tomli_w.dumps({"counts": counts})]
    return "".join(parts)


def _labels(kind: Kind, survey: Survey) -> list[str]:
    found = survey.task_labels(kind)
    parts: list[str] = []
    if len(found) > _MANY and kind is not Kind.RELATION:
        comment = f"There are {len(found):,} labels; they are read from the data at preparation."
        parts.append(_entry(comment, discover_labels=True))
    elif found:
        comment = 'Remove labels the model should not predict; `label_map = { old = "new" }` renames.'
        parts.append(_entry(comment, labels=sorted(found)))
    if kind is Kind.RELATION:
        pairs = [list(pair) for pair in sorted(survey.arguments)]
        parts.append(_entry("Labels of the head and tail mentions of relations, as found in the data.", pairs=pairs))
        comment = "The label for `no relation`; and whether head and tail are interchangeable."
        parts.append(_entry(comment, negative="none" if "false" in found else "false", symmetric=False))
    if kind is Kind.REGRESSION and survey.pairs:
        parts.append(_entry("Whether the two texts are interchangeable, as in similarity.", symmetric=True))
    return parts


def _protocols(kind: Kind, survey: Survey) -> list[str]:
    """Return the TOML lines of protocols that the card defines itself."""
    more: dict[str, str] = {}
    comment = "How results are scored: each number is printed with the name of its protocol."
    if kind is Kind.RELATION:
        more["candidates"] = survey.candidates()
        crossing = f"{survey.crossing:,} of {survey.relations.total():,} relations do"
        comment = f"`candidates`: sentence, or document if relations cross sentences ({crossing} here)."
    if kind is Kind.CLASSIFICATION and survey.unlabelled:
        more["records"] = "labelled"
        comment = f"{survey.unlabelled:,} records have no label and are not used."
    parts = []
    for number, (name, protocol) in enumerate(_PROTOCOLS.get(kind, {}).items()):
        parts += ["\n" if number else _entry(comment), f"[protocols.{_key(name)}]\n{_toml(**protocol, **more)}"]
    return parts


def _source(recipe: DiscoverRecipe, survey: Survey, plan: SplitPlan, format_: Format) -> list[str]:
    values = {name: getattr(format_, name) for name in recipe.options}
    options = {"options": values} if values else {}
    parts = [_entry(f"Where the records are. Splits were recognised by: {plan.how}."), "[source]\n"]
    parts.append(_toml(reader="files", format=format_.name, **options))
    for split in ("train", "dev", "test"):
        if split in plan.files:
            parts.append(f"\n[source.splits.{split}]\n" + _toml(files=list(plan.files[split])))
    for split in plan.carved:
        share = SHARES[split]
        parts.append(_entry(f"No {split} files found: {share:.0%} of train, drawn by a hash; groups stay together."))
        carve = {"of": "train", "share": share, "seed": 0, "by": survey.group()}
        parts.append(f"[source.splits.{split}]\n" + _toml(carve=carve))
    return parts


def _entry(comment: str, **values: Any) -> str:
    return f"\n# {comment}\n{_toml(**values)}"


def _toml(**values: Any) -> str:
    """Format plain values, lists and inline tables. tomli_w would expand inline tables and break lists over lines."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if not isinstance(value, list | tuple):
        return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
    items = [_value(item) for item in value]
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH:
        return line
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > _WIDTH:
            lines.append("")
        lines[-1] += f"{item}, "
    return "[\n" + "".join(f"    {line.rstrip()}\n" for line in lines) + "]"


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")
