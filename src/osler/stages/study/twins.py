"""Single-task twins at equal updates: how long a task must be learned alone to compare with a run that taught several.

How many batches of a task a joint run was given depends on the data, the batch sizes, the mixing, what was removed as a leak and
when dev stopped it. The joint run has counted them, so a twin begins when that run is done and is told the number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.stages.study.spec import RunSpec
from osler.stages.study.status import is_trained


@dataclass(frozen=True)
class Updates:
    """How long a run trains, and how often it looks at dev."""

    steps: int
    eval_every: int


def updates_of(joint: Path, task: str) -> Updates:
    """The updates that a joint run gave a task, with dev looked at as often over their course as the joint run did."""
    made = _Made.read(joint)
    steps = made.trained(task)
    return Updates(steps, max(1, made.eval_every * steps // max(1, made.steps)))


def same_length(joint: Path, alone: Path, task: str) -> bool:
    """Whether a finished run of the task alone has these updates already, so that a twin would be that run once more."""
    one, two = _Made.read(joint), _Made.read(alone)
    wanted = updates_of(joint, task)
    if not wanted.steps == two.trained(task) == two.steps == two.planned:
        return False
    each_epoch = one.looks_each_epoch and two.looks_each_epoch and one.epochs == two.epochs
    return each_epoch or two.eval_every == wanted.eval_every


def folder_of(store: Path, key: str, spec: RunSpec) -> Path:
    """Where a run's files are: its own folder, or of a twin that needs no run of its own that of the run which has its updates."""
    own = store / key
    if spec.equal_to is None or spec.alone is None or is_trained(own):
        return own
    joint, alone = store / spec.equal_to, store / spec.alone
    whole = is_trained(joint) and is_trained(alone)
    return alone if whole and same_length(joint, alone, spec.columns[0]) else own


@dataclass(frozen=True)
class _Made:
    """What the manifest of a fine-tuned run says of its length."""

    counts: dict[str, Any]
    recipe: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> _Made:
        manifest = json.loads((folder / "bundle" / "manifest.json").read_text(encoding="utf-8"))
        return cls(manifest["counts"], manifest["recipe"])

    @property
    def epochs(self) -> int:
        return int(self.recipe["epochs"])

    @property
    def steps(self) -> int:
        return int(self.counts["steps"])

    @property
    def planned(self) -> int | None:
        """The updates its schedule was made for; they are more than it did where dev stopped it. None under a budget of time."""
        train = self.recipe.get("train", {})
        if train.get("budget"):
            return None
        batches = sum(sum(epoch.values()) for epoch in self.counts["batches_by_epoch"])
        return int(train.get("steps") or batches)

    @property
    def looks_each_epoch(self) -> bool:
        return self.recipe.get("train", {}).get("eval_every") is None

    @property
    def eval_every(self) -> int:
        """Updates from one look at dev to the next, as fine-tuning has it."""
        batches = sum(sum(epoch.values()) for epoch in self.counts["batches_by_epoch"])
        return int(self.recipe.get("train", {}).get("eval_every") or max(1, batches // self.epochs))

    def trained(self, task: str) -> int:
        return int(self.counts["batches_trained"].get(task, 0))
