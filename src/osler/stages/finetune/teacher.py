"""Soft labels: what a fine-tuned bundle says of the training instances, read once before training.

A teacher in evaluation mode says the same of an instance in every epoch, so one pass over the training data serves them all. The
teacher is gone before the student trains: it is in no optimiser and no checkpoint, and takes no memory beside the student.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from osler.artifacts.bundle import FILE, Bundle, BundleSpec, run_heads
from osler.core.errors import ArtifactError, RecipeError
from osler.core.files import fingerprint
from osler.core.logs import get_logger
from osler.nn.folders import check, model_digest
from osler.stages.finetune.batches import TaskInstances
from osler.stages.finetune.config import FinetuneRecipe, TaskTeacher
from osler.tasks.card import Kind
from osler.tasks.instances.base import Instance
from osler.text.document import Record
from osler.train.precision import choose_device

log = get_logger("osler.finetune")


def check_teacher(settings: TaskTeacher, tasks: Sequence[str]) -> None:
    """Refuse a teacher that has no head for a task, or one whose scores are no soft labels."""
    folder = settings.bundle
    heads = BundleSpec.load(folder).heads
    missing = [name for name in tasks if name not in heads]
    if missing:
        raise RecipeError(
            f"the teacher has no head for {', '.join(missing)}",
            where=folder,
            fix=f"Give a teacher that was taught the same tasks. Its heads: {', '.join(heads)}",
        )
    for name in tasks:
        if heads[name].card.kind is Kind.TAGGING and heads[name].options.tagger == "crf":
            raise RecipeError(
                f"the teacher tags {name} by a chain, which has no soft label for a word alone",
                where=folder,
                fix='Give a teacher that was taught without tagger = "crf"',
            )


def teacher_digest(settings: TaskTeacher) -> str:
    """The digest of the teacher's weights, vocabulary and cards."""
    folder = settings.bundle
    return f"{model_digest(check(folder))}-{fingerprint([folder / 'heads.json', folder / FILE])}"


def soft_labels(
    recipe: FinetuneRecipe,
    settings: TaskTeacher,
    student: Bundle,
    data: Mapping[str, TaskInstances],
    records: Mapping[str, Sequence[Record]],
) -> dict[str, list[np.ndarray]]:
    """The teacher's outputs for every training instance of every task, in the order of the instances."""
    device = choose_device(recipe.train.device, int(os.environ.get("LOCAL_RANK", "0")))
    teacher = Bundle.load(settings.bundle, str(device))
    one_vocabulary = _numbers(teacher) == _numbers(student)
    found = {}
    for name, task in data.items():
        _check_outputs(name, teacher, student, settings.bundle)
        instances = _for_teacher(name, teacher, student, task, records[name], one_vocabulary, settings.bundle)
        found[name] = run_heads(teacher.model, instances, [name])[name]
        log.event("finetune.soft_labels", task=name, instances=len(instances))
    return found


def _for_teacher(
    name: str,
    teacher: Bundle,
    student: Bundle,
    task: TaskInstances,
    records: Sequence[Record],
    one_vocabulary: bool,
    folder: Path,
) -> list[Instance]:
    """The student's own instances where the teacher can read them, else the teacher's, one for each of the student's."""
    same_protocol = teacher.spec.heads[name].protocol == student.spec.heads[name].protocol
    fits = teacher.model.encoder.max_length >= student.spec.max_length
    if one_vocabulary and same_protocol and fits:
        return task.instances
    if student.model.head(name).level == "token":
        # Soft labels of a tagger belong to sub-words: other sub-words, other windows or other tags are other labels.
        raise RecipeError(
            f"the teacher of {name} does not share the student's "
            + ("tokenizer" if not one_vocabulary else "protocol" if not same_protocol else "max_length"),
            where=folder,
            fix="A tagging head learns only from a teacher with its tokenizer, its protocol and at least its max_length",
        )
    instances = teacher.builders[name].build(records, gold=True).instances
    if [instance.record for instance in instances] != [instance.record for instance in task.instances]:
        raise RecipeError(
            f"the teacher cuts the records of {name} into other pieces than the student",
            where=folder,
            fix=f"Set max_length and overlap to the teacher's, {teacher.spec.max_length} and {teacher.spec.overlap}, "
            "or use a teacher with the student's tokenizer",
        )
    return instances


def _check_outputs(name: str, teacher: Bundle, student: Bundle, folder: Path) -> None:
    theirs, ours = teacher.model.specs[name], student.model.specs[name]
    if (theirs.kind, theirs.labels) != (ours.kind, ours.labels):
        raise ArtifactError(
            f"the teacher's head {name} has other outputs than the student's "
            f"({theirs.kind} of {theirs.num_labels} against {ours.kind} of {ours.num_labels}, or in another order)",
            where=folder,
            fix="Give a teacher that was taught this task from the same card and protocol",
        )


def _numbers(bundle: Bundle) -> dict[str, int]:
    return dict(bundle.tokens.tokenizer.get_vocab(with_added_tokens=True))
