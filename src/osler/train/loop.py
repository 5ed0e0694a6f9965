"""The one training loop: pretraining, distillation, fine-tuning and multi-task learning all run through `train`.

What makes runs repeatable: the batches of a step are a pure function of its number, torch's generators are reseeded for
every micro-batch from (seed, step, its place in the step), and the loss is divided by the weight of the whole step. One
process or many, interrupted or not, dropout included, a step computes the same update.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from osler.core.errors import RecipeError
from osler.train.budget import Budget
from osler.train.distributed import World, abandon_world, join_world
from osler.train.interrupts import deferred
from osler.train.pace import ClockPace, Pace, StepPace
from osler.train.precision import choose_device, cpu_threads
from osler.train.run import Evaluate, Run, StepReport
from osler.train.selection import BestOf
from osler.train.source import BatchSource, CountedSource
from osler.train.trackers import read_history

if TYPE_CHECKING:
    from osler.train.config import TrainConfig


@dataclass(frozen=True)
class TrainResult:
    """What a run came to; `history` holds the log records without wall-clock values (empty except on rank 0)."""

    step: int
    best_step: int | None
    best_value: float | None
    tokens: int
    skipped: int
    history: tuple[Mapping[str, Any], ...]


def train(
    module: nn.Module,
    source: BatchSource,
    config: TrainConfig,
    *,
    folder: Path,
    evaluate: Evaluate | None = None,
    best: BestOf | None = None,
    flops_per_token: float = 0.0,
    on_step: Callable[[StepReport], None] | None = None,
) -> TrainResult:
    """Train `module` in place, going on from the newest checkpoint in `folder` if there is one.

    `module(payload)` returns a LossOutput whose `loss_sum` is summed over what `Batch.weight` counts. `evaluate(module,
    step)` runs on rank 0, in evaluation mode and the precision of training. Afterwards the module, in evaluation mode,
    holds the best weights if `best` names a metric, else the last ones. Ctrl-C and SIGTERM end the run between two
    steps and leave a whole checkpoint behind.
    """
    with ExitStack() as stack:
        stack.enter_context(cpu_threads(config.threads))
        world, device = join_world(lambda rank: choose_device(config.device, rank))
        interrupt = stack.enter_context(deferred())
        if device.type == "cuda":
            stack.enter_context(_quiet_collector())
        pace = _pace(config, source, world, flops_per_token)
        run = Run(module, config, folder, world, device, pace=pace, best=best, flops_per_token=flops_per_token)
        with closing(run):
            try:
                run.resume()
                with closing(run.steps(source, evaluate, on_step)) as done:
                    for _ in done:
                        if interrupt.signal is not None:
                            run.leave()
                            interrupt.obey()
                run.finish()
            except BaseException:
                abandon_world()
                raise
        return TrainResult(
            step=run.step,
            best_step=run.selection.step,
            best_value=run.selection.value,
            tokens=run.tokens,
            skipped=run.skipped,
            history=tuple(read_history(folder)) if world.main else (),
        )


def _pace(config: TrainConfig, source: BatchSource, world: World, flops_per_token: float) -> Pace:
    if config.budget is None:
        return StepPace(config, config.steps or len(source))
    budget = Budget.parse(config.budget)
    if budget.seconds is not None:
        return ClockPace(config, budget.seconds, world)
    assert budget.flops is not None
    if not flops_per_token or not isinstance(source, CountedSource):
        raise RecipeError(
            "the work of a step is not known here beforehand", fix="Give train.steps, or a time as budget"
        )
    return StepPace(config, source.steps_for(budget.flops / flops_per_token))


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep what lives through the run out of the garbage collector's sight: its pauses would stall a GPU."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
