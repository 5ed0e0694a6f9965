"""Training batches of one or many tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from osler.artifacts.bundle import pack_instances
from osler.core.seeding import derive
from osler.nn.multihead import MultiHeadModel, Partial
from osler.nn.packing import Packed
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.instances.base import IGNORED, Builder, Instance
from osler.text.document import Record
from osler.train.mixing import Turn, mix
from osler.train.source import Batch, EpochSource, packed_batches, padded_batches


def share(records: Sequence[Record], fraction: float, seed: int) -> list[Record]:
    """So many of the records, at least one, in their own order.

    They are drawn by a hash of seed and id, not by place: tasks over the same documents draw the same ones.
    """
    if fraction >= 1.0:
        return list(records)
    drawn = sorted(range(len(records)), key=lambda place: (derive(seed, "fraction", records[place].id), place))
    kept = set(drawn[: max(1, round(fraction * len(records)))])
    return [record for place, record in enumerate(records) if place in kept]


class ClassWeights:
    """What each answer counts: a weight for each label, or two for each label that may be there or not."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = torch.from_numpy(weights.astype(np.float32))

    def of(self, targets: Tensor) -> Tensor:
        """The weight of every answer of a batch: [T] or [N] for one label of many, [N, L] for any number of labels."""
        if self.weights.ndim == 1:
            return self.weights[targets.clamp(min=0)]
        present = torch.nan_to_num(targets)
        return present * self.weights[:, 1] + (1.0 - present) * self.weights[:, 0]


def balanced(instances: Sequence[Instance], outputs: int) -> ClassWeights | None:
    """The weights for these training instances; None where the target is a number, which has no frequency."""
    first = instances[0].target
    if isinstance(first, float):
        return None
    if isinstance(first, np.ndarray) and first.dtype == np.float32:
        rows = np.stack([instance.target for instance in instances])
        yes = (rows == 1.0).sum(axis=0)
        no = (rows == 0.0).sum(axis=0)
        return ClassWeights(np.stack([_inverse(pair) for pair in np.stack([no, yes], axis=1)]))
    targets = np.concatenate([np.atleast_1d(instance.target) for instance in instances])
    return ClassWeights(_inverse(np.bincount(targets[targets != IGNORED], minlength=outputs)))


def _inverse(counts: np.ndarray) -> np.ndarray:
    """N / (K n) for each count n; 1 for what never occurs and so never weighs."""
    present = counts > 0
    balanced = counts.sum() / (max(1, present.sum()) * np.maximum(counts, 1))
    return np.asarray(np.where(present, balanced, 1.0))


@dataclass(frozen=True)
class TaskBatch:
    """A packed batch, the head it teaches, that head's targets, and a teacher's outputs where there is one."""

    head: str
    batch: Packed
    targets: torch.Tensor
    soft: torch.Tensor | None = None
    task: str = ""
    """The task, where the head is not named like it."""
    partial: Partial | None = None
    """Which types of a joint head the task annotates; its targets are then among its own tags."""
    scale: torch.Tensor | None = None
    """What the summed loss is multiplied with; 1 when left out."""
    weights: torch.Tensor | None = None
    """What each answer counts by its class; all the same when left out."""
    repeatable: bool = False
    """Whether it was filled up to one of few shapes, so that a recorded pass can be replayed on it."""


@dataclass(frozen=True)
class TaskInstances:
    """The training instances of one task, its builder, and what of its gold they cannot carry."""

    builder: Builder
    instances: list[Instance]
    unexpressed: Counter[str]
    head: str = ""
    """The head that learns them, where it is not named like the task."""
    partial: Partial | None = None
    class_weights: ClassWeights | None = None


class Lane(ABC):
    """One task's way into the mix: its batches in every epoch, each a pure function of seed and epoch."""

    loss_weight: float = 1.0
    turns_fixed: bool = False
    """Whether each of its batches has one turn, whatever the mixing: where the recipe says how many there are in an epoch."""

    @abstractmethod
    def cut(self, epoch: int) -> Sequence[tuple[int, ...]]:
        """The batches of an epoch, as the numbers of what they hold."""

    @abstractmethod
    def labels(self, items: tuple[int, ...]) -> float:
        """How many labels a batch carries."""

    @abstractmethod
    def load(self, items: tuple[int, ...], scale: float) -> tuple[Any, int]:
        """What the objective is called with, its loss to be multiplied with `scale`, and the number of its tokens."""


@dataclass(frozen=True)
class _Ref:
    """One micro-batch: a task, the numbers of its instances, and the factor of its loss in its update."""

    task: str
    indices: tuple[int, ...]
    scale: float = 1.0


class TaskBatches:
    """Makes the batches of every epoch, each a pure function of seed and epoch, and counts the turns of each task."""

    def __init__(
        self,
        recipe: FinetuneRecipe,
        model: MultiHeadModel,
        tasks: Mapping[str, TaskInstances],
        soft: Mapping[str, Sequence[np.ndarray]] | None = None,
        more: Mapping[str, Lane] | None = None,
    ) -> None:
        self.recipe = recipe
        soft = soft or {}
        self.lanes: dict[str, Lane] = {
            name: _TaskLane(name, task, recipe, model, soft.get(name)) for name, task in tasks.items()
        }
        self.lanes |= more or {}
        self.counts: dict[int, dict[str, int]] = {}
        """By epoch, how many batches of each task; filled as epochs are asked for."""

    def source(self) -> EpochSource:
        """The batches as the loop takes them."""
        return EpochSource(self.order, self.load, epochs=self.recipe.epochs, accumulate=self.recipe.accumulate)

    def order(self, epoch: int) -> Sequence[_Ref]:
        """The micro-batches of an epoch, in order, cut anew."""
        batches = {name: lane.cut(epoch) for name, lane in self.lanes.items()}
        fixed = {name for name, lane in self.lanes.items() if lane.turns_fixed}
        turns = mix(
            self.recipe.mixing.order,
            {name: len(items) for name, items in batches.items() if name not in fixed},
            self.recipe.train.seed,
            epoch,
            heat=self.recipe.mixing.temperature,
            epochs=self.recipe.epochs,
        )
        order = turns.order
        for name in fixed:
            order = _spread(order, [(name, number) for number in range(len(batches[name]))])
        self.counts[epoch] = turns.counts | {name: len(batches[name]) for name in fixed}
        refs = [_Ref(name, tuple(batches[name][number])) for name, number in order]
        size = self.recipe.accumulate
        return [ref for start in range(0, len(refs), size) for ref in self._weighed(refs[start : start + size])]

    def turns(self) -> dict[str, int]:
        """How many batches of each task the first epoch holds."""
        self.order(0)
        return dict(self.counts[0])

    def load(self, ref: _Ref) -> Batch:
        """Pack the instances of one micro-batch."""
        lane = self.lanes[ref.task]
        payload, tokens = lane.load(ref.indices, ref.scale)
        return Batch(payload, lane.labels(ref.indices), tokens)

    def _weighed(self, update: Sequence[_Ref]) -> list[_Ref]:
        """The micro-batches of one update with their factors.

        The loop divides the sum of all losses by the number of all labels; the factor takes that back and divides the losses of
        each task by the number of its own.
        """
        labels = [self.lanes[ref.task].labels(ref.indices) for ref in update]
        own: Counter[str] = Counter()
        for ref, count in zip(update, labels, strict=True):
            own[ref.task] += count  # type: ignore[assignment]  # labels may be weighed, so they are no whole numbers
        turns = Counter(ref.task for ref in update)
        factors = {
            name: self.lanes[name].loss_weight
            * (turns[name] / len(update))
            * (sum(labels) / own[name] if own[name] else 0)
            for name in turns
        }
        return [replace(ref, scale=factors[ref.task]) for ref in update]


def _spread(order: Sequence[Turn], more: Sequence[Turn]) -> tuple[Turn, ...]:
    """Turns with others put evenly between them, both in their own order."""
    places = [(place + 0.5) / len(items) for items in (order, more) for place in range(len(items))]
    both = [*order, *more]
    return tuple(both[number] for number in sorted(range(len(both)), key=places.__getitem__))


class _TaskLane(Lane):
    """A task with instances: batches under a budget of tokens."""

    def __init__(
        self,
        name: str,
        task: TaskInstances,
        recipe: FinetuneRecipe,
        model: MultiHeadModel,
        soft: Sequence[np.ndarray] | None,
    ) -> None:
        self.name = name
        self.task = task
        self.recipe = recipe
        self.model = model
        self.soft = soft
        self.head = task.head or name
        self.loss_weight = recipe.mixing.loss_weights.get(name, 1.0)
        self._size = recipe.mixing.batch_sizes.get(name, recipe.batch_size)
        self._lengths = [instance.length for instance in task.instances]
        self._longest = max(self._lengths)
        self._labels = [task.builder.weight(instance) for instance in task.instances]

    def cut(self, epoch: int) -> Sequence[tuple[int, ...]]:
        """Every instance once."""
        cut = packed_batches if self.model.encoder.mode == "packed" else padded_batches
        batches = cut(self._lengths, self.recipe.batch_tokens, self.recipe.train.seed, epoch, self._size)
        return [tuple(batch) for batch in batches]

    def labels(self, items: tuple[int, ...]) -> float:
        """As the task's builder counts them."""
        return sum(self._labels[index] for index in items)

    def load(self, items: tuple[int, ...], scale: float) -> tuple[TaskBatch, int]:
        """Pack the instances; on a GPU filled up to one of few shapes where the head's pass can be recorded."""
        instances = [self.task.instances[index] for index in items]
        tokens = sum(self._lengths[index] for index in items)
        targets, weights = _targets(instances), self.task.class_weights
        shape: dict[str, int] = {}
        if self._recordable():
            shape = full_shape(tokens, sequences=self._size, longest=self._longest)
            if self._by_token:
                targets = torch.nn.functional.pad(targets, (0, shape["total"] - tokens), value=IGNORED)
        payload = TaskBatch(
            self.head,
            pack_instances(instances, self.model, **shape),
            targets,
            self._soft(items),
            self.name,
            self.task.partial,
            torch.tensor(scale, dtype=torch.float32),
            None if weights is None else weights.of(targets),
            repeatable=bool(shape),
        )
        return payload, tokens

    @property
    def _by_token(self) -> bool:
        return self.model.head(self.head).level == "token"

    def _recordable(self) -> bool:
        """On a GPU, packed, and without what depends on the numbers of a batch: a chain's words, a teacher's rows."""
        on_gpu = next(self.model.parameters()).is_cuda
        chain = self.model.head(self.head).kind == "crf"
        return on_gpu and self.model.encoder.mode == "packed" and not chain and self.soft is None

    def _soft(self, items: tuple[int, ...]) -> torch.Tensor | None:
        """The teacher's outputs for one micro-batch: a row a token, or a row a sequence."""
        if self.soft is None:
            return None
        outputs = [self.soft[index] for index in items]
        return torch.from_numpy(np.concatenate(outputs) if self._by_token else np.stack(outputs))


def _targets(instances: Sequence[Instance]) -> torch.Tensor:
    """Token targets end to end, or one target a sequence."""
    first = instances[0].target
    if isinstance(first, np.ndarray):
        rows = [instance.target for instance in instances]
        # Tags are as long as their instance; rows of a multi-label target are all of one length and stay rows.
        return torch.from_numpy(np.stack(rows) if first.dtype == np.float32 else np.concatenate(rows))
    kind = torch.long if isinstance(first, int) else torch.float32
    return torch.tensor([instance.target for instance in instances], dtype=kind)


def full_shape(tokens: int, *, sequences: int, longest: int) -> dict[str, int]:
    """The shape to which a batch is filled up: in steps of an eighth of its size, and of no less than 512 tokens.

    Small batches cost a GPU the same whether they are full or not, large ones are filled by a sixteenth on average, and the batches of a
    task, drawn at random, have half a dozen shapes; recording one costs as much as filling up hundreds of batches.
    """
    step = max(512, 1 << max(0, tokens.bit_length() - 4))
    total = -(-tokens // step) * step
    return {"total": total, "max_sequences": sequences + -(-step // longest), "max_length": longest}
