"""Trains a toy in child processes that are killed again and again, and once without; run by test_loop_killed.

The parent imports torch once and forks: a child is a process of its own, knows nothing but the folder, and dies by
SIGKILL.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which optimisers load when first used; here once, rather than in every child
import torch.utils.tensorboard
from killing import die_at_call
from train_toys import Toy, ToySource, config

from osler.train.checkpoint import module_tensors
from osler.train.loop import train
from osler.train.stats import BestOf

STEPS = 200
"""Enough that no child reaches the end before its trap, whichever checkpoint the one before it had written."""
SETTINGS = {"checkpoint_every": 4, "eval_every": 6, "log_every": 3, "warmup": 0.1}


def work(folder: Path) -> None:
    torch.set_num_threads(1)
    module = Toy(heads=["a", "b"], width=32)
    source = ToySource(STEPS, micro=2, heads=["a", "b"])

    def evaluate(model, step):
        return {"score": -abs(step - 70) + float(torch.rand(())) + random.random()}

    train(module, source, config(**SETTINGS), folder=folder, evaluate=evaluate, best=BestOf("score"))
    final = b"".join(value.numpy().tobytes() for value in module_tensors(module).values())
    (folder / "final.bin").write_bytes(final)


def run(folder: Path, trap: tuple[Any, str, int] | None = None) -> int:
    """Work in a child that may die just before the n-th call of a function; returns its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            if trap:
                die_at_call(*trap)
            work(folder)
        except BaseException as error:
            print("child failed:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(straight: Path, broken: Path) -> None:
    assert run(straight) == 0
    chance = random.Random(5)
    # Inside checkpoints: before a sync of a file or folder, before the rename, before the removal of an old one.
    in_checkpoints = [
        ("fsync", 3),
        ("rename", 1),
        ("fsync", 6),
        ("rename", 2),
        ("rmdir", 1),
        ("fsync", 15),
        ("unlink", 4),
    ]
    traps: list[tuple[Any, str, int]] = [(os, *trap) for trap in in_checkpoints]
    # Anywhere else: before a batch, a pass, a log line or an evaluation, also before the first checkpoint of the process.
    places = [(ToySource, "load"), (Toy, "forward"), (json, "dumps"), (random, "random")]
    traps += [(*places[number % 4], chance.randint(1, 12)) for number in range(8)]
    codes = [run(broken, trap) for trap in traps]
    print("kills", codes.count(-signal.SIGKILL), "of", len(codes))
    assert run(broken) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
