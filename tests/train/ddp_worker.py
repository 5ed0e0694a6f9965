"""The runs that test_parallel_ddp compares; under torchrun with two processes, or imported and run in one."""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path

from safetensors.torch import save_file
from train_toys import Toy, ToySource, config

from osler.train.checkpoint import module_tensors
from osler.train.loop import train
from osler.train.stats import BestOf

STEPS, HEADS = 14, ["a", "b"]


class Stopped(Exception):
    """Ends a run half-way on every rank."""


def run(folder: Path, stop: int | None = None) -> None:
    """Three micro-batches a step for two ranks, heads taking turns, dropout, a bad micro-batch, keep-best."""
    module = Toy(heads=HEADS)
    source = ToySource(STEPS, micro=3, heads=HEADS, bad=frozenset({(5, 1)}))
    settings = config(checkpoint_every=4, eval_every=3, log_every=2, warmup=0.2)
    rank = int(os.environ.get("RANK", "0"))
    evaluated = []

    def evaluate(model, step):
        evaluated.append(step)
        return {"score": float(step == 12)}

    def on_step(report):
        if report.step == stop:
            raise Stopped

    try:
        result = train(
            module, source, settings, folder=folder, evaluate=evaluate, best=BestOf("score"), on_step=on_step
        )
    except Stopped:
        return
    save_file(module_tensors(module), folder / f"final-{rank}.safetensors")
    summary = [result.step, result.best_step, result.best_value, result.tokens, result.skipped]
    notes = {"loaded": source.loaded, "evaluated": evaluated, "summary": summary}
    (folder / f"notes-{rank}.json").write_text(json.dumps(notes))


def note_threads(path: Path) -> None:
    """Write down the names of this process's threads, those of C++ included."""
    path.write_text(" ".join((task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    atexit.register(note_threads, out / f"threads-{os.environ['RANK']}")  # first in, last out
    run(out / "straight")
    run(out / "started-by-two", stop=6)
    run(out / "started-by-one")
