"""All benchmarks that need no GPU and no data, one after the other, as one table and one plot: `make bench`.

    python benchmarks/bench.py --out benchmarks/results/bench.json
    python benchmarks/bench.py --page benchmarks/results/bench.json     write docs/results/speed.md and its plot from kept figures

About fifteen minutes on two cores. Every line has both sides in one run of one script. By the clock the figures are only good on a
machine that does nothing else; the ratio by processor time, where a script has it, also stands on a busy one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "speed.md"
PLOT = HERE.parent / "docs" / "images" / "speed.svg"


@dataclass(frozen=True)
class Line:
    """One comparison."""

    what: str
    peer: str
    unit: str
    osler: float
    other: float
    ratio: float
    processor: float | None = None
    """The ratio by processor time."""


Read = Callable[[Any], Iterator[Line]]


def corpus(found: Any) -> Iterator[Line]:
    size, ours, theirs = found["megabytes"], found["osler"], found["naive loop"]
    rates = size / ours["seconds"], size / theirs["seconds"]
    processor = theirs["processor"] / ours["processor"]
    yield Line("clean a corpus", "a plain Python loop", "MB/s", *rates, rates[0] / rates[1], processor)


def pretraining(rows: str) -> Read:
    def read(found: Any) -> Iterator[Line]:
        ours, theirs = (found["sides"][side]["tokens_per_second"] for side in ("osler", "trainer"))
        yield Line(f"pretrain, {rows}", "Hugging Face Trainer", "tokens/s", ours, theirs, ours / theirs)

    return read


def eight_heads(found: Any) -> Iterator[Line]:
    one = found["results"]["eight document heads"]
    seconds = one["one_encoder_seconds"], one["single_models_seconds"]
    yield Line("eight heads on one encoder", "eight models", "s", *seconds, one["ratio"], one.get("processor_ratio"))


def annotation(found: Any) -> Iterator[Line]:
    for kind, words in (("long", 300), ("short", 50)):
        rows = found[kind]
        peers = [row for side, row in rows.items() if side.startswith("pipeline")]
        clock, processor = (min(row[name] for row in peers) for name in ("seconds", "processor"))
        for side, name in (
            ("onnx:one", "float32"),
            ("onnx-int8:one", "int8"),
            ("onnx-int8:eight", "int8, eight heads"),
        ):
            row = rows[side]
            rates = row["notes"] / row["seconds"], row["notes"] / clock
            what = f"annotate notes of {words} words, {name}"
            peer = "transformers pipeline, its best batch" if "eight" not in side else "the same, one head"
            yield Line(what, peer, "notes/s", *rates, rates[0] / rates[1], processor / row["processor"])
    ours, theirs = (found["cold"][name] for name in ("osler annotate (int8)", "pipeline script"))
    seconds = ours["seconds"], theirs["seconds"]
    processor = theirs["processor"] / ours["processor"]
    yield Line("one note from a cold process", "pipeline script", "s", *seconds, seconds[1] / seconds[0], processor)
    memory = found["short"]["onnx-int8:one"]["mib"], min(row["mib"] for row in peers)
    yield Line("peak memory while annotating, int8", "transformers pipeline", "MiB", *memory, memory[1] / memory[0])


def service(found: Any) -> Iterator[Line]:
    rates = (found["notes per second"][side] for side in ("osler", "one at a time"))
    peer = "a FastAPI application, one request at a time"
    yield Line("serve 64 clients", peer, "notes/s", *rates, found["ratio"], found["processor"])


def latency(found: Any) -> Iterator[Line]:
    times = found["service"]["p99"], found["bare call"]["p99"]
    yield Line("99th percentile of a request alone", "the call in Python", "ms", *times, times[1] / times[0])


BENCHMARKS: dict[str, tuple[list[str], Read]] = {
    "corpus": (["corpus.py", "clean", "--megabytes", "30"], corpus),
    "pretrain-full": (["pretrain.py", "--preset", "tiny", "--rows", "full"], pretraining("full rows")),
    "pretrain-natural": (["pretrain.py", "--preset", "tiny", "--rows", "natural"], pretraining("natural lengths")),
    "heads": (["inference.py", "--size", "small", "--rounds", "5"], eight_heads),
    "annotate": (["peers.py", "--long", "12", "--short", "64", "--rounds", "2"], annotation),
    "serve": (["serve.py", "compare", "--preset", "small", "--seconds", "60"], service),
    "alone": (["serve.py", "alone", "--preset", "compact", "--requests", "200"], latency),
}


def run(only: list[str]) -> dict[str, Any]:
    """Run the benchmarks; returns what is kept of them."""
    lines: list[Line] = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        for name in only:
            words, read = BENCHMARKS[name]
            out = Path(scratch) / f"{name}.json"
            print(f"\n# python benchmarks/{' '.join(words)}", flush=True)
            began = time.perf_counter()
            subprocess.run([sys.executable, str(HERE / words[0]), *words[1:], "--json", str(out)], check=True)
            print(f"({time.perf_counter() - began:.0f} s)", flush=True)
            lines += read(json.loads(out.read_text()))
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {processor_name()}",
        "load before": round(load, 2),
        "versions": {name: version(name) for name in ("torch", "transformers", "onnxruntime", "tokenizers", "numpy")},
        "lines": [asdict(line) for line in lines],
    }


def processor_name() -> str:
    """The processor, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(lines: list[Line]) -> str:
    rows = ["| what | against | osler | peer | ratio | by CPU |", "|---|---|--:|--:|--:|--:|"]
    for line in lines:
        processor = f"{line.processor:.2f}" if line.processor else ""
        figures = f"{short(line.osler)} {line.unit}", short(line.other), f"**{line.ratio:.2f}**"
        cells = (line.what, line.peer, *figures)
        rows.append(f"| {' | '.join(cells)} | {processor} |")
    return "\n".join(rows)


def short(value: float) -> str:
    """About three digits: 28,828, 13.5, 0.76."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def page(kept: dict[str, Any]) -> tuple[str, str]:
    """The page about kept figures, and its plot."""
    from osler.report.plots import Bar, bars_with_intervals

    lines = [Line(**line) for line in kept["lines"]]
    bars = [Bar(line.what, line.processor or line.ratio) for line in lines]
    plot = bars_with_intervals(bars, xlabel="times as fast (or as small) as the peer", title="osler and its peers")
    text = (HERE / "speed.md").read_text(encoding="utf-8")
    versions = ", ".join(f"{name} {number}" for name, number in kept["versions"].items())
    said = f"{kept['date']}, {kept['machine']}; load {kept['load before']} when it began; {versions}."
    return text.replace("{about}", said).replace("{table}", table(lines)), plot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--out", type=Path, help="keep the figures here")
    parser.add_argument("--page", type=Path, help="write the page of the documentation from kept figures, and stop")
    options = parser.parse_args()
    if options.page:
        text, plot = page(json.loads(options.page.read_text()))
        PAGE.write_text(text, encoding="utf-8")
        PLOT.write_text(plot, encoding="utf-8")
        return
    kept = run(options.only)
    print(f"\n{table([Line(**line) for line in kept['lines']])}")
    if options.out:
        options.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
