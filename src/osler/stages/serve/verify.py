"""Compare an export with the bundle it was made from: outputs and predictions on built-in texts, scores on dev splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import ArtifactError, RecipeError
from osler.tasks.instances.base import Instance, document_windows
from osler.tasks.scoring import score
from osler.text.document import Document, Record, TextPair

SAMPLE_TEXTS = (
    "CHIEF COMPLAINT: chest pain. 61-year-old man, seen on 12/03/2021 by Dr. Ellen Price, denies fever and cough.",
    "Metformin 500 mg twice daily was stopped because of nausea; creatinine 1.4 mg/dL, HbA1c 8.2 %.",
    "Paciente de 45 años con dolor abdominal. Se inicia omeprazol 20 mg cada 24 horas. No refiere alergias.",
    "Le patient présente une dyspnée d'effort. Pas de fièvre. Traitement : furosémide 40 mg, à revoir le 3 mai.",
    "Loss of BRCA1 in HeLa cells increased apoptosis after cisplatin (p < 0.01), as in Li-Fraumeni syndrome.",
    "Impression:\n1. Type 2 diabetes, aspirin 81mg\n2. T 38.2°C\n\nSeen at St. Mary's (Beta-thalassaemia, IL-2).",
    "Sleep apnoea?",
    "",
)
"""Invented texts on which predictions are compared."""


@dataclass(frozen=True)
class DevScore:
    """The main metric of one task on its dev split, in points: of the bundle, and of the export."""

    task: str
    metric: str
    records: int
    bundle: float
    export: float

    @property
    def change(self) -> float:
        return self.export - self.bundle


def open_tasks(paths: Sequence[Path], spec: BundleSpec) -> list[TaskFolder]:
    """Open task folders, each with a dev split and a head that was trained on it."""
    tasks = [TaskFolder.open(path) for path in paths]
    for path, task in zip(paths, tasks, strict=True):
        if task.card.name not in spec.tasks:
            raise RecipeError(
                f"no head was trained on {task.card.name}", where=path, fix=f"Tasks: {', '.join(spec.tasks)}"
            )
        if "dev" not in task.splits:
            raise ArtifactError(
                "there is no dev split to compare on", where=path, fix="Prepare the task with a dev split"
            )
    return tasks


def dev_score(task: TaskFolder, bundle: Bundle, export: Bundle) -> DevScore:
    """Score a bundle and its export on the dev split of a task, under the protocol it was trained with."""
    gold = task.read("dev")
    trained = bundle.spec.tasks[task.card.name]
    protocol = task.card.protocol_named(trained.protocol)

    def points(side: Bundle) -> float:
        predicted = side.predict(trained.head, gold, task=task.card)
        return 100.0 * score(task.card, protocol, gold, predicted, main_only=True).main

    return DevScore(task.card.name, protocol.metric, len(gold), points(bundle), points(export))


@dataclass(frozen=True)
class Agreement:
    """How closely an export matches its bundle on built-in texts."""

    difference: float
    """Largest difference between two logits."""
    scale: float
    """Largest logit of the bundle."""
    same: int
    """Predictions (spans and labels) that both make."""
    either: int
    """Predictions that at least one of them makes."""

    @property
    def share(self) -> float:
        """Share of all predictions that both make; 1 if there are none."""
        return self.same / self.either if self.either else 1.0


def agreement(bundle: Bundle, export: Bundle) -> Agreement:
    """Run both on the same texts, in batches of mixed lengths."""
    instances = _instances(bundle)
    heads = list(bundle.spec.heads)
    wanted, found = (side.runner.outputs(instances, heads) for side in (bundle, export))
    pairs = [(a, b) for name in heads for a, b in zip(wanted[name], found[name], strict=True)]
    ours, theirs = (_predictions(side) for side in (bundle, export))
    return Agreement(
        difference=max(float(np.abs(a - b).max()) for a, b in pairs),
        scale=max(float(np.abs(a).max()) for a, _ in pairs),
        same=len(ours & theirs),
        either=len(ours | theirs),
    )


def _documents(bundle: Bundle) -> list[Document]:
    """Return the texts, and one that is longer than a window."""
    times = 2 + bundle.spec.max_length // 100
    return [Document(str(number), text) for number, text in enumerate((*SAMPLE_TEXTS, " ".join(SAMPLE_TEXTS * times)))]


def _instances(bundle: Bundle) -> list[Instance]:
    """Return windows of the texts, with segments and marks for the heads that read them."""
    windows = document_windows(bundle.tokens, _documents(bundle), bundle.spec.max_length, bundle.spec.overlap)
    made = []
    for window in windows:
        types = (np.arange(window.length) > window.length // 2).astype(np.int64)
        made.append(replace(window, types=types, marks=(window.length // 3, window.length - 1)))
    return made


def _predictions(bundle: Bundle) -> set[object]:
    """Everything that the heads find in the texts, and in pairs of them."""
    spec = bundle.spec
    records: list[Record] = []
    if names := spec.heads_for("document"):
        records += bundle.annotate(_documents(bundle), names)
    if names := spec.heads_for("pair"):
        records += bundle.compare([TextPair(f"p{n}", *two) for n, two in enumerate(pairwise(SAMPLE_TEXTS))], names)
    found: set[object] = set()
    for record in records:
        found.update((record.id, label) for label in record.labels)
        if isinstance(record, Document):
            found.update((record.id, span.key) for span in record.spans)
            found.update((record.id, relation.key) for relation in record.relations)
    return found
