"""Training batches of one or many tasks: each batch is of one task, tasks take turns as the recipe says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from osler.bundle.infer import pack_instances
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import Packed
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.instances.base import Builder, Instance
from osler.train.batching import token_budget_batches
from osler.train.mixing import mix
from osler.train.source import Batch, EpochSource


@dataclass(frozen=True)
class TaskBatch:
    """A packed batch, the head it teaches, that head's targets, and a teacher's outputs where there is one."""

    head: str
    batch: Packed
    targets: torch.Tensor
    soft: torch.Tensor | None = None

    def to(self, device: torch.device) -> TaskBatch:
        """A copy on another device."""
        return TaskBatch(
            self.head,
            self.batch.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
            None if self.soft is None else self.soft.to(device, non_blocking=True),
        )


@dataclass(frozen=True)
class TaskInstances:
    """The training instances of one task, its builder, and what of its gold they cannot carry."""

    builder: Builder
    instances: list[Instance]
    unexpressed: Counter[str]


@dataclass(frozen=True)
class _Ref:
    """One micro-batch: a task and the indices of its instances."""

    task: str
    indices: tuple[int, ...]


class TaskBatches:
    """Makes the batches of every epoch, each a pure function of seed and epoch, and counts the turns of each task."""

    def __init__(
        self,
        recipe: FinetuneRecipe,
        model: MultiHeadModel,
        tasks: Mapping[str, TaskInstances],
        soft: Mapping[str, Sequence[np.ndarray]] | None = None,
    ) -> None:
        self.recipe = recipe
        self.model = model
        self.tasks = tasks
        self.soft = soft or {}

    def source(self) -> EpochSource:
        """The batches as the loop takes them."""
        return EpochSource(self.order, self.load, epochs=self.recipe.epochs, accumulate=self.recipe.accumulate)

    def order(self, epoch: int) -> Sequence[_Ref]:
        """The micro-batches of an epoch, in order."""
        seed = self.recipe.train.seed
        batches = {
            name: token_budget_batches(
                [instance.length for instance in task.instances],
                self.recipe.batch_tokens,
                seed,
                epoch,
                self.recipe.batch_size,
            )
            for name, task in self.tasks.items()
        }
        turns = mix(
            self.recipe.mixing.order,
            {name: len(items) for name, items in batches.items()},
            seed,
            epoch,
            heat=self.recipe.mixing.temperature,
        )
        return [_Ref(name, tuple(batches[name][number])) for name, number in turns.order]

    def turns(self) -> dict[str, int]:
        """How many batches of each task the first epoch holds."""
        return dict(Counter(ref.task for ref in self.order(0)))

    def load(self, ref: _Ref) -> Batch:
        """Pack the instances of one micro-batch."""
        task = self.tasks[ref.task]
        instances = [task.instances[index] for index in ref.indices]
        packed = pack_instances(instances, self.model)
        weight = sum(task.builder.weight(instance) for instance in instances)
        tokens = sum(instance.length for instance in instances)
        soft = self._soft(ref) if ref.task in self.soft else None
        return Batch(TaskBatch(ref.task, packed, _targets(instances), soft), weight, tokens)

    def _soft(self, ref: _Ref) -> torch.Tensor:
        """The teacher's outputs for one micro-batch: a row a token, or a row a sequence."""
        outputs = [self.soft[ref.task][index] for index in ref.indices]
        by_token = self.model.head(ref.task).level == "token"
        return torch.from_numpy(np.concatenate(outputs) if by_token else np.stack(outputs))


def _targets(instances: Sequence[Instance]) -> torch.Tensor:
    """Token targets end to end, or one target a sequence."""
    first = instances[0].target
    if isinstance(first, np.ndarray):
        rows = [instance.target for instance in instances]
        # Tags are as long as their instance; rows of a multi-label target are all of one length and stay rows.
        return torch.from_numpy(np.stack(rows) if first.dtype == np.float32 else np.concatenate(rows))
    kind = torch.long if isinstance(first, int) else torch.float32
    return torch.tensor([instance.target for instance in instances], dtype=kind)
