"""Calibrate the heads of osler-compact on dev, export them, and score the export on test: everything its card says is measured here.

    python models/osler-compact/measure.py HEADS --tasks TASKS --out DIR

HEADS is the bundle that `osler finetune --recipe compact/heads` made, TASKS the folder that `osler tasks prepare --all` made. A task
that is scored already is not scored again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import osler
from osler.artifacts.bundle import Bundle
from osler.artifacts.task_folder import TaskFolder
from osler.core.files import sha256, write_json
from osler.metrics.significance import bootstrap_interval
from osler.stages.finetune.calibrate import DevSet, calibrate
from osler.stages.finetune.forms import forms_of, in_form
from osler.tasks.instances.base import sentences_of
from osler.tasks.scoring import score
from osler.text.document import Document, Span, number_spans

HERE = Path(__file__).parent
FORMS = "meddocan"
FEW = 60
"""Test documents of each task that are also read sentence by sentence and in forms."""


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


def strict(bundle: Bundle, task: TaskFolder, gold: Sequence[Document], *, by_sentence: bool = False) -> list[float]:
    """Strict precision, recall and F1, times 100, of a task's own head on documents, read whole or sentence by sentence."""
    whole = [(number, 0, document.text) for number, document in enumerate(gold)]
    cut = [
        (number, start, document.text[start:end])
        for number, document in enumerate(gold)
        for start, end in sentences_of(task.card, document)
    ]
    texts = cut if by_sentence else whole
    read = bundle.annotate([Document(str(n), text) for n, (_, _, text) in enumerate(texts)], [task.card.name])
    spans: list[list[Span]] = [[] for _ in gold]
    for (number, start, _), found in zip(texts, read, strict=True):
        spans[number] += [replace(span.moved(start), id="") for span in found.spans]
    predicted = [document.with_(spans=number_spans(own)) for document, own in zip(gold, spans, strict=True)]
    metrics = score(task.card, task.card.protocol_named("strict"), gold, predicted).metrics
    return [round(100 * metrics[name], 1) for name in ("precision", "recall", "f1")]


def contexts(bundle: Bundle, tasks: Path) -> dict[str, dict[str, list[float]]]:
    """The first test documents of each corpus as they are, sentence by sentence and, in the language of FORMS, in its forms."""
    lender = TaskFolder.open(tasks / FORMS)
    forms = forms_of(lender.read("test"))
    found: dict[str, dict[str, list[float]]] = {}
    for name in bundle.spec.tasks:
        task = TaskFolder.open(tasks / name)
        gold = [record for record in task.read("test")[:FEW] if isinstance(record, Document)]
        own = {"documents": strict(bundle, task, gold)}
        if name != "bc2gm":  # its documents are sentences
            own["sentences"] = strict(bundle, task, gold, by_sentence=True)
        if task.card.language == lender.card.language and not task.card.phi:
            formed = [in_form(document, forms[number % len(forms)]) for number, document in enumerate(gold)]
            own["forms"] = strict(bundle, task, formed)
        found[name] = own
        print(name, own, flush=True)
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
    read = contexts(Bundle.load(light), given.tasks)
    (given.out / "contexts.json").write_text(json.dumps(read, indent=1) + "\n", encoding="utf-8")
    write_card(light, results, read)


def write_card(light: Path, results: dict[str, dict[str, Any]], read: dict[str, dict[str, list[float]]]) -> None:
    """Fill the template of the card: scores, contexts, calibration, and the hash of each file."""
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
    places = ["| head | documents | sentence by sentence | in a form |", "|---|--:|--:|--:|"]
    for name, own in read.items():
        cells = (
            " / ".join(f"{value:.1f}" for value in own.get(place, ())) for place in ("documents", "sentences", "forms")
        )
        places.append(f"| {name} | {' | '.join(cells)} |")
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
    tables = {"{scores}": scores, "{contexts}": places, "{calibration}": errors, "{files}": files}
    for key, table in tables.items():
        template = template.replace(key, "\n".join(table))
    Bundle.write_card(light, template)
    manifest = json.loads((light / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["README.md"] = sha256(light / "README.md")
    # The path of the bundle on this machine means nothing elsewhere.
    recipe, path = light / "recipe.toml", manifest["recipe"]["bundle"]
    manifest["recipe"]["bundle"] = Path(path).name
    recipe.write_text(recipe.read_text(encoding="utf-8").replace(path, Path(path).name), encoding="utf-8")
    write_json(light / "manifest.json", manifest)


if __name__ == "__main__":
    main()
