"""Eight tasks for the price of one (mulyar2020): one encoder with eight heads against eight models with one head each.

    python benchmarks/inference.py --json base-cpu.json
    python benchmarks/inference.py --device cuda --notes 512 --json base-cuda.json
    python benchmarks/inference.py --size small --notes 16

The heads are those of mulyar2020: five taggers that read notes and three heads that read pairs of sentences. A pair is another input
than a note, so a pair head never shares the pass over the notes. Three comparisons, each in one run on one machine:

- the five document heads of the paper on the notes: one pass against five;
- all eight tasks: one pass over the notes and one over the pairs of each pair task, against five over the notes and the same three
  over the pairs;
- eight document heads (three more that read the complete note): one pass against eight.

Weights are random: they do not change the time. Every model has its own weights in memory. Measured is the time from packed ids on the
CPU to the outputs of all heads on the CPU. Tokenising, which eight models would do eight times, and decoding, which both sides do once
per head, are left out. Both sides take turns, and the one that begins alternates. `ratio` is the median
of the rounds by the clock; on a CPU `processor` is the same by processor time, which other processes on the machine do not disturb.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import transformers

from osler.nn.encoder import PackedEncoder
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import Packed, pack

# Kind and number of outputs of each head; a tagger has two per entity type and one for O.
TAGGERS = {
    "n2c2-2018-ade": ("tagging", 19),
    "i2b2-2014-deid": ("tagging", 47),
    "i2b2-2012-events": ("tagging", 13),
    "i2b2-2010-concepts": ("tagging", 7),
    "quaero-emea": ("tagging", 21),
}
PAIRS = {"n2c2-2019-sts": ("regression", 1), "mednli": ("classification", 3), "medrqe": ("classification", 2)}
MORE = {"specialty": ("classification", 12), "codes": ("multilabel", 50), "severity": ("regression", 1)}
SIZES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "small": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
}
VOCABULARY = 28_996  # BERT-base, cased

Heads = dict[str, tuple[str, int]]
Batches = Sequence[Packed]


@dataclass(frozen=True)
class Pass:
    """One model run over some inputs with some of its heads."""

    model: MultiHeadModel
    batches: Batches
    heads: tuple[str, ...]

    def run(self, options: argparse.Namespace) -> None:
        device, half = torch.device(options.device), options.precision == "bf16"
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            for batch in self.batches:
                for output in self.model(batch.to(device), self.heads).values():
                    output.float().cpu()


def make_model(heads: Heads, options: argparse.Namespace, seed: int) -> MultiHeadModel:
    """A BERT with random weights and some heads, each one linear layer as in the paper."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=VOCABULARY, **SIZES[options.size])
    model = MultiHeadModel(PackedEncoder(transformers.BertModel(config, add_pooling_layer=False).eval()))
    for name, (kind, outputs) in heads.items():
        layers = {} if kind == "tagging" else {"layers": "linear"}
        model.add_head(name, kind, outputs, seed=seed, **layers)
    return model.to(options.device).eval()


def make_batches(count: int, length: int, options: argparse.Namespace, seed: int) -> Batches:
    """Random sequences of one length in batches of osler's size."""
    drawn = np.random.default_rng(seed).integers(5, VOCABULARY, (count, length))
    rows = max(1, options.batch_tokens // length)
    types = np.zeros(length, dtype=np.int64)
    return [
        pack(list(part), pad_id=0, token_types=[types] * len(part))
        for part in (drawn[start : start + rows] for start in range(0, count, rows))
    ]


def comparisons(options: argparse.Namespace) -> dict[str, tuple[list[Pass], list[Pass]]]:
    """The passes of both sides of each comparison: one encoder, and one model per task."""
    everything = TAGGERS | PAIRS | MORE
    shared = make_model(everything, options, seed=0)
    # Eight models: a comparison that has other heads uses the same eight with other heads on top.
    singles = [make_model(everything, options, seed=number) for number in range(1, 9)]
    notes = make_batches(options.notes, options.length, options, seed=0)
    pairs = [make_batches(options.pairs, options.pair_length, options, seed=number) for number in (1, 2, 3)]

    def alone(heads: Heads, inputs: Sequence[Batches]) -> list[Pass]:
        return [Pass(*found, (name,)) for *found, name in zip(singles, inputs, heads, strict=False)]

    over_pairs = [Pass(shared, batches, (name,)) for batches, name in zip(pairs, PAIRS, strict=True)]
    return {
        "five document heads": ([Pass(shared, notes, tuple(TAGGERS))], alone(TAGGERS, [notes] * 5)),
        "all eight tasks": (
            [Pass(shared, notes, tuple(TAGGERS)), *over_pairs],
            alone(TAGGERS | PAIRS, [*[notes] * 5, *pairs]),
        ),
        "eight document heads": ([Pass(shared, notes, tuple(TAGGERS | MORE))], alone(TAGGERS | MORE, [notes] * 8)),
    }


def seconds(passes: Sequence[Pass], options: argparse.Namespace) -> tuple[float, float]:
    """Time of some passes, one after another, by the clock and of the processor.

    The outputs are copied to the CPU, so nothing is left to wait for.
    """
    began, worked = time.perf_counter(), time.process_time()
    for one in passes:
        one.run(options)
    return time.perf_counter() - began, time.process_time() - worked


def compare(one: Sequence[Pass], many: Sequence[Pass], options: argparse.Namespace) -> dict[str, Any]:
    """Time both sides in turns."""
    for side in (one, many):  # warm-up
        Pass(side[0].model, side[0].batches[:1], side[0].heads).run(options)
    times: dict[str, list[tuple[float, float]]] = {"one": [], "many": []}
    for number in range(options.rounds):
        order = [("one", one), ("many", many)]
        for name, passes in order if number % 2 == 0 else order[::-1]:
            times[name].append(seconds(passes, options))
    clock, worked = (
        [single[place] / joint[place] for joint, single in zip(times["one"], times["many"], strict=True)]
        for place in (0, 1)
    )
    found = {
        "passes": [len(one), len(many)],
        "one_encoder_seconds": median(wall for wall, _ in times["one"]),
        "single_models_seconds": median(wall for wall, _ in times["many"]),
        "ratio": median(clock),
        "ratio_lowest": min(clock),
        "ratio_highest": max(clock),
    }
    # Other processes do not count here. On a GPU the processor only waits.
    return found | ({"processor_ratio": median(worked)} if options.device == "cpu" else {})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="base", help="base: BERT-base; small: four layers of 256")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="osler annotate uses fp32")
    parser.add_argument("--notes", type=int, default=4, help="windows of notes")
    parser.add_argument("--length", type=int, default=512, help="sub-words of a window")
    parser.add_argument("--pairs", type=int, help="pairs of each pair task; as many as windows by default")
    parser.add_argument("--pair-length", type=int, default=64, help="sub-words of a pair")
    parser.add_argument("--batch-tokens", type=int, help="sub-words per batch; osler's by default")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    options.pairs = options.pairs or options.notes
    options.batch_tokens = options.batch_tokens or {"cpu": 4_096, "cuda": 65_536}[options.device]
    return options


def main() -> None:
    options = parse()
    cuda = options.device == "cuda"
    device = torch.cuda.get_device_name() if cuda else f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    print(f"{options.size}, random weights, {options.precision} on {device}")
    print(
        f"{options.notes} windows of {options.length} sub-words; {options.pairs} pairs of {options.pair_length} per pair task"
    )
    print(
        f"{'':<22}{'passes':>10}{'one encoder s':>16}{'single models s':>18}{'ratio':>8}{'lowest':>9}{'highest':>9}{'processor':>11}"
    )
    results = {}
    for name, (one, many) in comparisons(options).items():
        found = results[name] = compare(one, many, options)
        passes = f"{found['passes'][0]} / {found['passes'][1]}"
        times = f"{found['one_encoder_seconds']:>16.3f}{found['single_models_seconds']:>18.3f}"
        ratios = f"{found['ratio']:>7.2f}x{found['ratio_lowest']:>8.2f}x{found['ratio_highest']:>8.2f}x"
        worked = f"{found['processor_ratio']:>10.2f}x" if "processor_ratio" in found else ""
        print(f"{name:<22}{passes:>10}{times}{ratios}{worked}", flush=True)
    if options.json:
        about = {
            "date": time.strftime("%Y-%m-%d"),
            "device": device,
            "cores": os.cpu_count(),
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "settings": {name: str(value) for name, value in vars(options).items() if name != "json"},
        }
        options.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
