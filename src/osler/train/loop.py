"""The training loop: pretraining, distillation, fine-tuning and multi-task learning all run through `train`."""

from __future__ import annotations

import gc
import json
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
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
from osler.train.parallel import World, abandon_world, hold, join_world
from osler.train.precision import Autocast, choose_device, cpu_threads
from osler.train.schedule import ClockPace, Pace, StepPace
from osler.train.source import BatchSource, CountedSource, prefetch
from osler.train.stats import BestOf, Meter, Selection, StepSums, Trackers, read_history
from osler.train.step import Stepper

if TYPE_CHECKING:
    from osler.train.config import TrainConfig


class Interrupt:
    """A request to stop that waits for the end of the step."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Note the signal; a second Ctrl-C does not wait."""
        if self.signal == signal.SIGINT == number:
            raise KeyboardInterrupt
        self.signal = number

    def obey(self) -> None:
        """Leave as the signal asked: KeyboardInterrupt for Ctrl-C, the conventional exit code for SIGTERM."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def deferred() -> Iterator[Interrupt]:
    """Hold SIGINT and SIGTERM back; outside the main thread, where Python allows no handlers, do nothing."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    previous = {number: signal.signal(number, interrupt.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


log = get_logger("osler.train")

Evaluate = Callable[[nn.Module, int], Mapping[str, float]]


@dataclass(frozen=True)
class StepReport:
    """Where a run is, for a progress display; loss and speed are those of the last log line; steps None: the clock ends it."""

    step: int
    steps: int | None
    lr: float
    fraction: float = 0.0
    loss: float | None = None
    tokens_per_second: float | None = None
    flops_per_second: float | None = None
    seconds_left: float | None = None


class TrainingRun:
    """The state of one run."""

    def __init__(
        self,
        module: nn.Module,
        config: TrainConfig,
        folder: Path,
        world: World,
        device: torch.device,
        *,
        pace: Pace,
        best: BestOf | None,
        flops_per_token: float,
    ) -> None:
        self.step = 0
        self.tokens = 0
        self.skipped = 0
        self.done = False
        self.selection = Selection(best)
        self._module = module
        self._holding = hold(module, config, world, device)
        self._config = config
        self._folder = folder
        self._world = world
        self._device = device
        self._pace = pace
        self._optimiser = Optimiser(self._holding.trained, config)
        self._autocast = Autocast(config, device)
        self._tally = StepSums(device)
        self._meter = Meter(flops_per_token)
        self._checkpoints = Checkpoints(folder, config.keep)
        self._writer = CheckpointWriter(self._checkpoints, device)
        self._trackers: Trackers | None = None
        self._report = StepReport(0, pace.total, 0.0)
        self._saved = 0
        self._rate = 0.0  # the learning rate of the step just done

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, or begin."""
        seed_everything(self._config.seed)
        path = self._world.decide(self._checkpoints.newest)
        if path is not None:
            self._restore(path)
            log.event("train.resumed", step=self.step, path=path)
        if self._world.main:
            self._trackers = Trackers(self._folder, self.step)

    def steps(
        self, source: BatchSource, evaluate: Evaluate | None, on_step: Callable[[StepReport], None] | None
    ) -> Generator[int]:
        """Do the remaining steps, yielding the number done after each."""
        if self.done:
            return
        stepper = Stepper(self._holding, source, self._optimiser, self._tally, self._config, self._world, self._device)
        begin, end = self.step, self._pace.total
        self._holding.trained.train()
        self._pace.begin(self.step)
        self._meter.start(self.step)
        with closing(prefetch(stepper.load, count(begin) if end is None else range(begin, end))) as loaded:
            for index, micro_batches in enumerate(loaded, start=begin):
                factor = self._pace.factor(index)
                stepper.update(index, micro_batches, factor)
                self._rate = self._config.lr * factor
                self.step = index + 1
                self._settle(evaluate)
                if on_step:
                    on_step(self._progress())
                yield self.step
                if self.done:
                    return

    def leave(self) -> None:
        """Write a checkpoint on the way out; ranks may be at different steps, so several leave it at their last one."""
        if self._world.size == 1 and self._config.checkpoint_every and self._saved < self.step:
            self._save()
        self._writer.wait()
        if self._saved:
            console().print(f"stopped; the same command goes on from update {self._saved:,}")

    def finish(self) -> None:
        """Put the best weights in place, on every rank, once the last checkpoint is on disk."""
        self._writer.wait()
        self._holding.release()
        self.selection.restore_best(self._module)
        self._world.spread(module_tensors(self._module).values())
        self._module.eval()

    def close(self) -> None:
        """Close the logs; a checkpoint that is being written is written to its end."""
        self._writer.close()
        if self._trackers is not None:
            self._trackers.close()

    def _progress(self) -> StepReport:
        return replace(self._report, step=self.step, lr=self._rate, fraction=self._pace.fraction(self.step))

    def _settle(self, evaluate: Evaluate | None) -> None:
        """What is due after a step: log, evaluate, checkpoint; in this order, so that a checkpoint holds it all."""
        config, last = self._config, self._pace.over(self.step)
        if last or self.step % config.log_every == 0 or self._pace.looks_at(self.step):
            self._log()
            last = self._pace.over(self.step)
        elif self._device.type == "cpu":  # where looking is free; a GPU is asked when a log line is due
            self._check_skipped(self._tally.skipped_in_a_row())
        if evaluate is not None and (last or (config.eval_every and self.step % config.eval_every == 0)):
            self._evaluate(evaluate)
        self.done = last or (config.patience is not None and self.selection.stale >= config.patience)
        if config.checkpoint_every and (self.done or self.step % config.checkpoint_every == 0):
            self._save()

    def _log(self) -> None:
        reading = self._tally.read(self._world)
        rates = self._meter.read(self.step, reading.tokens)
        self._pace.observe(self.step, rates.step_seconds)
        if reading.skipped > self.skipped:
            log.warning("train.skipped", step=self.step, skipped=reading.skipped, in_a_row=reading.skipped_in_a_row)
        self.skipped = reading.skipped
        self.tokens += reading.tokens
        if self._trackers:
            values = {"loss": reading.loss, "lr": self._rate, "grad_norm": reading.grad_norm}
            counts = {"tokens": self.tokens, "skipped": self.skipped}
            self._trackers.record("train", self.step, {**values, **counts, **reading.logs}, asdict(rates))
        self._report = replace(
            self._report,
            loss=reading.loss,
            tokens_per_second=rates.tokens_per_second,
            flops_per_second=rates.flops_per_second,
            seconds_left=self._pace.seconds_left(self.step, rates.step_seconds),
        )
        self._tally.restart()
        self._check_skipped(reading.skipped_in_a_row)

    def _check_skipped(self, in_a_row: int) -> None:
        if in_a_row >= self._config.max_skipped:
            spike = ", or the gradient a spike," if self._config.spike else ""
            raise OslerError(
                f"training diverged: loss or gradient was not finite{spike} {in_a_row} steps in a row, up to step {self.step}",
                where=self._folder,
                fix="Lower lr, lengthen warmup or set clip, and start again with --force",
            )

    def _evaluate(self, evaluate: Evaluate) -> None:
        def measure() -> dict[str, float]:
            with torch.no_grad(), self._autocast.context():
                return {name: float(value) for name, value in evaluate(self._module, self.step).items()}

        with self._meter.paused(), self._holding.evaluating():
            self._module.eval()
            metrics = self._world.decide(measure)
            self._module.train()
        if self._trackers:
            self._trackers.record("eval", self.step, metrics, {})
        self.selection.judge(metrics, self.step, self._module)

    def _save(self) -> None:
        tally = self._tally.state(self._world)
        self._saved = self.step
        with self._meter.paused():
            self._holding.gather()
            optimizer = self._holding.gathered(self._optimiser.state())
            if self._trackers is None:
                return
            state = {"tokens": self.tokens, "skipped": self.skipped, "done": self.done, "tally": tally}
            state["pace"] = self._pace.state(self.step)
            self._trackers.sync()
            self._writer.save(
                Checkpoint(
                    step=self.step,
                    state={**state, "selection": self.selection.state(), "settings": self._settings()},
                    model=module_tensors(self._module),
                    optimizer=optimizer,
                    rng=snapshot(),
                    best=self.selection.weights,
                )
            )

    def _restore(self, path: Path) -> None:
        checkpoint = self._checkpoints.load(path)
        state = checkpoint.state
        if state["settings"] != self._settings():
            raise ArtifactError(
                "this checkpoint was written under other training settings",
                where=path,
                fix="Go back to those settings, use another --out, or start again with --force",
            )
        load_module(self._module, checkpoint.model)
        self._holding.scatter()
        self._optimiser.load_state(self._holding.scattered(checkpoint.optimizer))
        self._tally.load_state(state["tally"], self._world)
        self.selection.load_state(state["selection"], checkpoint.best)
        self.step = self._saved = checkpoint.step
        self.tokens, self.skipped, self.done = state["tokens"], state["skipped"], state["done"]
        self._pace.load_state(state["pace"])
        restore(checkpoint.rng)

    def _settings(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be gone on from."""
        settings: dict[str, Any] = json.loads(json.dumps(self._config.identity()))
        return {"config": settings, "steps": self._pace.total}


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
        run = TrainingRun(module, config, folder, world, device, pace=pace, best=best, flops_per_token=flops_per_token)
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
