"""Speed of pretraining: `osler pretrain` against a Hugging Face Trainer script that does the same work.

    python benchmarks/pretrain.py --preset roberta-base --rows full --compile --seconds 40 --json out.json

Both sides train the same model (the preset's configuration, random weights) on the same tokenised documents cut into the same
chunks of at most 512 tokens, with 15 % masking, AdamW, clipping, a log line every few steps and checkpoints. Each side is its own
process, and they run in turns (interleave.py). Only real tokens count, and for both sides only the necessary work: the head on masked
positions, attention inside a document.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from interleave import Meeting, Side, interleave

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import TokenShards
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.core.seeding import generator
from osler.stages.pretrain.data import ChunkStream
from osler.stages.pretrain.tokenise import tokenise

LENGTH = 512
BEGIN, PAD, END = 0, 1, 2
ROOM = LENGTH - 2  # without <s> and </s>
MEDIAN, MEAN = 180, 300  # tokens per document
VALIDATION = 0.05
ENDLESS = 1_000_000  # steps: sides are stopped by time
SHARED: dict[str, Any] = {"lr": 2e-4, "eps": 1e-6, "weight_decay": 0.01, "betas": (0.9, 0.98), "warmup": 200}
COMMAND = [sys.executable, str(Path(__file__).resolve())]
COLUMNS = (
    ("  tokens/s", "tokens_per_second", 1, ",.0f"),
    ("steps alone", "tokens_per_second_steps_alone", 1, ",.0f"),
    ("checkpoints", "checkpoints", 1, ".0f"),
    ("s each", "checkpoint_seconds", 1, ".2f"),
    ("TFLOP/s", "flops_per_second", 1e12, ".2f"),
    ("of peak", "share_of_peak", 1, ".1%"),
    ("memory GiB", "peak_memory_gib", 1, ".1f"),
    ("tokens/step", "tokens_per_update", 1, ",.0f"),
    ("start s", "start_seconds", 1, ".1f"),
    ("osler is x", "osler_is_times", 1, ".2f"),
    ("steps alone x", "steps_alone_times", 1, ".2f"),
)


class GeneratedText(Recipe):
    """Settings that decide the generated documents."""

    rows: str
    tokens: int
    vocab: int


def make_tokenizer(folder: Path, size: int) -> list[str]:
    """Train a byte-level BPE of exactly `size` entries on made-up words; return the words that are one token."""
    from osler.stages.vocab.algorithms.bpe import train
    from osler.stages.vocab.config import VocabRecipe

    syllables = [onset + vowel for onset in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]
    numbers = generator(0, "lexicon").choice(100**3, size=size + size // 4, replace=False)
    words = [syllables[n // 10_000] + syllables[n // 100 % 100] + syllables[n % 100] for n in numbers]
    recipe = VocabRecipe(corpus=folder, size=size, min_frequency=1, prefix_space=True)
    tokenizer = train(lambda: iter([words]), recipe)
    if tokenizer.get_vocab_size() != size:
        raise SystemExit(f"the vocabulary ended at {tokenizer.get_vocab_size()} entries instead of {size}")
    folder.mkdir(parents=True)
    Tokenizer.write(folder, tokenizer, LENGTH, {})
    encodings = tokenizer.encode_batch(words, add_special_tokens=False)
    return [word for word, encoding in zip(words, encodings, strict=True) if len(encoding.ids) == 1]


def document_lengths(rows: str, tokens: int) -> np.ndarray:
    """Tokens of each document: log-normal, or a multiple of the row length if every row must be full."""
    if rows == "full":
        return np.full(-(-tokens // (4 * ROOM)), 4 * ROOM)
    spread = np.sqrt(2 * np.log(MEAN / MEDIAN))
    drawn = generator(0, "lengths").lognormal(np.log(MEDIAN), spread, size=-(-tokens // MEAN))
    return np.array(np.clip(drawn, 8, 20_000), dtype=int)


def make_corpus(out: Path, recipe: GeneratedText, words: list[str]) -> Corpus:
    """Make a corpus whose documents have exactly the drawn number of tokens: every word is one token, drawn by Zipf's law."""

    def build(work: Workspace) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        lengths = document_lengths(recipe.rows, recipe.tokens)
        weights = 1.0 / np.arange(2, len(words) + 2)
        drawn = generator(0, "words").choice(len(words), size=int(lengths.sum()), p=weights / weights.sum())
        parts = np.split(np.array(words, dtype=object)[drawn], np.cumsum(lengths)[:-1])
        texts = [" ".join(part) for part in parts]
        count = len(texts)
        ids = [f"{number:07}" for number in range(count)]
        columns = {"id": ids, "text": texts, "source": ["generated"] * count, "language": ["en"] * count}
        (work.path / "shards").mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), work.path / "shards" / "00000.parquet", compression="zstd")
        work.counts.update(documents=count, words=int(lengths.sum()))

    return Corpus.open(produce(out, kind="corpus", recipe=recipe, parents={}, build=build).path)


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """Write corpus, tokenizer and token arrays."""
    words = make_tokenizer(folder / "tokenizer", options.vocab)
    recipe = GeneratedText(rows=options.rows, tokens=options.tokens, vocab=options.vocab)
    corpus = make_corpus(folder / "corpus", recipe, words)
    tokenise(corpus, Tokenizer.open(folder / "tokenizer"), folder / "tokens", VALIDATION)


def describe(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Statistics of the training rows, and the batch size of the Trainer."""
    lengths = training_rows(folder).lengths
    if options.rows == "full" and set(lengths) != {LENGTH}:
        raise SystemExit("a row is not full")
    mean = float(lengths.mean())
    # The Trainer's step has as many real tokens as osler's, in passes with a given number of positions.
    rows = options.batch_tokens * options.accumulate / mean
    accumulate = max(1, round(rows * LENGTH / (options.trainer_tokens or options.batch_tokens)))
    return {
        "rows": len(lengths),
        "tokens": int(lengths.sum()),
        "mean_row": mean,
        "keys_seen": float((lengths.astype(np.int64) ** 2).sum() / lengths.sum()),
        "trainer_rows": max(1, round(rows / accumulate)),
        "trainer_accumulate": accumulate,
    }


def training_rows(folder: Path) -> ChunkStream:
    """The rows of both sides: documents cut into chunks that fit."""
    return ChunkStream(TokenShards.open(folder / "tokens").split("train"), LENGTH, [BEGIN], [END], None)


def osler_side(folder: Path, options: argparse.Namespace) -> None:
    """Run `osler pretrain`; the parent stops it with Ctrl-C."""
    from osler.stages.pretrain.config import PretrainRecipe, PretrainSettings
    from osler.stages.pretrain.run import run

    every = {"log_every": options.log_every, "checkpoint_every": options.checkpoint_every}
    recipe = PretrainRecipe(
        corpus=folder / "corpus",
        tokenizer=folder / "tokenizer",
        tokens=folder / "tokens",
        preset=options.preset,
        max_length=LENGTH,
        batch_tokens=options.batch_tokens,
        accumulate=options.accumulate,
        validation_share=VALIDATION,
        train=PretrainSettings(steps=ENDLESS, **every, **SHARED),
    )
    try:
        run(recipe, options.runs / "osler")
    except KeyboardInterrupt:
        write_memory(options.runs / "osler.memory")


def trainer_side(folder: Path, options: argparse.Namespace) -> None:
    """Run a usual Hugging Face script that logs to a file as osler does and stops at the step in which Ctrl-C comes."""
    import torch
    import transformers

    from osler.nn.presets import preset_config

    cuda = torch.cuda.is_available()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "tokenizer")
    config = preset_config(options.preset, vocab_size=options.vocab, pad_token_id=PAD, max_length=LENGTH)
    auto: Any = transformers.AutoModelForMaskedLM
    model = auto.from_config(config)

    rows = training_rows(folder)
    [stored] = rows.documents.shards  # the generated corpus is one row group

    class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
        """The tokenised chunks, as run_mlm.py gives them to the collator."""

        def __len__(self) -> int:
            return len(rows.sizes)

        def __getitem__(self, number: int) -> dict[str, list[int]]:
            start, size = rows.starts[number], rows.sizes[number]
            ids = [BEGIN, *stored[start : start + size].tolist(), END]
            return {"input_ids": ids, "special_tokens_mask": [1, *[0] * int(size), 1]}

    class LoggingTrainer(transformers.Trainer):
        """Counts real tokens on the device, without waiting for it, and logs to a file as osler does."""

        real: Any = 0

        def training_step(self, model: Any, inputs: dict[str, Any], *rest: Any, **named: Any) -> Any:
            self.real = self.real + inputs["attention_mask"].sum()
            return super().training_step(model, inputs, *rest, **named)

        def log(self, logs: dict[str, float], *rest: Any, **named: Any) -> None:
            super().log(logs, *rest, **named)
            if "loss" in logs:
                with (options.runs / f"{options.side}.jsonl").open("a") as stream:
                    stream.write(json.dumps({"step": self.state.global_step, "tokens": int(self.real)}) + "\n")

    arguments = transformers.TrainingArguments(
        output_dir=str(options.runs / options.side),
        per_device_train_batch_size=options.about["trainer_rows"],
        gradient_accumulation_steps=options.about["trainer_accumulate"],
        max_steps=ENDLESS,
        learning_rate=SHARED["lr"],
        adam_beta1=SHARED["betas"][0],
        adam_beta2=SHARED["betas"][1],
        adam_epsilon=SHARED["eps"],
        weight_decay=SHARED["weight_decay"],
        warmup_steps=SHARED["warmup"],
        optim="adamw_torch_fused",
        bf16=cuda,
        tf32=True if cuda else None,
        use_cpu=not cuda,
        torch_compile=options.side == "trainer-compile",
        dataloader_num_workers=options.workers,
        dataloader_persistent_workers=options.workers > 0,
        dataloader_drop_last=True,
        logging_steps=options.log_every,
        save_steps=options.checkpoint_every,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
    )
    padded = LENGTH if options.padding == "512" else None
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, pad_to_multiple_of=padded)
    trainer = LoggingTrainer(model, arguments, collator, Rows(), processing_class=tokenizer)

    def stop(number: int, frame: Any) -> None:
        trainer.control.should_training_stop = True

    signal.signal(signal.SIGINT, stop)
    trainer.train()
    write_memory(options.runs / f"{options.side}.memory")


def write_memory(path: Path) -> None:
    """Write the peak memory of this process: on the GPU if there is one, else resident."""
    import torch

    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    path.write_text(str(torch.cuda.max_memory_allocated() if torch.cuda.is_available() else resident))


def compare(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run all sides in turns and return their figures."""
    import torch
    import transformers

    from osler.nn.cost import flops_per_token
    from osler.nn.presets import preset_config

    cuda = torch.cuda.is_available()
    # In a child process, so that this one holds no GPU memory while the sides run.
    peak = float(subprocess.run([*COMMAND, "--side", "peak"], check=True, capture_output=True, text=True).stdout)
    config = preset_config(options.preset, vocab_size=options.vocab, pad_token_id=PAD, max_length=LENGTH)
    work = flops_per_token(config, length=options.about["keys_seen"], masked_fraction=0.15)
    names = ["osler", "trainer", *(["trainer-compile"] if options.compile else [])]
    runs = Path(tempfile.mkdtemp(prefix="pretrain-benchmark-"))
    try:
        sides = [_side(name, folder, runs) for name in names]
        meeting = Meeting(options.meet, options.meet_runs) if options.meet else None
        interleave(
            sides,
            warmup_steps=options.warmup_steps,
            seconds=options.seconds,
            rounds=options.rounds,
            meeting=meeting,
        )
        results = {side.name: side.figures(options.checkpoint_every) for side in sides}
        for name, figures in results.items():
            memory = runs / f"{name}.memory"
            if not memory.exists():
                raise SystemExit(f"{name} failed while stopping:\n{(runs / f'{name}.output').read_text()[-4000:]}")
            figures["peak_memory_gib"] = int(memory.read_text()) / 2**30
            figures["flops_per_second"] = figures["tokens_per_second"] * work
            figures["osler_is_times"] = results["osler"]["tokens_per_second"] / figures["tokens_per_second"]
            figures["steps_alone_times"] = (
                results["osler"]["tokens_per_second_steps_alone"] / figures["tokens_per_second_steps_alone"]
            )
            figures["share_of_peak"] = figures["flops_per_second"] / peak
            cells = (f"{figures[key] / unit:>{len(title)}{form}}" for title, key, unit, form in COLUMNS)
            print(f"{name:<16}", *cells, sep="  ", flush=True)
    finally:
        shutil.rmtree(runs, ignore_errors=True)
    return {
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "date": time.strftime("%Y-%m-%d"),
        "settings": {name: str(value) for name, value in vars(options).items() if name not in ("json", "data", "side")},
        "matmul_peak": peak,
        "flops_per_token": work,
        "sides": results,
    }


def _side(name: str, folder: Path, runs: Path) -> Side:
    log = runs / ("osler.partial/logs/log.jsonl" if name == "osler" else f"{name}.jsonl")
    command = [*COMMAND, *sys.argv[1:], "--side", name, "--data", str(folder), "--runs", str(runs)]
    return Side(name, command, log, runs / f"{name}.output")


def parse() -> argparse.Namespace:
    import torch

    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--preset", choices=["tiny", "roberta-base", "roberta-large"], default="roberta-base" if cuda else "tiny"
    )
    parser.add_argument("--rows", choices=["full", "natural"], default="full")
    parser.add_argument("--compile", action="store_true", help="also run the Trainer with torch_compile")
    parser.add_argument("--padding", choices=["512", "longest"], default="512", help="what the Trainer pads rows to")
    parser.add_argument("--seconds", type=float, default=40.0, help="measured time of each side")
    parser.add_argument("--rounds", type=int, default=2, help="turns in which each side gets its seconds")
    parser.add_argument("--warmup-steps", type=int, default=20 if cuda else 10, help="steps before the clock starts")
    parser.add_argument("--batch-tokens", type=int, help="real tokens per pass")
    parser.add_argument("--accumulate", type=int, default=2 if cuda else 1, help="passes per step")
    parser.add_argument(
        "--tokens", type=int, default=4_000_000 if cuda else 400_000, help="tokens to generate, approximately"
    )
    parser.add_argument(
        "--trainer-tokens", type=int, help="positions per pass of the Trainer; --batch-tokens by default"
    )
    parser.add_argument("--vocab", type=int, help="vocabulary size")
    parser.add_argument("--workers", type=int, default=4 if cuda else 0, help="loader processes of the Trainer")
    parser.add_argument("--log-every", type=int, default=5)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps between checkpoints, on both sides")
    parser.add_argument("--data", type=Path, help="keep the generated documents here for other runs")
    parser.add_argument("--prepare", action="store_true", help="only generate the documents in --data")
    parser.add_argument("--meet", type=Path, help="folder through which runs started together wait for each other")
    parser.add_argument("--meet-runs", type=int, default=1, help="number of runs that meet")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = {"tiny": 8, "roberta-base": 128, "roberta-large": 64}[options.preset]
    options.batch_tokens = options.batch_tokens or LENGTH * rows
    options.vocab = options.vocab or (8_000 if options.preset == "tiny" else 50_264)
    return options


def main() -> None:
    """Print the table, or run one side (in a child process)."""
    options = parse()
    if options.side == "peak":
        import torch

        from osler.train.precision import matmul_peak

        return print(matmul_peak("cuda" if torch.cuda.is_available() else "cpu", seconds=1.0))
    with ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pretrain-benchmark-")))
        if not (folder / "tokens" / "manifest.json").exists():
            prepare(folder, options)
        if options.prepare:
            return None
        options.about = about = describe(folder, options)
        if options.side:
            return (osler_side if options.side == "osler" else trainer_side)(folder, options)
        print(
            f"{options.preset}: {about['tokens']:,} tokens in {about['rows']:,} rows of {about['mean_row']:.0f} on average"
        )
        print(f"osler: {options.accumulate} x {options.batch_tokens:,} tokens per step")
        print(
            f"Trainer: {about['trainer_accumulate']} x {about['trainer_rows']} rows per step, padded to {options.padding}"
        )
        print(" " * 16, *(title for title, *_ in COLUMNS), sep="  ")
        result = compare(folder, options)
        print(f"matmul peak {result['matmul_peak'] / 1e12:.2f} TFLOP/s on {result['device']}")
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
