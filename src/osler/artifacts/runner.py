"""Run the heads of a bundle on encoder inputs. A runner hides what computes them, so that annotation needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from osler.core.logs import get_logger
from osler.tasks.instances.base import Instance

if TYPE_CHECKING:
    from osler.nn.multihead import MultiHeadModel
    from osler.nn.packing import Packed

log = get_logger(__name__)

_BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}
Advance = Callable[[int], None]


class Runner(Protocol):
    """Computes the outputs of heads."""

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        """Outputs of each head for each instance: [tokens, outputs] or [outputs].

        `advance` is called with the number of instances of each batch when it is done.
        """

    def transitions(self, head: str) -> np.ndarray | None:
        """Scores [tag, next tag] of a CRF head; None for any other head."""


@dataclass(frozen=True, eq=False)
class TorchRunner:
    """Runs heads with torch."""

    model: MultiHeadModel

    @property
    def device(self) -> str:
        """cpu or cuda."""
        return next(self.model.parameters()).device.type

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        return run_heads(self.model, instances, heads, advance)

    @property
    def pass_characters(self) -> int:
        """Characters of text that fill some batches."""
        return 4 * _BATCH_TOKENS[next(self.model.parameters()).device.type]

    def transitions(self, head: str) -> np.ndarray | None:
        scores = self.model.head(head).steps()
        return None if scores is None else np.asarray(scores.cpu().numpy())


class SteadyRunner:
    """Gives an instance the same outputs, to the last bit, whatever it is computed with.

    An answer then depends on nothing but its text: the service gives what the command line gives. A runner whose outputs change with
    the batch computes one instance at a time: one that pads to the longest, quantises with the batch's own range, or runs on a machine
    whose matrix products do so. This is found out when two instances are first computed together, with instances made for it.
    """

    def __init__(self, runner: Runner, probe: Callable[[], tuple[Sequence[Instance], Sequence[str]]]) -> None:
        """`probe` makes instances of several lengths, and names the heads to compute for them."""
        self._runner, self._probe = runner, probe
        self._lock = Lock()
        self._together: bool | None = None

    def __getattr__(self, name: str) -> Any:
        """Whatever else a runner offers is the runner's own."""
        return getattr(self._runner, name)

    @property
    def together(self) -> bool:
        """Whether instances can share a batch."""
        with self._lock:
            if self._together is None:
                self._together = self._steady()
                if not self._together:
                    log.event("runner.alone")
            return self._together

    def outputs(
        self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None
    ) -> dict[str, list[np.ndarray]]:
        if len(instances) < 2 or self.together:
            return self._runner.outputs(instances, heads, advance)
        results: dict[str, list[np.ndarray]] = {head: [] for head in heads}
        for instance in instances:
            for head, found in self._runner.outputs([instance], heads, advance).items():
                results[head] += found
        return results

    def transitions(self, head: str) -> np.ndarray | None:
        return self._runner.transitions(head)

    def _steady(self) -> bool:
        instances, heads = self._probe()
        alone = [self._runner.outputs([instance], heads) for instance in instances]
        numbers = range(len(instances))
        for mixed in (numbers, numbers[:2], [*[0] * 16, numbers[-1]]):
            found = self._runner.outputs([instances[number] for number in mixed], heads)
            for head in heads:
                if not all(map(np.array_equal, found[head], (alone[number][head][0] for number in mixed))):
                    return False
        return True


def length_batches(instances: Sequence[Instance], budget: int) -> list[list[int]]:
    """Numbers of the instances in batches of similar length, longest first, with at most `budget` tokens in a batch."""
    batches: list[list[int]] = []
    used = budget
    for index in sorted(range(len(instances)), key=lambda index: -instances[index].length):
        if used + instances[index].length > budget:
            batches.append([])
            used = 0
        batches[-1].append(index)
        used += instances[index].length
    return batches


def run_heads(
    model: MultiHeadModel,
    instances: Sequence[Instance],
    heads: Sequence[str],
    advance: Advance | None = None,
) -> dict[str, list[np.ndarray]]:
    """Return the outputs of each head for each instance: [tokens, outputs] or [outputs]."""
    import torch

    from osler.nn.packing import least_rows

    device = next(model.parameters()).device
    results: dict[str, list[np.ndarray]] = {head: [np.empty(0)] * len(instances) for head in heads}
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for indices in length_batches(instances, _BATCH_TOKENS[device.type]):
                batch = [instances[index] for index in indices]
                borders = np.cumsum([instance.length for instance in batch])[:-1]
                tokens = sum(instance.length for instance in batch)
                packed = pack_instances(batch, model, total=max(tokens, least_rows(device)))
                for head, output in model(packed.to(device), heads).items():
                    values = output.float().cpu().numpy()
                    if model.heads[head].level == "token":
                        values = values[:tokens]
                    rows = np.split(values, borders) if model.heads[head].level == "token" else list(values)
                    for index, row in zip(indices, rows, strict=True):
                        results[head][index] = row
                if advance:
                    advance(len(indices))
    finally:
        model.train(training)
    return results


def pack_instances(instances: Sequence[Instance], model: MultiHeadModel, **shape: int) -> Packed:
    """Pack instances for this model's encoder. `shape` pads the batch: total, max_sequences, max_length."""
    from osler.nn.packing import pack

    config = model.encoder.config
    types = None
    if getattr(config, "type_vocab_size", 1) > 1:
        types = [np.zeros(i.length, dtype=np.int64) if i.types is None else i.types for i in instances]
    marks = [instance.marks for instance in instances if instance.marks is not None]
    ids = [instance.ids for instance in instances]
    return pack(ids, token_types=types, marks=marks or None, pad_id=config.pad_token_id or 0, **shape)
