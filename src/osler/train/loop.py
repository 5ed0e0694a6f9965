"""The training loop. Pretraining, distillation, fine-tuning and multi-task learning all run through `train`."""

from __future__ import annotations

import gc
import json
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from osler.core.console import console
from osler.core.errors import ArtifactError, OslerError, RecipeError
from osler.core.logs import get_logger
from osler.core.seeding import restore, seed_everything, snapshot
from osler.train.checkpoint import Checkpoint, Checkpoints, CheckpointWriter, load_module, module_tensors
from osler.train.config import Budget
from osler.train.optim import Optimiser
from osler.train.parallel import World, abandon_world, choose_strategy, join_world
from osler.train.precision import Autocast, cpu_threads
from osler.train.schedule import ClockPace, Pace, StepPace
from osler.train.source import BatchSource, CountedSource, prefetch
from osler.train.stats import BestOf, Meter, Selection, StepSums, Trackers, WeightMean, read_history
from osler.train.step import Stepper

if TYPE_CHECKING:
    from osler.train.config import TrainConfig

log = get_logger("osler.train")

Evaluate = Callable[[nn.Module, int], Mapping[str, float]]

_MAX_SKIPPED = 20
"""Consecutive skipped steps after which a run counts as diverged."""


@dataclass(frozen=True)
class StepReport:
    """Progress after a step. `steps` is None under a time budget; loss and speed are from the last log line."""

    step: int
    steps: int | None
    lr: float
    fraction: float = 0.0
    loss: float | None = None
    tokens_per_second: float | None = None
    flops_per_second: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True)
class TrainResult:
    """Summary of a run; `history` holds the log records without wall-clock values (empty except on rank 0)."""

    step: int
    best_step: int | None
    best_value: float | None
    tokens: int
    skipped: int
    history: tuple[Mapping[str, Any], ...]
    averaged: bool = False
    """Whether the mean of the weights of several steps was kept."""
    average_value: float | None = None
    """Score of that mean, whether kept or not."""


def train(
    module: nn.Module,
    source: BatchSource,
    config: TrainConfig,
    *,
    folder: Path,
    evaluate: Evaluate | None = None,
    best: BestOf | None = None,
    average: Collection[int] = (),
    flops_per_token: float = 0.0,
    on_step: Callable[[StepReport], None] | None = None,
) -> TrainResult:
    """Train `module` in place, resuming from the newest checkpoint in `folder` if there is one.

    `module(payload)` returns a LossOutput whose `loss_sum` is summed over what `Batch.weight` counts. `evaluate(module, step)` runs
    on rank 0, in evaluation mode and in the precision of training. On return the module is in evaluation mode and holds the best
    weights if `best` names a metric, else the last ones. The mean of the weights after the steps in `average` is evaluated at the
    end, and kept if it is at least as good as the best, or if there is no `best`. Ctrl-C and SIGTERM end the run after the current
    step and save a checkpoint.
    """
    with ExitStack() as stack:
        stack.enter_context(cpu_threads(config.threads))
        world, device = join_world(config.device)
        interrupt = stack.enter_context(_deferred_signals())
        if device.type == "cuda":
            stack.enter_context(_quiet_collector())
        pace = _pace(config, source, world, flops_per_token)
        run = TrainingRun(module, config, folder, world, device, pace, best, average, flops_per_token)
        stack.enter_context(closing(run))
        try:
            run.resume()
            if not run.done:
                stepper = Stepper(run.strategy, source, run.optimiser, run.sums, config, world, device)
                run.strategy.trained.train()
                pace.begin(run.step)
                run.meter.start(run.step)
                indices = count(run.step) if pace.total is None else range(run.step, pace.total)
                with closing(prefetch(stepper.load, indices)) as loaded:
                    for micro_batches in loaded:
                        factor = pace.factor(run.step)
                        stepper.step(run.step, micro_batches, factor)
                        run.step, run.lr = run.step + 1, config.lr * factor
                        run.after_step(evaluate)
                        if on_step:
                            on_step(replace(run.report, step=run.step, lr=run.lr, fraction=pace.fraction(run.step)))
                        if interrupt.signal is not None:
                            run.stop()
                            interrupt.leave()
                        if run.done:
                            break
            run.writer.wait()
            run.strategy.release()
            if run.selection.weights is not None:
                load_module(module, run.selection.weights)
            world.spread(module_tensors(module).values())
            module.eval()
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
            averaged=run.mean.kept,
            average_value=run.mean.value,
        )


class TrainingRun:
    """State of one run: everything that its log lines report and its checkpoints save."""

    def __init__(
        self,
        module: nn.Module,
        config: TrainConfig,
        folder: Path,
        world: World,
        device: torch.device,
        pace: Pace,
        best: BestOf | None,
        average: Collection[int],
        flops_per_token: float,
    ) -> None:
        self.step = 0
        self.tokens = 0
        self.skipped = 0
        self.done = False
        self.lr = 0.0  # of the last step
        self.report = StepReport(0, pace.total, 0.0)
        self.selection = Selection(best)
        self.mean = WeightMean(average)
        self._checkpoints = Checkpoints(folder)
        self.strategy = choose_strategy(module, config, world, device)
        self.optimiser = Optimiser(self.strategy.trained, config)
        self.sums = StepSums(device)
        self.meter = Meter(flops_per_token)
        self.writer = CheckpointWriter(self._checkpoints)
        self._module = module
        self._config = config
        self._folder = folder
        self._world = world
        self._device = device
        self._pace = pace
        self._autocast = Autocast(config, device)
        self._trackers: Trackers | None = None
        self._saved = 0  # step of the last checkpoint
        # A checkpoint can only be resumed with the same settings.
        self._settings = {"config": json.loads(json.dumps(config.identity())), "steps": pace.total}
        if average:
            self._settings["average"] = sorted(average)

    def resume(self) -> None:
        """Continue from the newest intact checkpoint, or start at step 0."""
        seed_everything(self._config.seed)
        path = self._world.broadcast(self._checkpoints.newest() if self._world.main else None)
        if path is not None:
            checkpoint = self._checkpoints.load(path)
            state = checkpoint.state
            if state["settings"] != self._settings:
                raise ArtifactError(
                    "this checkpoint was written under other training settings",
                    where=path,
                    fix="Restore those settings, use another --out, or start again with --force",
                )
            load_module(self._module, checkpoint.model)
            self.strategy.scatter()
            self.optimiser.load_state(self.strategy.scattered(checkpoint.optimizer))
            self.sums.load_state(state["tally"], self._world)
            self.selection.load_state(state["selection"], checkpoint.best)
            if self.mean.steps:
                self.mean.load_state(state["mean"], checkpoint.mean)
            self.step = self._saved = checkpoint.step
            self.tokens, self.skipped, self.done = state["tokens"], state["skipped"], state["done"]
            self._pace.load_state(state["pace"])
            restore(checkpoint.rng)
            log.event("train.resumed", step=self.step, path=path)
        if self._world.main:
            self._trackers = Trackers(self._folder, self.step)

    def after_step(self, evaluate: Evaluate | None) -> None:
        """Log, evaluate and save if due. Saving comes last because a checkpoint includes the results of the other two."""
        config, last = self._config, self._pace.over(self.step)
        if last or self.step % config.log_every == 0 or self._pace.looks_at(self.step):
            self._log()
            last = self._pace.over(self.step)
        elif self._device.type == "cpu":  # on a GPU this would synchronise, so it is checked only at log lines
            self._check_skipped(self.sums.skipped_in_a_row())
        if evaluate is not None and (last or (config.eval_every and self.step % config.eval_every == 0)):
            self._evaluate(evaluate)
        if self.step in self.mean.steps:
            self.strategy.gather()
            self.mean.add(self._module)
        if last and self.mean.weights is not None:
            self._judge_mean(self.mean.weights, evaluate)
        self.done = last or (config.patience is not None and self.selection.stale >= config.patience)
        if config.checkpoint_every and (self.done or self.step % config.checkpoint_every == 0):
            self._save()

    def stop(self) -> None:
        """Save before exiting. With several ranks, keep the last checkpoint, because they may be at different steps."""
        if self._world.size == 1 and self._config.checkpoint_every and self._saved < self.step:
            self._save()
        self.writer.wait()
        if self._saved:
            console().print(f"stopped; the same command resumes from step {self._saved:,}")

    def close(self) -> None:
        """Finish the current checkpoint and close the logs."""
        self.writer.close()
        if self._trackers is not None:
            self._trackers.close()

    def _log(self) -> None:
        reading = self.sums.read(self._world)
        rates = self.meter.read(self.step, reading.tokens)
        self._pace.observe(self.step, rates.step_seconds)
        if reading.skipped > self.skipped:
            log.warning(
                "train.skipped",
                "{skipped} steps skipped until step {step}, because loss or gradient was not finite or far too large",
                step=self.step,
                skipped=reading.skipped,
                in_a_row=reading.skipped_in_a_row,
            )
        self.skipped = reading.skipped
        self.tokens += reading.tokens
        if self._trackers:
            values = {"loss": reading.loss, "lr": self.lr, "grad_norm": reading.grad_norm}
            counts = {"tokens": self.tokens, "skipped": self.skipped}
            self._trackers.record("train", self.step, {**values, **counts, **reading.logs}, asdict(rates))
        self.report = replace(
            self.report,
            loss=reading.loss,
            tokens_per_second=rates.tokens_per_second,
            flops_per_second=rates.flops_per_second,
            seconds_left=self._pace.seconds_left(self.step, rates.step_seconds),
        )
        self.sums.restart()
        self._check_skipped(reading.skipped_in_a_row)

    def _check_skipped(self, in_a_row: int) -> None:
        if in_a_row >= _MAX_SKIPPED:
            spike = ", or the gradient a spike," if self._config.spike else ""
            raise OslerError(
                f"training diverged: loss or gradient was not finite{spike} {in_a_row} steps in a row, up to step {self.step}",
                where=self._folder,
                fix=f"Lower train.lr (now {self._config.lr:g}) or lengthen train.warmup, and start again with --force",
            )

    def _evaluate(self, evaluate: Evaluate) -> None:
        with self.meter.paused(), self.strategy.evaluating():
            metrics = self._metrics(evaluate, "eval")
        self.selection.judge(metrics, self.step, module_tensors(self._module))

    def _judge_mean(self, mean: Mapping[str, torch.Tensor], evaluate: Evaluate | None) -> None:
        """Evaluate the mean weights and keep them if they are best. Without a selection rule they are always kept."""
        if evaluate is not None and self.selection.rule is not None:
            with self.meter.paused(), self.strategy.evaluating():
                last = {name: tensor.clone() for name, tensor in module_tensors(self._module).items()}
                load_module(self._module, mean)
                metrics = self._metrics(evaluate, "average")
                load_module(self._module, last)
            self.mean.value = metrics[self.selection.rule.metric]
            self.mean.kept = self.selection.judge(metrics, self.step, mean, ties=True)
        else:
            self.selection.weights = mean
            self.mean.kept = True

    def _metrics(self, evaluate: Evaluate, kind: str) -> dict[str, float]:
        """Evaluate on rank 0, log the metrics as records of `kind`, and return them on every rank."""
        metrics: dict[str, float] = {}
        self._module.eval()
        if self._world.main:
            with torch.no_grad(), self._autocast.context():
                metrics = {name: float(value) for name, value in evaluate(self._module, self.step).items()}
        metrics = self._world.broadcast(metrics)
        self._module.train()
        if self._trackers:
            self._trackers.record(kind, self.step, metrics, {})
        return metrics

    def _save(self) -> None:
        sums = self.sums.state(self._world)
        self._saved = self.step
        with self.meter.paused():
            self.strategy.gather()
            optimizer = self.strategy.gathered(self.optimiser.state())
            if self._trackers is None:
                return  # only rank 0 writes
            self._trackers.sync()
            state = {
                "tokens": self.tokens,
                "skipped": self.skipped,
                "done": self.done,
                "tally": sums,
                "pace": self._pace.state(self.step),
                "selection": self.selection.state(),
                "settings": self._settings,
            }
            if self.mean.steps:
                state["mean"] = self.mean.state()
            self.writer.save(
                Checkpoint(
                    step=self.step,
                    state=state,
                    model=module_tensors(self._module),
                    optimizer=optimizer,
                    rng=snapshot(),
                    best=self.selection.weights,
                    mean=self.mean.weights,
                )
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
            "a FLOP budget is not supported here: the FLOPs of a step are not known in advance",
            fix="Set train.steps, or a time as train.budget",
        )
    return StepPace(config, source.steps_for(budget.flops / flops_per_token))


class _Interrupt:
    """A received signal, deferred to the end of the step."""

    signal: int | None = None

    def receive(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal == signal.SIGINT == number:
            raise KeyboardInterrupt  # a second Ctrl-C takes effect at once
        self.signal = number

    def leave(self) -> None:
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def _deferred_signals() -> Iterator[_Interrupt]:
    """Defer SIGINT and SIGTERM. Does nothing outside the main thread, where Python allows no signal handlers."""
    interrupt = _Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    previous = {number: signal.signal(number, interrupt.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Exclude long-lived objects from garbage collection, whose pauses would stall a GPU."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
