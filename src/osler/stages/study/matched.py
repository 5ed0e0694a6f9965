"""Single-task baselines of matched length: a task trained alone for as many steps as a joint run spent on it.

A recipe asks for them with `twins = "updates"`; in files their mode is "twin".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from osler.artifacts.run import RunSpec, RunTraining, is_trained


@dataclass(frozen=True)
class MatchedLength:
    """Training steps of a run, and the steps between evaluations on dev."""

    steps: int
    eval_every: int


def matched_length(joint: RunTraining, task: str) -> MatchedLength:
    """Return the steps that a joint run spent on a task, with as many evaluations as the joint run had."""
    steps = joint.steps_on(task)
    return MatchedLength(steps, max(1, joint.eval_every * steps // max(1, joint.steps)))


def same_length(joint: RunTraining, alone: RunTraining, task: str) -> bool:
    """Whether a finished run of the task alone already has this length, so the baseline would only repeat it."""
    wanted = matched_length(joint, task)
    if not wanted.steps == alone.steps_on(task) == alone.steps == alone.planned_steps:
        return False
    each_epoch = joint.train.get("eval_every") is None and alone.train.get("eval_every") is None
    same_epochs = each_epoch and joint.recipe["epochs"] == alone.recipe["epochs"]
    return same_epochs or alone.eval_every == wanted.eval_every


def run_folder(store: Path, key: str, spec: RunSpec) -> Path:
    """Return the folder of a run. A baseline that would only repeat the plain run of its task shares that run's folder."""
    own = store / key
    if spec.equal_to is None or spec.alone is None or is_trained(own):
        return own
    joint, alone = store / spec.equal_to, store / spec.alone
    if not (is_trained(joint) and is_trained(alone)):
        return own
    return alone if same_length(RunTraining.read(joint), RunTraining.read(alone), spec.columns[0]) else own
