"""Cross-corpus scores: runs scored on another task's split, without further training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from osler.artifacts.evaluation import Evaluation
from osler.artifacts.run import AcrossTask, Run
from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError
from osler.metrics.significance import PairedComparison, Summary, paired_bootstrap, summarise
from osler.tasks.card import Kind, Protocol
from osler.tasks.leakage import copied_from
from osler.tasks.scoring import Scored, score
from osler.text.document import Record

Across = Mapping[str, tuple[AcrossTask, ...]]
"""By training column, the tasks that its chosen runs are also scored on."""


def across_tasks(
    asked: Mapping[str, Sequence[str]], protocols: Mapping[str, str], columns: Mapping[str, Sequence[TaskFolder]]
) -> Across:
    """Resolve the tasks of a recipe's `across`, or raise an error if one cannot be scored. All names are columns."""
    return {
        name: tuple(_across_task(name, other, protocols, columns) for other in others) for name, others in asked.items()
    }


def _across_task(
    name: str, other: str, named: Mapping[str, str], columns: Mapping[str, Sequence[TaskFolder]]
) -> AcrossTask:
    for column in (name, other):
        kind = columns[column][0].card.kind
        if kind is not Kind.TAGGING:
            raise RecipeError(
                f"across.{name}: {column} is a {kind} task, and only taggers are scored on other corpora",
                fix=f"Remove {column} from across",
            )
        if len(columns[column]) > 1:
            raise RecipeError(
                f"across.{name}: {column} is cross-validated, and scores on other corpora need a single test split",
                fix=f"Remove {column} from across",
            )
    one, two = columns[name][0], columns[other][0]
    protocols = [task.card.protocol_named(named.get(column)) for task, column in ((one, name), (two, other))]
    differing = protocols[0].training_differences(protocols[1])
    if differing:
        raise RecipeError(
            f"across.{name}: the protocols of {name} and {other} differ in {', '.join(differing)}, so a head trained under "
            "the first cannot be scored under the second",
            fix=f"Choose protocols that agree in `protocols`, or remove {other} from across.{name}",
        )
    own, wanted = one.card.under(protocols[0]).labels, two.card.under(protocols[1]).labels
    if set(own) != set(wanted) and (len(own) > 1 or len(wanted) > 1):
        raise RecipeError(
            f"across.{name}: the labels of {name} ({', '.join(own)}) and of {other} ({', '.join(wanted)}) differ, and more than "
            "one leaves open which are the same",
            fix=f"Remove {other} from across.{name}, and score a bundle with osler evaluate --label HEAD=TASK",
        )
    return AcrossTask(
        head=one.card.name,
        column=other,
        task=two.artifact.path,
        digest=two.artifact.manifest.digest,
        protocol=named.get(other) or two.card.protocol,
        label_map=() if set(own) == set(wanted) else ((own[0], wanted[0]),),
    )


@dataclass(frozen=True)
class AcrossCell:
    """All chosen runs of one model on one task, scored on another task, next to the same model trained on that task."""

    row: str
    trained_on: str
    tested_on: str
    protocol: str
    metric: str
    documents: int
    """Number of documents scored."""
    left_out: int
    """Documents that are not scored, because the training task has a copy of them in its training or dev data."""
    scores: tuple[float, ...]
    """One score per seed; empty if all documents are left out."""
    in_corpus: tuple[float, ...]
    """Scores of the model trained on the test task, on the same documents, one per seed."""
    comparison: PairedComparison | None
    """Across minus in-corpus; None if either is missing or the metric cannot be decomposed by document."""

    @property
    def summary(self) -> Summary | None:
        return summarise(self.scores) if self.scores else None

    @property
    def in_corpus_summary(self) -> Summary | None:
        return summarise(self.in_corpus) if self.in_corpus else None

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {"model": values.pop("row"), **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AcrossCell:
        values = dict(values)
        row, found = values.pop("model"), values["comparison"]
        read = {"row": row, "scores": tuple(values["scores"]), "in_corpus": tuple(values["in_corpus"])}
        return cls(**{**values, **read, "comparison": PairedComparison(**found) if found else None})


def gather_across(finished: Sequence[Run], across: Across, resamples: int) -> tuple[AcrossCell, ...]:
    """Score the stored predictions of the chosen runs on other tasks, by pair of tasks, with models in run order."""
    chosen: dict[tuple[str, str], list[Run]] = {}
    for run in finished:
        spec = run.spec
        if run.chosen and spec.is_plain:
            chosen.setdefault((spec.row, spec.columns[0]), []).append(run)
    cells = []
    for name, targets in across.items():
        for target in targets:
            split: _ScoredSplit | None = None
            for row in dict.fromkeys(row for row, column in chosen if column == name):
                runs = [run for run in chosen[row, name] if target.is_scored(run.folder)]
                if runs:
                    split = split or _ScoredSplit.read(runs[0], target)
                    own = chosen.get((row, target.column), [])
                    cells.append(_cell(row, name, target, split, (runs, own), resamples))
    return tuple(cells)


@dataclass(frozen=True)
class _ScoredSplit:
    """A task's split without the documents that another task trains on."""

    task: TaskFolder
    protocol: Protocol
    records: list[Record]
    kept: list[bool]
    """Whether to score each document of the split."""

    @classmethod
    def read(cls, run: Run, target: AcrossTask) -> _ScoredSplit:
        task, own = TaskFolder.open(target.task), TaskFolder.open(run.spec.tasks[0])
        protocol = task.card.protocol_named(target.protocol)
        # Dev chooses the epoch and the settings, so the run knows its documents too. Both protocols train on the same
        # splits, as `training_differences` ensures.
        known = [name for name in own.splits if name in (*protocol.train_on, "dev")]
        records = task.read(run.spec.split)
        copied = copied_from((record for name in known for record in own.read(name)), records)
        return cls(task, protocol, records, [not found for found in copied])

    def score(self, folder: Path) -> Scored:
        """Score the predictions of an evaluation."""
        pairs = zip(self.records, Evaluation.read_predictions(folder), self.kept, strict=True)
        gold, predicted = zip(*((want, have) for want, have, kept in pairs if kept), strict=True)
        return score(self.task.card, self.protocol, gold, predicted, main_only=True)


def _cell(
    row: str,
    name: str,
    target: AcrossTask,
    split: _ScoredSplit,
    runs: tuple[Sequence[Run], Sequence[Run]],
    resamples: int,
) -> AcrossCell:
    """Build the cell of a model from its runs on the training task and on the test task."""
    across = [target.evaluation(run.folder) for run in runs[0]]
    own = [run.evaluation(target.column) for run in runs[1] if run.metrics(target.column)]
    metrics = Evaluation.read_metrics(across[0])
    assert metrics is not None
    scored = [[split.score(folder) for folder in side] if any(split.kept) else [] for side in (across, own)]
    sides = [[one.decomposed for one in side if one.decomposed is not None] for side in scored]
    return AcrossCell(
        row=row,
        trained_on=name,
        tested_on=target.column,
        protocol=metrics.protocol,
        metric=metrics.metric,
        documents=sum(split.kept),
        left_out=split.kept.count(False),
        scores=tuple(one.main for one in scored[0]),
        in_corpus=tuple(one.main for one in scored[1]),
        comparison=paired_bootstrap(*sides, resamples=resamples) if all(sides) else None,
    )
