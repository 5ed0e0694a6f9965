"""Trains a toy in child processes that are killed again and again, and once without; run by test_kill_resume.

The parent imports torch once and forks: a child is a process of its own, knows nothing but the folder, and dies by
SIGKILL.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # which optimisers load when first used; here once, rather than in every child
import torch.utils.tensorboard
from killing import die_at_call
from train_toys import Toy, ToySource, config

from osler.train.checkpoint import module_tensors
from osler.train.loop import train
from osler.train.stats import BestOf

STEPS = 100
SETTINGS = {"checkpoint_every": 4, "eval_every": 6, "log_every": 3, "warmup": 0.1}


class SlowSource(ToySource):
    """Takes its time, so that kills meet every phase of a step."""

    def load(self, ref):
        time.sleep(0.001)
        return super().load(ref)


def work(folder: Path) -> None:
    torch.set_num_threads(1)
    module = Toy(heads=["a", "b"], width=32)
    source = SlowSource(STEPS, micro=2, heads=["a", "b"])

    def evaluate(model, step):
        return {"score": -abs(step - 70) + float(torch.rand(())) + random.random()}

    train(module, source, config(**SETTINGS), folder=folder, evaluate=evaluate, best=BestOf("score"))
    final = b"".join(value.numpy().tobytes() for value in module_tensors(module).values())
    (folder / "final.bin").write_bytes(final)


def child(folder: Path, trap: tuple[str, int] | None) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            if trap:
                die_at_call(os, *trap)
            work(folder)
        except BaseException as error:
            print("child failed:", repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(straight: Path, broken: Path) -> None:
    assert wait(child(straight, None)) == 0
    chance = random.Random(5)
    codes = []
    # Inside checkpoints: before a sync of a file or folder, before the rename, before the removal of an old one.
    for trap in [("fsync", 3), ("rename", 1), ("fsync", 6), ("rename", 2), ("rmdir", 1), ("fsync", 15), ("unlink", 4)]:
        codes.append(wait(child(broken, trap)))
    # At any moment, from the start of the process on.
    for _ in range(8):
        pid = child(broken, None)
        time.sleep(chance.uniform(0, 0.35))
        os.kill(pid, signal.SIGKILL)
        codes.append(wait(pid))
    print("kills", sum(code == -signal.SIGKILL for code in codes), "others", sum(code > 0 for code in codes))
    assert wait(child(broken, None)) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
