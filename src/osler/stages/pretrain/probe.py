"""A few seconds of real training on random tokens, to learn what this machine does with a recipe. Leaves nothing behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from osler.core.console import progress
from osler.core.seeding import generator
from osler.nn.masking import MaskingVocabulary
from osler.nn.packing import pack
from osler.stages.pretrain.config import PretrainRecipe, PretrainSettings
from osler.stages.pretrain.data import MaskedBatch
from osler.stages.pretrain.model import make_model
from osler.stages.pretrain.objective import Objective, make_objective, training_flops
from osler.train.loop import StepReport, train
from osler.train.precision import choose_device, device_name, matmul_peak
from osler.train.source import Batch

_ENDLESS = 1_000_000
_BATCHES = 8  # different ones, taken in turn
_MICRO_BATCHES = 4  # in an update, at most: enough for the optimiser's own time to count about as little as in the run
_WARM_UP = {"cuda": 2, "cpu": 1}  # updates before the clock starts: compilation, the first allocations
_LOOK = 0.5  # seconds between two waits for a GPU


@dataclass(frozen=True)
class Probe:
    """What was measured."""

    device: str
    tokens_per_second: float
    flops_per_second: float
    peak: float
    """FLOP/s of a large matrix product on this device."""
    seconds: float
    batch_tokens: int
    """Tokens of a micro-batch: the recipe's, or fewer where those did not fit or took too long."""
    out_of_memory: bool
    """Whether the recipe's own micro-batch did not fit into the GPU's memory."""
    memory: int | None
    """The most bytes allocated on the GPU; None on a CPU."""


def probe(
    recipe: PretrainRecipe, vocabulary: MaskingVocabulary, *, seconds: float = 10.0, lengths: Sequence[int] = ()
) -> Probe:
    """Train the recipe's model for about so many seconds; `lengths` are those of the sequences, full ones if not given."""
    device = choose_device(recipe.train.device)
    peak = matmul_peak(device, threads=recipe.train.threads)
    objective = make_objective(recipe, make_model(recipe, vocabulary), vocabulary)
    objective.uses_every_parameter = True
    # A checkpoint may know fewer entries than are assumed where no tokenizer is there.
    vocabulary = replace(vocabulary, size=min(vocabulary.size, objective.model.vocab_size))
    measure = _Measure(recipe, vocabulary, objective, lengths or (recipe.max_length,), device)
    batch_tokens, micro_batches, too_large = recipe.batch_tokens, min(_MICRO_BATCHES, recipe.accumulate), False
    if device.type == "cpu":
        batch_tokens, micro_batches = measure.affordable(seconds)
    while True:
        try:
            speed, spent, memory = measure.run(batch_tokens, micro_batches, seconds)
            break
        except torch.OutOfMemoryError:
            if batch_tokens // 2 < recipe.max_length:
                raise
            too_large, batch_tokens = True, batch_tokens // 2
        # Not in the handler: as long as it runs, the error holds on to what did not fit.
        objective.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
    flops = speed * training_flops(recipe, objective)
    return Probe(device_name(device), speed, flops, peak, spent, batch_tokens, too_large, memory)


class _Enough(Exception):
    """Ends a training run from its progress callback."""


class _Measure:
    def __init__(
        self,
        recipe: PretrainRecipe,
        vocabulary: MaskingVocabulary,
        objective: Objective,
        lengths: Sequence[int],
        device: torch.device,
    ) -> None:
        self.recipe = recipe
        self.vocabulary = vocabulary
        self.objective = objective
        self.lengths = lengths
        self.device = device

    def affordable(self, seconds: float) -> tuple[int, int]:
        """Tokens of a micro-batch and micro-batches of an update that let several updates fit into the time."""
        least = min(self.recipe.max_length, self.recipe.batch_tokens)
        speed, _, _ = self.run(least, 1, seconds / 10)
        times = max(1, int(speed * seconds / 4 / least))
        micro_batches = min(_MICRO_BATCHES, self.recipe.accumulate, times)
        return min(self.recipe.batch_tokens, least * (times // micro_batches)), micro_batches

    def run(self, batch_tokens: int, micro_batches: int, seconds: float) -> tuple[float, float, int | None]:
        """Tokens a second, the seconds they were measured in, and the peak of memory."""
        recipe = self.recipe
        source = _RandomTokens(recipe, self.vocabulary, self.lengths, batch_tokens, micro_batches)
        with progress("probe", seconds) as bar, tempfile.TemporaryDirectory(prefix="osler-probe-") as folder:
            watch = _Watch(self.device, seconds, lambda spent: bar.update(completed=min(spent, seconds)))
            with suppress(_Enough):
                train(self.objective, source, _settings(recipe.train), folder=Path(folder), on_step=watch.see)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        memory = torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None
        return watch.updates * micro_batches * batch_tokens / watch.spent, watch.spent, memory


def _settings(train: PretrainSettings) -> PretrainSettings:
    """Settings under which an update costs what it costs in the run, but random tokens cannot make it diverge."""
    return train.changed(
        steps=_ENDLESS,
        budget=None,
        lr=1e-9,
        schedule="constant",
        warmup=0,
        log_every=_ENDLESS,
        eval_every=None,
        patience=None,
        checkpoint_every=0,
    )


class _Watch:
    """Counts updates after the warm-up until the time is over."""

    def __init__(self, device: torch.device, seconds: float, show: Callable[[float], None]) -> None:
        self.updates = 0
        self.spent = 0.0
        self._device = device
        self._warm_up = _WARM_UP[device.type]
        self._seconds = seconds
        self._show = show
        self._began = 0.0
        self._looked = 0.0
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def see(self, report: StepReport) -> None:
        """One more update is done, or on a GPU at least asked for."""
        if report.step <= self._warm_up:
            if report.step == self._warm_up:
                self._finish()
                self._began = self._looked = time.perf_counter()
            return
        now = time.perf_counter()
        if self._device.type == "cuda" and now - self._looked < min(_LOOK, self._seconds):
            return
        self._finish()
        self._looked = time.perf_counter()
        self.updates, self.spent = report.step - self._warm_up, self._looked - self._began
        self._show(self.spent)
        if self.spent >= self._seconds:
            raise _Enough

    def _finish(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


class _RandomTokens:
    """Batches of the recipe's shape, of sequences as long as the corpus's, filled with random tokens."""

    static_shapes = True

    def __init__(
        self,
        recipe: PretrainRecipe,
        vocabulary: MaskingVocabulary,
        lengths: Sequence[int],
        batch_tokens: int,
        micro_batches: int,
    ) -> None:
        self._micro_batches = micro_batches
        cuts = [_cut(lengths, batch_tokens, number) for number in range(_BATCHES)]
        room = max(map(len, cuts))
        self._batches = [
            _random_batch(cut, room, recipe, vocabulary, generator(0, "probe", number))
            for number, cut in enumerate(cuts)
        ]

    def __len__(self) -> int:
        return _ENDLESS

    def step(self, index: int) -> range:
        return range(index * self._micro_batches, (index + 1) * self._micro_batches)

    def load(self, ref: int) -> Batch:
        return self._batches[ref % _BATCHES]


def _cut(lengths: Sequence[int], tokens: int, number: int) -> list[int]:
    """Lengths drawn from those given that add up to `tokens`, the last one cut."""
    order = generator(0, "probe-lengths", number)
    found: list[int] = []
    while tokens:
        taken = min(tokens, int(lengths[int(order.integers(len(lengths)))]))
        found.append(taken)
        tokens -= taken
    return found


def _random_batch(
    cut: Sequence[int], room: int, recipe: PretrainRecipe, vocabulary: MaskingVocabulary, rng: np.random.Generator
) -> Batch:
    total = sum(cut)
    ids = rng.integers(vocabulary.size, size=total)
    ids[ids == vocabulary.pad_id] = vocabulary.pad_id + 1
    masked = max(1, int(total * recipe.masking.rate))
    positions = np.sort(rng.choice(total, size=masked, replace=False))
    packed = pack(
        np.split(ids, np.cumsum(cut)[:-1]),
        pad_id=vocabulary.pad_id,
        max_length=recipe.max_length,
        max_sequences=room,
    )
    payload = MaskedBatch(packed, torch.from_numpy(positions), torch.from_numpy(ids[positions]))
    return Batch(payload, weight=float(masked), tokens=total)
