"""Speed of a study: small runs that share one machine against the same runs one after another.

    python benchmarks/study.py --tasks tasks/ncbi-disease tasks/s800 --model encoder --epochs 3 --json out.json

Runs one recipe twice with `osler study run`: with several runs at a time (`--workers 0` chooses how many), and with `--workers 1`, one
run after another in the command's own process. The shared side goes first, so a warm file cache can only help the other side. Each
side has its own folders and store. Seconds are those of the complete command: imports, all runs, their evaluation on dev and test,
and the tables. Runs of both sides have the same content address, so scores are compared run by run. On a CPU they must be equal
(`--threads` fixes the threads per run there); on a GPU they may differ because the order of additions varies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import tomli_w

RECIPE, STORE = "study.toml", "runs"


def write_recipe(options: argparse.Namespace, folder: Path, *, cpu: bool) -> int:
    """Write the study's recipe and return its number of runs."""
    train: dict[str, Any] = {"checkpoint_every": 0}
    if cpu:
        train["threads"] = options.threads
    recipe = {
        "title": "Speed of a study",
        "tasks": [str(path.resolve()) for path in options.tasks],
        "seeds": list(range(1, options.seeds + 1)),
        "score": "all",
        "models": {"encoder": {"model": str(options.model.resolve())}},
        "grid": {"train.lr": options.rates},
        "finetune": {
            "epochs": options.epochs,
            "batch_size": options.batch,
            "max_length": options.length,
            "overlap": options.length // 8,
            "fraction": options.fraction,
            "train": train,
        },
    }
    (folder / RECIPE).write_text(tomli_w.dumps(recipe))
    count: int = len(options.tasks) * len(options.rates) * options.seeds
    return count


def run_side(folder: Path, name: str, workers: int) -> float:
    """Run one side and return the seconds the command took."""
    store = folder / name / STORE
    command = [
        sys.executable,
        "-m",
        "osler",
        "study",
        "run",
        str(folder / RECIPE),
        "--out",
        str(folder / name / "study"),
    ]
    command += ["--workers", str(workers), "--set", f"store={store}"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stderr[-4000:]}")
    return seconds


def scores(store: Path) -> dict[str, dict[str, float]]:
    """Dev and test scores by the content address of a run."""
    found = {}
    for run in sorted(store.iterdir()):
        if not (run / "spec.json").is_file():
            continue
        column = json.loads((run / "spec.json").read_text())["columns"][0]
        counts = json.loads((run / "bundle" / "manifest.json").read_text())["counts"]
        metrics = json.loads((run / "evaluation" / column / "metrics.json").read_text())
        found[run.name] = {"dev": next(iter(counts["dev"].values())), "test": metrics["main"]}
    return found


def busy_seconds(store: Path) -> float:
    """Total time of a side's runs, each by its own clock."""
    return sum(float(json.loads(path.read_text())["seconds"]) for path in store.glob("*/status.json"))


def differences(sides: list[dict[str, dict[str, float]]], split: str) -> list[float]:
    """Difference between the two sides' scores, run by run."""
    first, second = sides
    if first.keys() != second.keys():
        raise SystemExit(f"the two sides did not do the same runs: {len(first)} and {len(second)}")
    return [abs(first[key][split] - second[key][split]) for key in first]


def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run both sides, the shared one first."""
    import torch
    import transformers

    cpu = not torch.cuda.is_available()
    count = write_recipe(options, folder, cpu=cpu)
    machine = f"CPU, {options.threads} threads per run" if cpu else torch.cuda.get_device_name()
    print(f"{count} runs of {options.epochs} epochs on {machine}; the shared side goes first", flush=True)
    print(f"{'':<22}{'seconds':>10}{'s per run':>10}{'mean test':>12}")
    sides: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, workers in (("shared", options.workers), ("one-after-the-other", 1)):
        seconds = run_side(folder, name, workers)
        found[name] = scores(folder / name / STORE)
        if len(found[name]) != count:
            raise SystemExit(f"{name}: expected {count} runs, found {len(found[name])}")
        busy = busy_seconds(folder / name / STORE)
        test = mean(score["test"] for score in found[name].values())
        sides[name] = {"workers": workers, "seconds": seconds, "run_seconds": busy / count, "mean_test": test}
        print(f"{name:<22}{seconds:>10.1f}{busy / count:>10.2f}{100 * test:>12.2f}", flush=True)
    apart = {split: differences(list(found.values()), split) for split in ("dev", "test")}
    return {
        "device": machine,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "date": time.strftime("%Y-%m-%d"),
        "tasks": [path.name for path in options.tasks],
        "model": options.model.name,
        "settings": {name: value for name, value in vars(options).items() if name not in ("tasks", "model", "json")},
        "runs": count,
        "sides": sides,
        "shared_is_times": sides["one-after-the-other"]["seconds"] / sides["shared"]["seconds"],
        "largest_difference": {split: max(values) for split, values in apart.items()},
        "mean_difference": {split: mean(values) for split, values in apart.items()},
        "tolerance": 0.0 if cpu else options.tolerance,
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, nargs="+", required=True, help="prepared tasks with dev and test splits")
    parser.add_argument("--model", type=Path, required=True, help="an encoder folder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 3e-4], help="learning rates")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds; there are tasks x rates x seeds runs")
    parser.add_argument("--workers", type=int, default=0, help="workers of the shared side; 0 chooses")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the training documents to use")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads per run if there is no GPU")
    parser.add_argument(
        "--tolerance", type=float, default=0.05, help="largest difference of a run's scores allowed on a GPU"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if options.workers == 1:
        parser.error("--workers must be 0 or at least 2: one worker is the other side")
    return options


def main() -> None:
    """Print both sides, their ratio and how much their scores differ."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="study-benchmark-") as folder:
        result = compare(options, Path(folder))
    print(f"sharing is {result['shared_is_times']:.2f} times as fast")
    for split, most in result["largest_difference"].items():
        usual = result["mean_difference"][split]
        print(f"{split} scores of the same run: {100 * most:.3f} points apart at most, {100 * usual:.3f} on average")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if max(result["largest_difference"].values()) > result["tolerance"]:
        raise SystemExit(f"the two sides do not agree: more than {100 * result['tolerance']:g} points apart")


if __name__ == "__main__":
    main()
