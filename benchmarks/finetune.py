"""Speed of fine-tuning: `osler finetune` against a Hugging Face Trainer script that does the same work.

    python benchmarks/finetune.py --task tasks/bc5cdr-chem --model encoder --epochs 20 --json out.json

Both sides train the same model on the same windows of the same documents with the same batch size, learning rate, schedule and
number of epochs. They score dev after every epoch under the task's protocol, keep the best epoch, and score test once. Each side is
its own process, and they take turns, once per seed. `train s` is the time from reading data and model until the weights of the best
epoch are restored, with all evaluations; `all s` is the time of the process, with imports and the test split.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

COMMAND = [sys.executable, str(Path(__file__).resolve())]
WARMUP, DECAY = 0.1, 0.01


def osler_side(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Run `osler finetune` and `osler evaluate`."""
    from osler.artifacts.bundle import Bundle
    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.finetune.config import FinetuneRecipe, FinetuneTraining
    from osler.stages.finetune.run import run
    from osler.tasks.scoring import score

    config = FinetuneTraining(
        lr=options.lr,
        warmup=WARMUP,
        weight_decay=DECAY,
        seed=options.seed,
        checkpoint_every=0,
        precision=options.precision,
    )
    recipe = FinetuneRecipe(
        model=str(options.model),
        tasks=(options.task,),
        epochs=options.epochs,
        batch_size=options.batch,
        max_length=options.length,
        overlap=options.overlap,
        train=config,
    )
    began = time.perf_counter()
    run(recipe, folder / "bundle")
    trained = time.perf_counter() - began
    task = TaskFolder.open(options.task)
    gold = task.read("test")
    predicted = Bundle.load(folder / "bundle").predict(task.card.name, gold)
    return {"train_seconds": trained, "f1": score(task.card, task.card.protocol_named(), gold, predicted).main}


def trainer_side(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Run a usual Hugging Face script; windows and scoring are osler's, so that both sides are scored the same way."""
    import torch
    import transformers

    from osler.artifacts.task_folder import TaskFolder
    from osler.artifacts.tokenizer import Tokenizer
    from osler.tasks.instances.base import make_builder
    from osler.tasks.scoring import score

    began = time.perf_counter()
    task = TaskFolder.open(options.task)
    builder = make_builder(
        task.card, task.card.protocol, Tokenizer.open(options.model), options.length, options.overlap
    )
    protocol = task.card.protocol_named(task.card.protocol)
    records = {split: task.read(split) for split in ("train", "dev", "test")}
    instances = {split: builder.build(found, gold=split == "train").instances for split, found in records.items()}

    class Windows(torch.utils.data.Dataset):  # type: ignore[type-arg]
        """Windows of a split; without gold they have no labels and only the scorer is used."""

        def __init__(self, split: str) -> None:
            self.found = instances[split]

        def __len__(self) -> int:
            return len(self.found)

        def __getitem__(self, number: int) -> dict[str, list[int]]:
            window = self.found[number]
            labels = [-100] * window.length if window.target is None else window.target.tolist()
            return {"input_ids": window.ids.tolist(), "attention_mask": [1] * window.length, "labels": labels}

    def scored(split: str, logits: np.ndarray) -> float:
        windows = instances[split]
        outputs = [rows[: window.length] for rows, window in zip(logits, windows, strict=True)]
        return score(task.card, protocol, records[split], builder.decode(records[split], windows, outputs)).main

    cuda = torch.cuda.is_available()
    transformers.set_seed(options.seed)
    auto: Any = transformers.AutoModelForTokenClassification
    model = auto.from_pretrained(options.model, num_labels=len(builder.outputs))
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "trainer"),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=4 * options.batch,
        learning_rate=options.lr,
        warmup_steps=WARMUP,
        weight_decay=DECAY,
        lr_scheduler_type="linear",
        optim="adamw_torch_fused",
        bf16=options.precision == "bf16" or (cuda and options.precision == "auto"),
        use_cpu=not cuda,
        eval_strategy="epoch",
        save_strategy="best",
        save_only_model=True,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        seed=options.seed,
        logging_steps=50,
        report_to="none",
        disable_tqdm=True,
        dataloader_num_workers=2 if cuda else 0,
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    trainer = transformers.Trainer(
        model,
        arguments,
        transformers.DataCollatorForTokenClassification(tokenizer),
        Windows("train"),
        Windows("dev"),
        processing_class=tokenizer,
        compute_metrics=lambda found: {"f1": scored("dev", found.predictions)},
    )
    trainer.train()
    trained = time.perf_counter() - began
    trainer.compute_metrics = None  # it would score dev
    return {"train_seconds": trained, "f1": scored("test", trainer.predict(Windows("test")).predictions)}  # type: ignore[arg-type]


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Run both sides in turns, once per seed."""
    results: dict[str, list[dict[str, float]]] = {"osler": [], "trainer": []}
    print(f"{'':<10}{'seed':>6}{'train s':>10}{'all s':>10}{'test f1':>10}")
    for seed in options.seeds:
        for side, found in results.items():
            began = time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="finetune-benchmark-") as folder:
                out = Path(folder) / "figures.json"
                command = [*COMMAND, *sys.argv[1:], "--side", side, "--seed", str(seed), "--folder", folder]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if not out.exists():
                    raise SystemExit(f"{side} failed:\n{done.stderr[-4000:]}")
                figures = {**json.loads(out.read_text()), "all_seconds": time.perf_counter() - began}
            found.append(figures)
            cells = (f"{figures[name]:>10.2f}" for name in ("train_seconds", "all_seconds"))
            print(f"{side:<10}{seed:>6}", *cells, f"{100 * figures['f1']:>10.2f}", sep="", flush=True)
    return {
        side: {name: mean(run[name] for run in runs) for name in runs[0]} | {"runs": runs}
        for side, runs in results.items()
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", type=Path, required=True, help="a prepared tagging task")
    parser.add_argument("--model", type=Path, required=True, help="an encoder folder")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--overlap", type=int, default=64)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto", help="precision of both sides")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print the table, or run one side (in a child process)."""
    options = parse()
    if options.side:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        side = osler_side if options.side == "osler" else trainer_side
        figures = side(options, options.folder)
        (options.folder / "figures.json").write_text(json.dumps(figures))
        return
    results = compare(options)
    for name in ("train_seconds", "all_seconds"):
        ratio = results["trainer"][name] / results["osler"][name]
        print(f"osler is {ratio:.2f} times as fast ({name.replace('_', ' ')}, mean over {len(options.seeds)} seeds)")
    print(f"test f1: osler {100 * results['osler']['f1']:.2f}, Trainer {100 * results['trainer']['f1']:.2f}")
    if options.json:
        options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
