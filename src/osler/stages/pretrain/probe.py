"""Measure the speed of a recipe on this machine with a few seconds of training on random tokens."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from osler.artifacts.token_shards import TokenisedDocuments
from osler.core.console import progress
from osler.core.seeding import generator
from osler.nn.masking import Masker, Masking, MaskingVocabulary
from osler.stages.pretrain.config import PretrainRecipe, PretrainSettings, StepBatches
from osler.stages.pretrain.data import ChunkStream, PretrainSource
from osler.stages.pretrain.model import make_model
from osler.stages.pretrain.objective import Objective, make_objective, training_flops
from osler.stages.pretrain.pairs import PairFrame, PairStream
from osler.train.loop import StepReport, train
from osler.train.precision import choose_device, device_name, matmul_peak, wait_for

_ENDLESS = 1_000_000
_BATCHES = 8  # of random text, reused for the whole probe
_MICRO_BATCHES = 4  # per step at most: enough for the optimiser's share of the time to be as small as in the run
_WARM_UP = {"cuda": 2, "cpu": 1}  # steps before the clock starts: compilation, first allocations
_LOOK = 0.5  # seconds between two synchronisations with a GPU


@dataclass(frozen=True)
class Probe:
    """Measured speed and memory."""

    device: str
    tokens_per_second: float
    flops_per_second: float
    peak: float
    """FLOP/s of a large matrix product on this device."""
    seconds: float
    batch_tokens: int
    """Tokens per micro-batch: the recipe's, or fewer if those did not fit or took too long."""
    out_of_memory: bool
    """Whether the recipe's micro-batch does not fit into GPU memory."""
    memory: int | None
    """Peak bytes allocated on the GPU; None on a CPU."""


def probe(
    recipe: PretrainRecipe, vocabulary: MaskingVocabulary, *, seconds: float = 10.0, lengths: Sequence[int] = ()
) -> Probe:
    """Train the recipe's model for about `seconds` on sequences of these lengths, full length by default."""
    device = choose_device(recipe.train.device)
    peak = matmul_peak(device, threads=recipe.train.threads)
    objective = make_objective(recipe, make_model(recipe, vocabulary), vocabulary)
    objective.uses_every_parameter = True
    lengths = lengths or (recipe.max_length,)

    def measure(batch_tokens: int, micro_batches: int, seconds: float) -> tuple[float, float]:
        source = random_source(recipe, vocabulary, objective.model.vocab_size, lengths, batch_tokens, micro_batches)
        return _tokens_per_second(recipe.train, objective, source, device, seconds)

    batch_tokens, micro_batches, too_large = recipe.batch_tokens, min(_MICRO_BATCHES, recipe.accumulate), False
    if device.type == "cpu":
        speed, _ = measure(min(recipe.max_length, batch_tokens), 1, seconds / 10)
        batch_tokens, micro_batches = _affordable(recipe, speed, seconds)
    while True:
        try:
            speed, spent = measure(batch_tokens, micro_batches, seconds)
            break
        except torch.OutOfMemoryError:
            if batch_tokens // 2 < recipe.max_length:
                raise
            too_large, batch_tokens = True, batch_tokens // 2
        # Outside the handler: inside it, the exception still holds on to the memory.
        objective.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
    memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    flops = speed * training_flops(recipe, objective)
    return Probe(device_name(device), speed, flops, peak, spent, batch_tokens, too_large, memory)


def _affordable(recipe: PretrainRecipe, speed: float, seconds: float) -> tuple[int, int]:
    """Choose tokens per micro-batch and micro-batches per step so that several steps fit into the time."""
    least = min(recipe.max_length, recipe.batch_tokens)
    times = max(1, int(speed * seconds / 4 / least))
    micro_batches = min(_MICRO_BATCHES, recipe.accumulate, times)
    return min(recipe.batch_tokens, least * (times // micro_batches)), micro_batches


def random_source(
    recipe: PretrainRecipe,
    vocabulary: MaskingVocabulary,
    entries: int,
    lengths: Sequence[int],
    batch_tokens: int,
    micro_batches: int,
) -> PretrainSource:
    """Make batches of the recipe's shape from random documents. `lengths` are sequence lengths, special tokens included."""
    # A model may have fewer entries than assumed for a missing tokenizer.
    size = min(vocabulary.size, entries)
    known = frozenset(number for number in vocabulary.special_ids if number < size)
    mask_id = min(vocabulary.mask_id, size - 1)
    vocabulary = replace(vocabulary, size=size, mask_id=mask_id, special_ids=known, unused_ids=frozenset())
    masker = Masker(vocabulary, Masking(rate=recipe.masking.rate))
    rng = generator(0, "probe")
    drawn = rng.choice(lengths, size=1 + _BATCHES * batch_tokens // int(np.mean(lengths)))
    sizes = np.maximum(1, drawn - len(vocabulary.prefix) - len(vocabulary.suffix))
    ids = rng.choice(masker.ordinary, size=int(sizes.sum()))
    starts, sources = np.cumsum(sizes) - sizes, np.zeros(len(sizes), np.int32)
    stream: ChunkStream
    if recipe.uses_pairs:
        borders = np.unique(np.concatenate([starts + sizes // 2, starts + sizes]))
        documents = TokenisedDocuments((ids,), starts, sizes, sources, ("random",), borders)
        frame = PairFrame(vocabulary.prefix, vocabulary.suffix, vocabulary.suffix, None)
        stream = PairStream(documents, recipe.max_length, frame, seed=0)
    else:
        documents = TokenisedDocuments((ids,), starts, sizes, sources, ("random",))
        stream = ChunkStream(documents, recipe.max_length, vocabulary.prefix, vocabulary.suffix, seed=0)
    batches = StepBatches(batch_tokens, micro_batches)
    return PretrainSource(stream, masker, batches, steps=_ENDLESS, max_length=recipe.max_length, seed=0)


class _Enough(Exception):
    """Ends a training run from its progress callback."""


def _tokens_per_second(
    config: PretrainSettings, objective: Objective, source: PretrainSource, device: torch.device, seconds: float
) -> tuple[float, float]:
    """Train for some seconds after the warm-up. Returns tokens per second and the seconds spent."""
    # A step costs as much as in the run, but random tokens cannot make it diverge, and nothing is logged or saved.
    quiet = {"log_every": _ENDLESS, "eval_every": None, "patience": None, "checkpoint_every": 0}
    settings = config.changed(steps=_ENDLESS, budget=None, lr=1e-9, schedule="constant", warmup=0, **quiet)
    warm_up = _WARM_UP[device.type]
    began = looked = spent = 0.0
    tokens = 0

    def wait() -> float:
        wait_for(device)
        return time.perf_counter()

    def on_step(report: StepReport) -> None:
        nonlocal began, looked, tokens, spent
        if report.step == warm_up:
            began = looked = wait()
        # On a GPU a step is only queued; synchronising after each one would slow it down.
        early = device.type == "cuda" and time.perf_counter() - looked < min(_LOOK, seconds)
        if report.step <= warm_up or early:
            return
        looked = wait()
        tokens, spent = source.batches.tokens(report.step - warm_up), looked - began
        bar.update(completed=min(spent, seconds))
        if spent >= seconds:
            raise _Enough

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    temporary = tempfile.TemporaryDirectory(prefix="osler-probe-")
    with suppress(_Enough), progress("probe", seconds) as bar, temporary as folder:
        train(objective, source, settings, folder=Path(folder), on_step=on_step)
    return tokens / spent, spent
