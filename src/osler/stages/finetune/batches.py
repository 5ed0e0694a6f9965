"""Training batches of one or more tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from osler.artifacts.runner import pack_instances
from osler.core.seeding import derive, generator
from osler.nn.multihead import MultiHeadModel, Partial
from osler.nn.packing import Packed, few_shapes
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.instances.base import IGNORED, Builder, Instance
from osler.text.document import Record
from osler.train.mixing import Turn, mix
from osler.train.source import Batch, EpochSource, packed_batches, padded_batches


class TaskStream(ABC):
    """The batches of one task for each epoch, determined by seed and epoch alone."""

    loss_weight: float = 1.0
    turns_fixed: bool = False
    """Whether the recipe fixes the number of batches per epoch, so mixing leaves it alone."""

    @abstractmethod
    def cut(self, epoch: int) -> Sequence[tuple[int, ...]]:
        """Return the batches of an epoch as item indices."""

    @abstractmethod
    def labels(self, items: tuple[int, ...]) -> float:
        """Return the number of labels in a batch."""

    @abstractmethod
    def load(self, items: tuple[int, ...], scale: float) -> tuple[Any, int]:
        """Return the model input and its number of tokens; its loss is multiplied by `scale`."""


@dataclass(frozen=True)
class _MicroBatch:
    """A task, its item indices, and its loss factor within the optimiser step."""

    task: str
    indices: tuple[int, ...]
    scale: float = 1.0


class TaskBatches:
    """Mixes the batches of all tasks, epoch by epoch, and counts them."""

    def __init__(self, recipe: FinetuneRecipe, streams: Mapping[str, TaskStream]) -> None:
        self.recipe = recipe
        self.streams = streams
        self.counts: dict[int, dict[str, int]] = {}
        """Number of batches of each task by epoch, filled as epochs are read."""

    def source(self) -> EpochSource:
        """Return the batch source for the training loop."""
        return EpochSource(self.order, self.load, epochs=self.recipe.epochs, accumulate=self.recipe.accumulate)

    def order(self, epoch: int) -> Sequence[_MicroBatch]:
        """Return the micro-batches of an epoch in order."""
        batches = {name: stream.cut(epoch) for name, stream in self.streams.items()}
        fixed = [name for name, stream in self.streams.items() if stream.turns_fixed]
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
        refs = [_MicroBatch(name, tuple(batches[name][number])) for name, number in order]
        size = self.recipe.accumulate
        return [ref for start in range(0, len(refs), size) for ref in self._scaled(refs[start : start + size])]

    def load(self, ref: _MicroBatch) -> Batch:
        stream = self.streams[ref.task]
        payload, tokens = stream.load(ref.indices, ref.scale)
        return Batch(payload, stream.labels(ref.indices), tokens)

    def _scaled(self, step: Sequence[_MicroBatch]) -> list[_MicroBatch]:
        """Set the loss factors of one optimiser step.

        The loop divides the summed loss by the number of labels in the step. The factor undoes this and divides each task's loss
        by that task's own number of labels.
        """
        labels = [self.streams[ref.task].labels(ref.indices) for ref in step]
        own: dict[str, float] = defaultdict(float)
        for ref, count in zip(step, labels, strict=True):
            own[ref.task] += count
        turns = Counter(ref.task for ref in step)
        factors = {
            name: self.streams[name].loss_weight
            * (turns[name] / len(step))
            * (sum(labels) / own[name] if own[name] else 0)
            for name in turns
        }
        return [replace(ref, scale=factors[ref.task]) for ref in step]


def _spread(order: Sequence[Turn], more: Sequence[Turn]) -> tuple[Turn, ...]:
    """Interleave two lists evenly, keeping the order of each."""
    places = [(place + 0.5) / len(items) for items in (order, more) for place in range(len(items))]
    both = [*order, *more]
    return tuple(both[number] for number in sorted(range(len(both)), key=places.__getitem__))


@dataclass(frozen=True)
class TaskInstances:
    """Training instances of one task."""

    builder: Builder
    instances: list[Instance]
    unexpressed: Counter[str]
    """Gold annotations that the instances cannot express."""
    head: str
    partial: Partial | None = None
    """Entity types that the task annotates, if its head is joint."""
    class_weights: ClassWeights | None = None
    soft: list[np.ndarray] | None = None
    """Teacher outputs, one per instance."""
    annotations: int = 0
    """Gold mentions or relations of the training documents."""
    excerpts: int = 0
    """Number of excerpts, which come last in `instances`. Each epoch draws some of them."""

    def excerpts_drawn(self, share: float) -> int:
        """Return the number of excerpts to draw per epoch, where `share` is the number for each other instance."""
        return min(self.excerpts, round(share * (len(self.instances) - self.excerpts)))


@dataclass(frozen=True)
class TaskBatch:
    """A packed batch of one task, with the targets of its head."""

    head: str
    batch: Packed
    targets: Tensor
    soft: Tensor | None = None
    """Teacher outputs."""
    task: str = ""
    """Name of the task if it differs from the head's."""
    partial: Partial | None = None
    """Entity types that the task annotates, if the head is joint; targets then index the task's own tags."""
    scale: Tensor | None = None
    """Factor of the summed loss; 1 if missing."""
    weights: Tensor | None = None
    """Weight of each target; 1 if missing."""
    repeatable: bool = False
    """Whether the batch is padded to one of a few shapes, so a recorded pass can be replayed."""


class InstanceStream(TaskStream):
    """Batches of a labelled task: every instance once per epoch, and a sample of the excerpts."""

    def __init__(self, name: str, task: TaskInstances, recipe: FinetuneRecipe, model: MultiHeadModel) -> None:
        self.name = name
        self.task = task
        self.recipe = recipe
        self.model = model
        self.loss_weight = recipe.mixing.loss_weights.get(name, 1.0)
        self._size = recipe.mixing.batch_sizes.get(name, recipe.batch_size)
        self._lengths = [instance.length for instance in task.instances]
        self._longest = max(self._lengths)
        self._labels = [task.builder.weight(instance) for instance in task.instances]

    def cut(self, epoch: int) -> Sequence[tuple[int, ...]]:
        cut = packed_batches if self.model.encoder.mode == "packed" else padded_batches
        chosen = self._chosen(epoch)
        lengths = [self._lengths[index] for index in chosen]
        batches = cut(lengths, self.recipe.batch_tokens, self.recipe.train.seed, epoch, self._size)
        return [tuple(chosen[place] for place in batch) for batch in batches]

    def _chosen(self, epoch: int) -> Sequence[int]:
        """Return the instances of an epoch: all full ones, and the excerpts drawn for it."""
        windows = len(self._lengths) - self.task.excerpts
        if not self.task.excerpts:
            return range(windows)
        order = generator(self.recipe.train.seed, "excerpts", self.name, epoch).permutation(self.task.excerpts)
        drawn = order[: self.task.excerpts_drawn(self.recipe.excerpts)]
        return [*range(windows), *(windows + drawn).tolist()]

    def labels(self, items: tuple[int, ...]) -> float:
        return sum(self._labels[index] for index in items)

    def load(self, items: tuple[int, ...], scale: float) -> tuple[TaskBatch, int]:
        task = self.task
        instances = [task.instances[index] for index in items]
        tokens = sum(self._lengths[index] for index in items)
        by_token = self.model.head(task.head).level == "token"
        targets = _targets(instances)
        shape: dict[str, int] = {}
        recordable = self._recordable()
        if recordable:
            shape = full_shape(tokens, sequences=self._size, longest=self._longest)
        elif self.model.encoder.mode == "packed" and task.soft is None:
            shape = {"total": few_shapes(tokens)}
        if shape and by_token:
            targets = torch.nn.functional.pad(targets, (0, shape["total"] - tokens), value=IGNORED)
        soft = None
        if task.soft is not None:
            outputs = [task.soft[index] for index in items]
            soft = torch.from_numpy(np.concatenate(outputs) if by_token else np.stack(outputs))
        payload = TaskBatch(
            task.head,
            pack_instances(instances, self.model, **shape),
            targets,
            soft,
            self.name,
            task.partial,
            torch.tensor(scale, dtype=torch.float32),
            None if task.class_weights is None else task.class_weights.of(targets),
            repeatable=recordable,
        )
        return payload, tokens

    def _recordable(self) -> bool:
        """Whether a pass can be recorded: packed, on a GPU, and without a teacher, since teacher outputs are not padded."""
        on_gpu = next(self.model.parameters()).is_cuda
        return on_gpu and self.model.encoder.mode == "packed" and self.task.soft is None


def _targets(instances: Sequence[Instance]) -> Tensor:
    """Return concatenated token targets, or one target per sequence."""
    first = instances[0].target
    if isinstance(first, np.ndarray):
        rows = [instance.target for instance in instances]
        # Multi-label targets are float rows of equal length; tags are as long as their instance.
        return torch.from_numpy(np.stack(rows) if first.dtype == np.float32 else np.concatenate(rows))
    kind = torch.long if isinstance(first, int) else torch.float32
    return torch.tensor([instance.target for instance in instances], dtype=kind)


def full_shape(tokens: int, *, sequences: int, longest: int) -> dict[str, int]:
    """Return the shape to pad a batch to: a multiple of about an eighth of its size, and of at least 512 tokens.

    A small batch takes a GPU as long padded as not, and a large one grows by a sixteenth on average. This leaves about six shapes per
    task, which matters because recording one costs as much as padding hundreds of batches.
    """
    step = max(512, 1 << max(0, tokens.bit_length() - 4))
    total = -(-tokens // step) * step
    return {"total": total, "max_sequences": sequences + -(-step // longest), "max_length": longest}


class ClassWeights:
    """Weights per class [L], or in multi-label tasks per absence and presence of each label [L, 2]."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = torch.from_numpy(weights.astype(np.float32))

    def of(self, targets: Tensor) -> Tensor:
        """Return the weight of every target in a batch: [T] or [N] for single-label, [N, L] for multi-label."""
        if self.weights.ndim == 1:
            return self.weights[targets.clamp(min=0)]
        present = torch.nan_to_num(targets)
        return present * self.weights[:, 1] + (1.0 - present) * self.weights[:, 0]


def balanced(instances: Sequence[Instance], outputs: int) -> ClassWeights | None:
    """Return weights inversely proportional to class frequency, or None for regression."""
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
    """Return N / (K n) for each count n, and 1 for a class that does not occur."""
    present = counts > 0
    balanced = counts.sum() / (max(1, present.sum()) * np.maximum(counts, 1))
    return np.asarray(np.where(present, balanced, 1.0))


def share(records: Sequence[Record], fraction: float, seed: int) -> list[Record]:
    """Sample a fraction of the records, at least one, keeping their order.

    Records are sampled by a hash of seed and id, so tasks over the same documents sample the same ones.
    """
    if fraction >= 1.0:
        return list(records)
    drawn = sorted(range(len(records)), key=lambda place: (derive(seed, "fraction", records[place].id), place))
    kept = set(drawn[: max(1, round(fraction * len(records)))])
    return [record for place, record in enumerate(records) if place in kept]
