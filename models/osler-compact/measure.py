"""Calibrate the heads of osler-compact on dev, export them, and score the export on test: everything its card says is measured here.

    python models/osler-compact/measure.py HEADS --tasks TASKS --out DIR

HEADS is the bundle that `osler finetune --recipe compact/heads` made, TASKS the folder that `osler tasks prepare --all` made. A task
that is scored already is not scored again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import osler
from osler.artifacts.bundle import Bundle
from osler.artifacts.task_folder import TaskFolder
from osler.core.files import sha256, write_json
from osler.metrics.significance import bootstrap_interval
from osler.stages.finetune.calibrate import DevSet, calibrate
from osler.tasks.scoring import score

HERE = Path(__file__).parent


def dev_sets(bundle: Bundle, tasks: Path) -> dict[str, DevSet]:
    """The dev splits that no head was trained on."""
    found = {}
    for name, (head, protocol) in bundle.spec.tasks.items():
        folder = TaskFolder.open(tasks / name)
        chosen = folder.card.protocol_named(protocol)
        if "dev" not in chosen.train_on:
            records = folder.read("dev")
            instances = bundle.builders[head].build(records, gold=False).instances
            found[name] = DevSet(folder.card, chosen, head, records, instances)
    return found


def main() -> None:
    """Run every step that is not done yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heads", type=Path)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    light = given.out / "light"
    if not (given.heads / "calibration.json").exists():
        # The export is faster than the bundle; its outputs are those that the shipped model gives.
        osler.export(bundle=given.heads, to="onnx-int8", weights=True, out=light)
        bundle = Bundle.load(light)
        calibrate(bundle, dev_sets(bundle, given.tasks)).save(given.heads)
    osler.export(bundle=given.heads, to="onnx-int8", weights=True, out=light, force=True)
    results = {}
    for name in Bundle.load(light).spec.tasks:
        task = TaskFolder.open(given.tasks / name)
        made = osler.evaluate(bundle=light, task=given.tasks / name, split="test", out=given.out / "test" / name)
        predicted = list(made.predictions())
        gold = task.read("test")
        metrics = made.metrics
        chosen = task.card.protocol_named(metrics.protocol.split("/")[1].split("@")[0])
        scored = score(task.card, chosen, gold, predicted)
        interval = bootstrap_interval([scored.decomposed]) if scored.decomposed is not None else None
        results[name] = {
            "protocol": metrics.protocol,
            "f1": metrics.metrics["f1"],
            "precision": metrics.metrics["precision"],
            "recall": metrics.metrics["recall"],
            "interval": [interval.low, interval.high] if interval else None,
            "documents": len(gold),
        }
        print(name, results[name], flush=True)
        (given.out / "test.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_card(light, results)


def write_card(light: Path, results: dict[str, dict[str, Any]]) -> None:
    """Fill the template of the card: scores, calibration, and the hash of each file."""
    bundle = Bundle.load(light)
    seeds = json.loads((HERE / "seeds.json").read_text(encoding="utf-8"))["test_f1"]
    scores = [
        "| head | language | F1 (int8, shipped) | three seeds, float32 | precision | recall | test documents | protocol |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, found in results.items():
        low, high = (100 * bound for bound in found["interval"])
        runs = sorted(seeds[name])
        scores.append(
            f"| {name} | {bundle.spec.heads[name].card.language} | **{100 * found['f1']:.1f}** [{low:.1f}, {high:.1f}] "
            f"| {runs[1]:.1f} [{runs[0]:.1f}, {runs[2]:.1f}] | {100 * found['precision']:.1f} | {100 * found['recall']:.1f} "
            f"| {found['documents']:,} | {found['protocol']} |"
        )
    errors = ["| head | mentions on dev | before | after |", "|---|--:|--:|--:|"]
    for name, fitted in bundle.calibration.heads.items():
        errors.append(f"| {name} | {fitted.predictions:,} | {fitted.error_before:.3f} | {fitted.error_after:.3f} |")
    files = ["| file | size | SHA-256 |", "|---|--:|---|"]
    for path in sorted(light.iterdir()):
        if path.suffix in (".onnx", ".safetensors", ".npz") or path.name in (
            "tokenizer.json",
            "bundle.json",
            "heads.json",
        ):
            files.append(f"| `{path.name}` | {path.stat().st_size / 1e6:.1f} MB | `{sha256(path)}` |")
    template = (HERE / "card.md").read_text(encoding="utf-8")
    for key, table in (("{scores}", scores), ("{calibration}", errors), ("{files}", files)):
        template = template.replace(key, "\n".join(table))
    Bundle.write_card(light, template)
    manifest = json.loads((light / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["README.md"] = sha256(light / "README.md")
    write_json(light / "manifest.json", manifest)


if __name__ == "__main__":
    main()
