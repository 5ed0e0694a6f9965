"""Kinds of PHI, their Safe Harbor categories, and the labels of known tasks for them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

from osler.metrics.deid import MAPS, PhiLabels, categories, phi_labels
from osler.tasks.card import Kind as TaskKind
from osler.tasks.card import TaskCard

DATA = resources.files("osler.stages.serve.deid").joinpath("data")
Scope = Literal["safe-harbor", "everything"]
OLDEST = 89
"""The highest age that Safe Harbor allows."""
_NUMBER = re.compile(r"\d+")


class PhiFinding(NamedTuple):
    """A passage to replace: its offsets, its kind, and what found it."""

    start: int
    end: int
    kind: str
    by: str = "rule"
    """`rule`, or the name of a head."""


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(DATA.joinpath("kinds.toml").read_text("utf-8"))


def kinds() -> dict[str, str]:
    """Safe Harbor category of each kind."""
    return {name: values["category"] for name, values in _tables()["kinds"].items()}


def category_title(kind: str) -> str:
    """The title of a kind's Safe Harbor category."""
    return categories()[kinds()[kind]]


@cache
def kind_of(label: str, phi: str | None = None) -> str:
    """Kind of PHI for a label. `phi` names the label map of the task, which is used for labels not known here."""
    tables = _tables()
    if label in tables["kinds"]:
        return label
    if label in tables["labels"]:
        return str(tables["labels"][label])
    category = phi_labels(phi).safe_harbor.get(label) if phi else None
    return next((kind for kind, own in kinds().items() if own == category), "ID")


def is_removed(kind: str, text: str, scope: Scope) -> bool:
    """Whether a finding with this kind and text is removed under a scope."""
    if scope == "everything":
        return True
    if kind == "AGE":
        # An age without digits, such as one in words, cannot be checked: remove it.
        numbers = [int(number) for number in _NUMBER.findall(text)]
        return not numbers or max(numbers) > OLDEST
    return bool(_tables()["kinds"][kind].get("beyond") != "everything")


def phi_map(card: TaskCard) -> str | None:
    """Label map of a de-identification task: the card's own, or the known one that has all of its labels."""
    if card.phi or card.kind is not TaskKind.TAGGING:
        return card.phi
    labels = set(card.labels)
    named = {label for label in labels if kind_of(label) == "NAME"}
    fits = (name for name in MAPS if named and labels <= _all_labels(name))
    return next(fits, None)


@cache
def _all_labels(name: str) -> frozenset[str]:
    known: PhiLabels = phi_labels(name)
    return frozenset({*known.safe_harbor, *known.beyond})


def united(findings: Iterable[PhiFinding]) -> list[PhiFinding]:
    """Merge findings into disjoint passages in text order that cover every character of every finding.

    Overlapping findings become one, with the kind of the longest. Among findings of the same length, the first one from a head
    wins. A name found by the rules stays a name if it is at least half of the passage, whatever heads call it: rules only find
    names that have a title, a label or a frequent given name, and a name must get the same surrogate wherever it occurs.
    """
    pieces: list[list[PhiFinding]] = []
    end = -1
    for finding in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if finding.start < end:
            pieces[-1].append(finding)
        else:
            pieces.append([finding])
        end = max(end, finding.end)
    return [_one(group) for group in pieces]


def _one(group: Sequence[PhiFinding]) -> PhiFinding:
    def rank(finding: PhiFinding) -> tuple[int, bool, int]:
        return finding.start - finding.end, finding.by == "rule", finding.start

    start, end = group[0].start, max(finding.end for finding in group)
    best = min(group, key=rank)
    by_rule = min((finding for finding in group if finding.by == "rule"), key=rank, default=best)
    named = by_rule.kind == "NAME" and 2 * (by_rule.end - by_rule.start) >= end - start
    return PhiFinding(start, end, "NAME" if named else best.kind, best.by)
