"""Soft labels: a fine-tuned bundle's outputs on the training instances, computed once before training.

A teacher in evaluation mode gives the same outputs in every epoch, so one pass is enough. It is freed before the student trains, and
never enters an optimiser or a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from osler.artifacts.bundle import Bundle
from osler.artifacts.runner import run_heads
from osler.core.errors import ArtifactError, RecipeError
from osler.core.logs import get_logger
from osler.stages.finetune.batches import TaskInstances
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.instances.base import Instance
from osler.text.document import Record
from osler.train.precision import choose_device

log = get_logger("osler.finetune")


def with_soft_labels(
    recipe: FinetuneRecipe,
    student: Bundle,
    data: Mapping[str, TaskInstances],
    records: Mapping[str, Sequence[Record]],
) -> dict[str, TaskInstances]:
    """Add the teacher's outputs to the training instances of every task."""
    assert recipe.teacher is not None
    folder = recipe.teacher.bundle
    device = choose_device(recipe.train.device, int(os.environ.get("LOCAL_RANK", "0")))
    teacher = Bundle.load(folder, str(device))
    found = {}
    for name, task in data.items():
        theirs, ours = teacher.model.specs[name], student.model.specs[name]
        if (theirs.kind, theirs.labels) != (ours.kind, ours.labels):
            raise ArtifactError(
                f"the outputs of the teacher's head {name} differ from the student's in kind, number or order: "
                f"{theirs.kind} of {theirs.num_labels}, not {ours.kind} of {ours.num_labels}",
                where=folder,
                fix="Give a teacher that was trained on this task with the same card and protocol",
            )
        instances = _instances_for(name, teacher, student, task, records[name], folder)
        found[name] = replace(task, soft=run_heads(teacher.model, instances, [name])[name])
        log.event("finetune.soft_labels", task=name, instances=len(instances))
    return found


def _instances_for(
    name: str, teacher: Bundle, student: Bundle, task: TaskInstances, records: Sequence[Record], folder: Path
) -> list[Instance]:
    """Return the student's instances if the teacher can read them, else matching ones built by the teacher."""
    vocabularies = [bundle.tokens.tokenizer.get_vocab(with_added_tokens=True) for bundle in (teacher, student)]
    fits = {
        "tokenizer": vocabularies[0] == vocabularies[1],
        "protocol": teacher.spec.heads[name].protocol == student.spec.heads[name].protocol,
        "max_length": teacher.model.encoder.max_length >= student.spec.max_length,
    }
    if all(fits.values()):
        return task.instances
    if student.model.head(name).level == "token":
        # A tagger's soft labels belong to sub-words, so they need the same sub-words, windows and tags.
        differing = next(what for what, same in fits.items() if not same)
        raise RecipeError(
            f"the teacher of {name} does not share the student's {differing}",
            where=folder,
            fix="The teacher of a tagging head must have its tokenizer, its protocol and at least its max_length",
        )
    instances = teacher.builders[name].build(records, gold=True).instances
    if [instance.record for instance in instances] != [instance.record for instance in task.instances]:
        raise RecipeError(
            f"the teacher cuts the documents of {name} into other windows than the student",
            where=folder,
            fix=f"Set max_length and overlap to the teacher's, {teacher.spec.max_length} and {teacher.spec.overlap}, "
            "or use a teacher with the student's tokenizer",
        )
    return instances
