"""Speed and memory of `osler annotate` for the same text, cut in different ways, beside an earlier version of osler.

    python benchmarks/annotate.py [--before CHECKOUT/src] [--json FIGURES.json]

The notes are one line each. They come as one JSON Lines file, as one file per note, and as one CSV table; a fourth input is all of them
in one long document. The bundle has random weights, a small encoder and two taggers: weights do not change the time. Every case runs
in a process of its own with one thread, `--rounds` times, and the best time is kept. Measured is `run`, from reading the files to the
finished folder, without imports; `memory` is the peak of the process beyond what it held before. With `--before`, the same is done with the
package in that folder.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HEADS = {"drugs": ("DRUG", "DOSE", "ROUTE"), "problems": ("PROBLEM", "TEST", "TREATMENT")}
OUTSIDE = 1.0
SENTENCE = "aspirin 81 mg daily for chest pain no fever cough metformin 500 twice a day at home with the patient"
WORDS = tuple(SENTENCE.split())

CHILD = """
import json, resource, sys, time
from pathlib import Path
import torch
from osler.artifacts.bundle import Bundle
from osler.stages.serve import annotate
from osler.stages.serve.config import AnnotateRecipe

torch.set_num_threads(1)
source, bundle, out = map(Path, sys.argv[1:4])
Bundle.load(bundle, "cpu")
found = []
for number in range(int(sys.argv[4])):
    before, began, worked = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter(), time.process_time()
    recipe = AnnotateRecipe(files=(source,), bundle=bundle, device="cpu", language="en")
    made = annotate.run(recipe, out / str(number))
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found.append({"seconds": seconds, "processor": processor, "peak": peak / 1024, "memory": (peak - before) / 1024})
best = min(found, key=lambda one: one["processor"])
print(json.dumps({**best, "peak": found[-1]["peak"], "memory": found[0]["memory"], **made.counts}))
"""


def make_bundle(folder: Path, lines: list[str]) -> Path:
    """A bundle with a tokenizer of its own and random weights."""
    import torch
    import transformers
    from tokenizers import Tokenizer as Trained
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    from osler.artifacts.bundle import Bundle
    from osler.artifacts.bundle_spec import BundleHead, BundleSpec
    from osler.artifacts.tokenizer import Tokenizer
    from osler.core.artifact import Workspace, produce
    from osler.core.config import Recipe
    from osler.nn.encoder import PackedEncoder
    from osler.nn.multihead import MultiHeadModel
    from osler.tasks.card import TaskCard

    trained = Trained(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(lines[:200], trainer)
    trained.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    trained.save(str(tokenizer / "tokenizer.json"))
    heads = {}
    for name, labels in HEADS.items():
        values = {
            "name": name,
            "title": name,
            "kind": "tagging",
            "language": "en",
            "labels": labels,
            "protocol": "plain",
            "protocols": {"plain": {"metric": "f1"}},
            "source": {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}},
        }
        heads[name] = BundleHead(card=TaskCard.model_validate(values), protocol="plain")
    spec = BundleSpec(max_length=256, overlap=64, heads=heads)

    def build(work: Workspace) -> None:
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=600,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=512,
            max_position_embeddings=258,
            pad_token_id=1,
        )
        model = MultiHeadModel(PackedEncoder(transformers.BertModel(config, add_pooling_layer=False).eval()))
        bundle = Bundle.of(model, Tokenizer.open(tokenizer), spec)
        for name, builder in bundle.builders.items():
            model.add_head(name, builder.head, len(builder.outputs), seed=0, labels=builder.outputs)
            raise_outside(model.head(name))
        bundle.save(work.path, tokenizer_from=tokenizer)

    return produce(folder / "bundle", kind="bundle", recipe=Recipe(), parents={}, build=build).path


def raise_outside(head: Any) -> None:
    """Random weights mark every word. With this, about one word in ten is in a mention, as in clinical text."""
    import torch

    last = [layer for layer in head.modules() if isinstance(layer, torch.nn.Linear)][-1]
    with torch.no_grad():
        last.bias[0] += OUTSIDE


def make_lines(count: int) -> list[str]:
    """Notes of one line, 60 to 140 characters long."""
    return [
        " ".join(WORDS[(number * 7 + place * (1 + number % 5)) % len(WORDS)] for place in range(12 + number % 16)) + "."
        for number in range(count)
    ]


def make_inputs(folder: Path, lines: list[str], characters: int) -> dict[str, Path]:
    """The same lines as one file, as many files, as a table, and as one document."""
    rows = folder / "notes.jsonl"
    rows.write_text("".join(json.dumps({"id": str(n), "text": line}) + "\n" for n, line in enumerate(lines)))
    table = folder / "notes.csv"
    with open(table, "w", newline="") as stream:
        csv.writer(stream).writerows([["id", "text"], *enumerate(lines)])
    files = folder / "notes"
    files.mkdir()
    for number, line in enumerate(lines):
        (files / f"{number:06d}.txt").write_text(line)
    document = folder / "document.txt"
    text = " ".join(lines)
    document.write_text((text * (characters // len(text) + 1))[:characters])
    return {"one JSON Lines file": rows, "one file per note": files, "one CSV table": table, "one document": document}


def measure(package: Path, source: Path, bundle: Path, rounds: int) -> dict[str, Any]:
    """The best of some rounds, by processor time, because other processes disturb the clock; memory is that of the first."""
    environment = os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-c", CHILD, str(source), str(bundle), out, str(rounds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=4_000)
    parser.add_argument("--characters", type=int, default=1_000_000, help="length of the one document")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--before", type=Path, help="the src folder of an earlier checkout")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    packages = {"now": Path(__file__).resolve().parents[1] / "src"}
    if options.before:
        packages["before"] = options.before.resolve()
    lines = make_lines(options.notes)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        bundle = make_bundle(work, lines)
        inputs = make_inputs(work, lines, options.characters)
        print(
            f"{options.notes:,} notes of one line, {sum(map(len, lines)):,} characters; a document of {options.characters:,}"
        )
        print(f"{'':<22}{'':<8}{'notes/s':>10}{'kB/s':>9}{'memory MiB':>12}{'peak MiB':>10}")
        for name, source in inputs.items():
            results[name] = {
                version: measure(package, source, bundle, options.rounds) for version, package in packages.items()
            }
            size = options.characters if name == "one document" else sum(map(len, lines))
            for version, one in results[name].items():
                speed = f"{one['documents'] / one['processor']:>10.0f}" if one["documents"] > 1 else f"{'':>10}"
                print(
                    f"{name:<22}{version:<8}{speed}{size / one['processor'] / 1000:>9.0f}"
                    f"{one['memory']:>12.0f}{one['peak']:>10.0f}",
                    flush=True,
                )
    if options.json:
        about = {
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "settings": {name: str(value) for name, value in vars(options).items() if name not in ("json", "before")},
        }
        options.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
