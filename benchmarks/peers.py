"""Annotation side by side: osler with torch, ONNX and int8, a `transformers` pipeline, and GLiNER2 where it is installed.

    python benchmarks/peers.py --json peers.json
    python benchmarks/peers.py --device cuda --threads 16 --long 512 --short 0 --batches 1 64 --json peers-cuda.json
    python benchmarks/peers.py --device cuda --bundle osler-compact --task tasks/ncbi-disease tasks/meddocan

Everything is made here with random weights (ModernBERT's architecture, 12 layers of width 384, a vocabulary of 24,576), so nothing is
downloaded and no score is measured: int8's scores are measured by `osler export`. Every side runs in a process of its own.
On a GPU there is no ONNX, and pipeline and osler run in float32 and in bfloat16 (`pipeline-bf16`, `torch-bf16`, which is what osler does
by default there); at the end stands how many notes have other mentions in bfloat16. Random weights decide many words by a hair:
`--bundle` with `--task` scores a trained bundle in both. `--sides` takes some of the sides only, such as `--sides pipeline:1 torch:one`.
On a busy machine use `--threads 1`: with two threads torch took far more processor time there, probably by spinning.
`pip install gliner2` adds GLiNER2 with an encoder of the same shape and the four labels of one head. Its threshold is out of reach, so that
it decodes no mention: with random weights it would decode hundreds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEADS = 8
PRECISIONS: dict[str, Any] = {"torch-fp32": "fp32", "torch-bf16": "bf16"}
"""Sides that run the bundle with torch in one precision; other sides of osler are folders."""
WORDS = {"long": 300, "short": 50}
COLD = """
from transformers import pipeline
tag = pipeline("token-classification", {folder!r}, aggregation_strategy="simple", stride=64)
print(tag(open({note!r}).read()))
"""


def make(folder: Path, exports: Sequence[str], count: int) -> None:
    """Write at least `count` notes of each length, a tokenizer, a bundle of eight taggers, its exports, and one head as a stock model."""
    import numpy as np
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers
    from transformers import AutoModel

    import osler
    from osler.artifacts.bundle import Bundle
    from osler.artifacts.bundle_spec import BundleHead, BundleSpec
    from osler.artifacts.runner import run_heads
    from osler.artifacts.tokenizer import SPECIAL_TOKENS, Tokenizer
    from osler.clinic.notes import notes
    from osler.core.artifact import Workspace, produce
    from osler.core.config import Recipe
    from osler.nn.encoder import PackedEncoder
    from osler.nn.export import to_hf
    from osler.nn.folders import quiet, seeded
    from osler.nn.multihead import MultiHeadModel
    from osler.nn.presets import preset_config
    from osler.tasks.card import TaskCard
    from osler.tasks.instances.base import HeadOptions, document_windows
    from osler.text.document import Document

    texts = [note.text for note in notes(1500, language="en", seed=0, split="train")]
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options: dict[str, Any] = {"special_tokens": list(SPECIAL_TOKENS), "initial_alphabet": alphabet}
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=24_576, show_progress=False, **options))
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    (folder / "tokenizer").mkdir()
    tokenizer = Tokenizer.write(folder / "tokenizer", made, 512)

    source = {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}}
    common = {"title": "h", "language": "en", "kind": "tagging", "labels": ("A", "B", "C", "D"), "source": source}
    common |= {"protocol": "plain", "protocols": {"plain": {"metric": "f1"}}}
    heads = {}
    for number in range(HEADS):  # two of the eight are CRFs
        card = TaskCard.model_validate({**common, "name": f"head{number}"})
        tagger = HeadOptions(tagger="crf" if number in (2, 5) else "linear")
        heads[card.name] = BundleHead(card=card, protocol="plain", options=tagger)
    spec = BundleSpec(max_length=512, overlap=64, heads=heads)

    def build(work: Workspace) -> None:
        auto: Any = AutoModel
        config = preset_config("compact", vocab_size=24_576, pad_token_id=1, bos_token_id=0, eos_token_id=2)
        with seeded(0, "encoder"), quiet():
            model = MultiHeadModel(PackedEncoder(auto.from_config(config).eval()))
        bundle = Bundle.of(model, tokenizer, spec)
        for name, builder in bundle.builders.items():
            model.add_head(name, builder.head, len(builder.outputs), seed=0, labels=builder.outputs)
        windows = document_windows(bundle.tokens, [Document("", text) for text in texts[:8]], 512, 64)
        for name, outputs in run_heads(model, windows, list(bundle.builders)).items():
            scores = np.concatenate(outputs)
            head: Any = model.head(name)
            # About as many mentions as in real notes: three tokens in a hundred are not O, whose output is the first.
            head.classifier.bias.data[0] += float(np.quantile(scores[:, 1:].max(axis=1) - scores[:, 0], 0.97))
        bundle.save(work.path, tokenizer_from=folder / "tokenizer")
        to_hf(model, "head0", bundle.builders["head0"].outputs, folder / "hf")

    (folder / "hf").mkdir()
    produce(folder / "torch", kind="bundle", recipe=Recipe(), parents={}, build=build)
    tokenizer.copy_to(folder / "hf")
    for target in exports:
        osler.export(bundle=folder / "torch", to=target, out=folder / target)
    if has_gliner():
        make_gliner(folder)
    for kind, words in WORDS.items():
        source_notes = notes(400 + 2 * count, language="en", seed=1, split="test")
        cut = [" ".join(note.text.split(" ")[:words]) for note in source_notes if len(note.text.split(" ")) >= words]
        assert len(cut) >= count, f"{len(cut)} notes of {words} words"
        (folder / f"{kind}.json").write_text(json.dumps(cut))
    (folder / "note.txt").write_text(json.loads((folder / "long.json").read_text())[0])


def has_gliner() -> bool:
    return importlib.util.find_spec("gliner2") is not None


def make_gliner(folder: Path) -> None:
    """Write GLiNER2 with random weights, an encoder of the bundle's shape and the bundle's tokenizer."""
    import torch
    from gliner2 import GLiNER2
    from gliner2.configuration import ExtractorConfig
    from transformers import AutoTokenizer

    from osler.nn.folders import quiet
    from osler.nn.presets import preset_config

    auto: Any = AutoTokenizer
    torch.manual_seed(0)
    config = preset_config("compact", vocab_size=24_576, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    with quiet():
        tokenizer = auto.from_pretrained(folder / "tokenizer")
        model = GLiNER2(ExtractorConfig(model_name="random"), encoder_config=config, tokenizer=tokenizer)
        model.save_pretrained(folder / "gliner2")


def measure(side: str, folder: Path, kind: str, count: int, threads: int, device: str) -> dict[str, float]:
    """Annotate notes in this process: seconds, processor seconds, and the most memory it ever had."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # torch and onnxruntime both obey
    texts = json.loads((folder / f"{kind}.json").read_text())[:count]
    name, _, how = side.partition(":")
    few = 2 if device == "cpu" else 128  # a GPU loads each kernel when it is first used
    if name.startswith("pipeline"):
        import torch
        from transformers import pipeline
        from transformers.utils import logging

        logging.set_verbosity_error()
        make_pipeline: Any = pipeline
        settings: dict[str, Any] = {"aggregation_strategy": "simple", "stride": 64, "device": device}
        if name == "pipeline-bf16":
            settings["dtype"] = torch.bfloat16
        tag = make_pipeline("token-classification", str(folder / "hf"), **settings)

        def work() -> int:
            return sum(map(len, tag(texts, batch_size=int(how))))

        warm = lambda: tag(texts[:few], batch_size=int(how))  # noqa: E731
    elif name == "gliner2":
        import torch
        from gliner2 import GLiNER2

        torch.set_num_threads(threads)
        model = GLiNER2.from_pretrained(str(folder / "gliner2")).eval().to(device)
        extract = lambda notes: model.batch_extract_entities(  # noqa: E731
            notes, ["A", "B", "C", "D"], batch_size=int(how), threshold=1.0, include_spans=True
        )

        def work() -> int:
            return sum(len(found) for note in extract(texts) for found in note["entities"].values())

        warm = lambda: extract(texts[:few])  # noqa: E731
    else:
        import osler
        from osler.text.document import Document

        precision = PRECISIONS.get(name, "auto")
        source = folder / ("torch" if name in PRECISIONS else name)
        bundle = osler.load(source, device=device, precision=precision).bundle
        documents = [Document(str(number), text) for number, text in enumerate(texts)]
        every = [f"head{number}" for number in range(HEADS)]
        passes = {"one": [every[:1]], "eight": [every], "eight-models": [[head] for head in every]}[how]

        def work() -> int:
            return sum(len(found.spans) for heads in passes for found in bundle.annotate(documents, heads))

        warm = lambda: bundle.annotate(documents[:few], every)  # noqa: E731
    warm()
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    result = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    # Not getrusage, which counts what the process was forked from.
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    peak = int(line.split()[1]) / 1024
    return {**result, "notes": len(texts), "mib": peak, "spans": found}


def compare_mentions(folder: Path, kind: str, count: int, device: str) -> dict[str, int]:
    """How many notes have the same mentions in float32 and in bfloat16, and how many mentions differ, with all heads."""
    from osler.artifacts.bundle import Bundle
    from osler.text.document import Document

    texts = json.loads((folder / f"{kind}.json").read_text())[:count]
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    exact, rounded = (
        [
            {(span.attributes["head"], *span.key) for span in found.spans}
            for found in Bundle.load(folder / "torch", device, precision).annotate(documents)
        ]
        for precision in PRECISIONS.values()
    )
    differ = [len(one ^ other) for one, other in zip(exact, rounded, strict=True)]
    result = {"notes": len(texts), "other": sum(map(bool, differ)), "mentions": sum(map(len, exact))}
    result["differ"] = sum(differ)
    print(
        f"bf16 against fp32, {HEADS} heads: {result['other']} of {result['notes']} notes have other mentions (label, start, end); "
        f"{result['differ']} mentions are in one of them only, of {result['mentions']} in fp32"
    )
    return result


def compare_scores(name: str, tasks: Sequence[Path], split: str, device: str) -> list[dict[str, Any]]:
    """Score a bundle on tasks in float32 and in bfloat16."""
    from osler.artifacts.bundle import Bundle
    from osler.artifacts.task_folder import TaskFolder
    from osler.core.models import find_model
    from osler.tasks.scoring import score

    bundles = {precision: Bundle.load(find_model(name) or name, device, precision) for precision in PRECISIONS.values()}
    rows = []
    print(
        f"{name} on {split}\n| task | metric | fp32 | bf16 | points | documents with other answers | largest change of a score |"
    )
    print("|---|---|---|---|---|---|---|")
    for folder in tasks:
        task = TaskFolder.open(folder)
        gold, card = list(task.read(split)), task.card
        found = {precision: bundle.predict(card.name, gold, task=card) for precision, bundle in bundles.items()}
        protocol = bundles["fp32"].builders[card.name].protocol
        main = {precision: score(card, protocol, gold, made, main_only=True).main for precision, made in found.items()}
        other, change = 0, 0.0
        for exact, rounded in zip(found["fp32"], found["bf16"], strict=True):
            scores = [{span.key: span.score for span in getattr(made, "spans", ())} for made in (exact, rounded)]
            other += scores[0].keys() != scores[1].keys() or exact.labels != rounded.labels
            both = scores[0].keys() & scores[1].keys()
            change = max([change, *(abs(scores[0][key] - scores[1][key]) for key in both)])
        row = {"task": card.name, "metric": protocol.metric, **main, "documents": len(gold), "other": other}
        rows.append({**row, "score_change": change})
        print(
            f"| {card.name} | {protocol.metric} | {100 * main['fp32']:.2f} | {100 * main['bf16']:.2f} | "
            f"{100 * (main['bf16'] - main['fp32']):+.2f} | {other} of {len(gold)} | {change:.3f} |",
            flush=True,
        )
    return rows


def cold(command: list[str], rounds: int) -> dict[str, float]:
    """Seconds and processor seconds of a whole process; the best of some."""
    found = []
    for _ in range(rounds):
        before, start = os.times(), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        found.append({"seconds": time.perf_counter() - start, "processor": spent})
    return {key: min(item[key] for item in found) for key in ("seconds", "processor")}


def best(side: str, folder: Path, kind: str, count: int, options: argparse.Namespace) -> dict[str, float]:
    """The least of some processes."""
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder), "--kind", kind]
    command += ["--count", str(count), "--threads", str(options.threads), "--device", options.device]
    found = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(options.rounds)
    ]
    return {key: min(item[key] for item in found) for key in found[0]}


def cold_starts(folder: Path) -> dict[str, dict[str, float]]:
    """A note from a cold process, by osler and by a script with the pipeline."""
    note = str(folder / "note.txt")
    commands = {
        "osler annotate (int8)": ["-m", "osler", "annotate", note, "--bundle", str(folder / "onnx-int8")],
        "osler annotate (fp32)": ["-m", "osler", "annotate", note, "--bundle", str(folder / "onnx")],
        "pipeline script": ["-c", COLD.format(folder=str(folder / "hf"), note=note)],
    }
    found = {name: cold([sys.executable, *words], 2) for name, words in commands.items()}
    print("\n| from a cold process | s | processor s |\n|---|---|---|")
    for name, row in found.items():
        print(f"| {name} | {row['seconds']:.2f} | {row['processor']:.2f} |")
    sizes = {name: (folder / name / "model.onnx").stat().st_size / 1e6 for name in ("onnx", "onnx-int8")}
    print(f"\nfiles: {sizes['onnx']:.1f} MB in float32, {sizes['onnx-int8']:.1f} MB in int8")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", type=int, default=6, help="notes of about 300 words")
    parser.add_argument("--short", type=int, default=32, help="notes of about 50 words")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16], help="batch sizes of the pipeline")
    parser.add_argument("--sides", nargs="+", help="only these sides, as the table names them; at least one pipeline")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=1, help="processes for each side; the best counts")
    parser.add_argument("--threads", type=int, default=2, help="cores that each side may use")
    parser.add_argument(
        "--bundle", help="instead: score this bundle, a folder or an installed model, in float32 and bfloat16"
    )
    parser.add_argument("--task", type=Path, nargs="+", default=[], help="with --bundle: task folders")
    parser.add_argument("--split", default="test", help="with --bundle: the split to score")
    parser.add_argument("--json", type=Path, help="write all figures here")
    for hidden in ("--side", "--kind", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(
            json.dumps(
                measure(
                    options.side, Path(options.folder), options.kind, options.count, options.threads, options.device
                )
            )
        )
        return
    figures: dict[str, Any] = {}
    if options.bundle:
        figures["scores"] = compare_scores(options.bundle, options.task, options.split, options.device)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        gpu = options.device == "cuda"
        exports = [] if gpu else ["onnx", "onnx-int8"]
        make(folder, exports, max(options.long, options.short))
        runners = [*reversed(PRECISIONS)] if gpu else ["torch", *exports]
        for kind, count in (("long", options.long), ("short", options.short)):
            if not count:
                continue
            sides = [f"{peer}:{n}" for peer in ("pipeline", *["pipeline-bf16"] * gpu) for n in options.batches]
            sides += [f"gliner2:{n}" for n in options.batches if has_gliner()]
            sides += [f"{name}:{how}" for how in ("one", "eight") for name in runners]
            sides += [f"{'torch-bf16' if gpu else 'onnx'}:eight-models"]
            sides = [side for side in sides if side in (options.sides or sides)]
            rows = {side: best(side, folder, kind, count, options) for side in sides}
            figures[kind] = rows
            peers = [side for side in rows if side.startswith("pipeline")]
            quickest = min(peers, key=lambda side: rows[side]["processor"])
            print(f"\n{kind}: {count} notes of about {WORDS[kind]} words; ratios to {quickest}")
            print("| side | notes/s | notes per processor second | ratio | ratio by processor time | peak MiB |")
            print("|---|---|---|---|---|---|")
            fastest = min(rows[side]["seconds"] for side in peers)
            for side, row in rows.items():
                wall, processor = row["notes"] / row["seconds"], row["notes"] / row["processor"]
                ratios = fastest / row["seconds"], rows[quickest]["processor"] / row["processor"]
                print(
                    f"| {side} | {wall:.1f} | {processor:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} | {row['mib']:.0f} |"
                )
            one, eight = rows.get(sides[-1]), rows.get(sides[-1].removesuffix("-models"))
            if one and eight and one is not eight:
                print(
                    f"eight heads in one pass against eight models: {one['seconds'] / eight['seconds']:.2f} times, "
                    f"{one['processor'] / eight['processor']:.2f} by processor time"
                )
            if gpu:
                figures[f"{kind} in bf16"] = compare_mentions(folder, kind, count, options.device)
        if not gpu:
            figures["cold"] = cold_starts(folder)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
