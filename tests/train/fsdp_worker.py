"""The runs that test_parallel_fsdp compares; under torchrun with two processes, or imported and run in one."""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from ddp_worker import Stopped, note_threads
from safetensors.torch import save_file
from torch import nn
from train_toys import LABELS, VOCABULARY, ToySource, config

from osler.train.checkpoint import module_tensors
from osler.train.loop import train
from osler.train.parallel import Sharded, World
from osler.train.source import Batch, LossOutput
from osler.train.stats import BestOf

STEPS, WIDTH = 14, 16


class Layer(nn.Module):
    """A residual layer with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.2)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.dropout(torch.tanh(self.linear(self.norm(hidden))))


class Deep(nn.Module):
    """What an encoder has: a list of layers, a decoder tied to the embeddings, several heads, and a weight without use."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(2))
            self.decoder = nn.Linear(WIDTH, VOCABULARY)
            self.decoder.weight = self.embedding.weight
            self.heads = nn.ModuleDict({name: nn.Linear(WIDTH, LABELS) for name in "abc"})
            self.idle = nn.Linear(WIDTH, 1)
        self.register_buffer("constant", torch.ones(3))

    def forward(self, payload: dict[str, Any]) -> LossOutput:
        hidden = self.embedding(payload["tokens"])
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.heads[payload["head"]](hidden)
        loss = nn.functional.cross_entropy(logits, payload["labels"], reduction="sum")
        loss = loss + 0.1 * nn.functional.cross_entropy(self.decoder(hidden), payload["tokens"], reduction="sum")
        return LossOutput(loss * payload.get("factor", 1.0), {f"loss/{payload['head']}": loss / len(payload["labels"])})


class TurningHeads(ToySource):
    """Three micro-batches a step; which heads they use differs from rank to rank, and head c rests every second step."""

    def __init__(self) -> None:
        super().__init__(STEPS, micro=3, heads=["a", "b", "c"], bad=frozenset({(5, 1)}))

    def load(self, ref: tuple[int, int]) -> Batch:
        batch = super().load(ref)
        if ref[0] % 2 and batch.payload["head"] == "c":
            batch.payload["head"] = "a"
        return batch


def run(folder: Path, parallel: str = "fsdp", stop: int | None = None) -> None:
    """Three micro-batches a step for two ranks, a bad one among them, dropout, keep-best, a mean, a real evaluation."""
    rank = int(os.environ.get("RANK", "0"))
    module = Deep(seed=rank)  # the first rank's weights are the ones that count
    source = TurningHeads()
    settings = config(checkpoint_every=4, eval_every=3, log_every=2, warmup=0.2, parallel=parallel)
    evaluated = []

    def evaluate(given: nn.Module, step: int) -> dict[str, float]:
        evaluated.append(step)
        with torch.inference_mode():
            # The caller's module and a part of it, as fine-tuning does, not the one given.
            loss = float(module(ToySource(99, heads=["a"]).load((77, 0)).payload).loss_sum)
            part = float(module.layers[0](module.embedding.weight).mean())
        return {"loss": loss, "part": part, "score": float(step == 12), "same": float(given is module)}

    def on_step(report: Any) -> None:
        if report.step == stop:
            raise Stopped

    try:
        best, average = BestOf("score"), [5, 10, 14]
        result = train(
            module, source, settings, folder=folder, evaluate=evaluate, best=best, average=average, on_step=on_step
        )
    except Stopped:
        return
    save_file(module_tensors(module), folder / f"final-{rank}.safetensors")
    notes = {
        "loaded": source.loaded,
        "evaluated": evaluated,
        "summary": [result.step, result.best_step, result.best_value, result.tokens, result.skipped],
        "plain": all(type(parameter) is nn.Parameter for parameter in module.parameters()),
        "tied": module.decoder.weight is module.embedding.weight,
        "mode": module.training,
    }
    (folder / f"notes-{rank}.json").write_text(json.dumps(notes))


def note_shards(path: Path, world: World) -> None:
    """Write down how many numbers of each parameter this rank holds."""
    held = Sharded(Deep(), config(), world, torch.device("cpu"))
    path.write_text(json.dumps({name: p.to_local().numel() for name, p in held.trained.named_parameters()}))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    world = World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    atexit.register(note_threads, out / f"threads-{world.rank}")  # first in, last out
    run(out / "straight")
    run(out / "started-by-two", stop=6)
    run(out / "started-by-one")
    run(out / "started-by-ddp", parallel="ddp", stop=6)
    run(out / "started-by-ddp")
    note_shards(out / f"shards-{world.rank}.json", world)
