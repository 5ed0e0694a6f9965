"""Train heads of a bundle further on documents with and without forms. The encoder stays as it is, so the other heads do too.

    python models/osler-compact/finish.py HEADS --tasks TASKS --finish pharmaconer cantemist --forms meddocan --out FINISHED

HEADS is the bundle that `osler finetune --recipe compact/heads` made, TASKS the folder that `osler tasks prepare --all` made. The encoder
reads every text once, and the heads are trained on what it gave: minutes on two cores. Nothing is chosen here.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from osler.artifacts.bundle import Bundle
from osler.artifacts.runner import length_batches, pack_instances
from osler.artifacts.task_folder import TaskFolder
from osler.core.files import sha256, write_json
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.batches import TaskInstances
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import read_data
from osler.tasks.instances.base import Instance

SEED = 1
EPOCHS = 12
BATCH = 16
RATE = 3e-3


@dataclass(frozen=True)
class Read:
    """A training text as the encoder gave it: hidden states in half precision."""

    instance: Instance
    hidden: torch.Tensor


def chosen(data: TaskInstances) -> list[Instance]:
    """All windows, and as many excerpts, drawn once."""
    windows = len(data.instances) - data.excerpts
    drawn = np.random.default_rng(SEED).permutation(data.excerpts)[: data.excerpts_drawn(1.0)]
    return [*data.instances[:windows], *(data.instances[windows + number] for number in drawn)]


def read(model: MultiHeadModel, instances: list[Instance]) -> list[Read]:
    """Run the encoder once over every text."""
    found: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        for numbers in length_batches(instances, 4096):
            hidden = model.encoder(pack_instances([instances[n] for n in numbers], model)).half()
            parts = hidden.split([instances[n].length for n in numbers])
            found |= {number: part.clone() for number, part in zip(numbers, parts, strict=True)}
    return [Read(instance, found[number]) for number, instance in enumerate(instances)]


def train(model: MultiHeadModel, name: str, texts: list[Read]) -> None:
    """Train one head; the learning rate falls linearly to 0."""
    head: Any = model.head(name).train()
    optimiser = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=0.01)
    order = np.random.default_rng(SEED)
    steps = EPOCHS * -(-len(texts) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    for epoch in range(EPOCHS):
        total = words = 0.0
        shuffled = order.permutation(len(texts))
        for first in range(0, len(texts), BATCH):
            batch = [texts[number] for number in shuffled[first : first + BATCH]]
            packed = pack_instances([text.instance for text in batch], model)
            targets = torch.from_numpy(np.concatenate([text.instance.target for text in batch]))
            logits = head(torch.cat([text.hidden for text in batch]).float(), packed)
            loss, count = head.batch_loss(logits, targets, packed, None)
            optimiser.zero_grad()
            (loss / count.clamp(min=1)).backward()
            optimiser.step()
            schedule.step()
            total, words = total + float(loss.detach()), words + float(count)
        print(f"{name}: epoch {epoch + 1}, loss {total / words:.4f}", flush=True)
    head.eval()


def main() -> None:
    """Copy the bundle, train the named heads, and write them into the copy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heads", type=Path)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--finish", nargs="+", required=True, help="heads to train further")
    parser.add_argument("--forms", required=True, help="the task whose forms are put around documents")
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the training documents")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    bundle = Bundle.load(given.heads, "cpu")
    others = [name for name in bundle.spec.tasks if name not in given.finish]
    recipe = FinetuneRecipe(
        model=str(given.heads),
        tasks=tuple(given.tasks / name for name in given.finish),
        keep_out=tuple(given.tasks / name for name in others),
        protocols={name: bundle.spec.tasks[name].protocol for name in given.finish},
        tagger="crf",
        excerpts=1.0,
        forms=given.tasks / given.forms,
        fraction=given.fraction,
    )
    data = read_data(recipe, bundle, [TaskFolder.open(path) for path in recipe.tasks])
    for name in given.finish:
        texts = chosen(data.instances[name])
        print(f"{name}: {data.documents[name]} documents, {len(texts)} windows and excerpts", flush=True)
        train(bundle.model, name, read(bundle.model, texts))
    shutil.copytree(given.heads, given.out)
    # Calibration belongs to the old heads; measure.py fits it again.
    (given.out / "calibration.json").unlink(missing_ok=True)
    bundle.model.save(given.out)
    manifest = json.loads((given.out / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"] = {name: sha256(given.out / name) for name in manifest["files"] if (given.out / name).is_file()}
    write_json(given.out / "manifest.json", manifest)


if __name__ == "__main__":
    main()
