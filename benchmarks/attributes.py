"""Attributes of mentions: rules, a trained head, and both together, on the same gold mentions.

python benchmarks/attributes.py TASK... [--bundle BUNDLE] [--split test] [--device auto] [--json FILE]

A task is a prepared folder of kind attributes. Its head is the one of the bundle that was trained on it. Without a bundle, only the
rules are scored. On NUBes, `annotated` leaves out the mentions without a gold attribute, which are derived and not annotated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from osler.artifacts.task_folder import TaskFolder
from osler.metrics.scores import PRF
from osler.metrics.spans import score_attributes
from osler.text.context import ATTRIBUTES, attributes
from osler.text.document import Document

Found = list[Document]


def by_rules(documents: Sequence[Document], language: str) -> Found:
    found = []
    for document in documents:
        answers = attributes(document.text, document.spans, language)
        spans = (replace(span, attributes=own) for span, own in zip(document.spans, answers, strict=True))
        found.append(document.with_(spans=tuple(spans)))
    return found


def by_head(documents: Sequence[Document], bundle: Any, task: str) -> Found:
    predicted = bundle.predict(bundle.spec.tasks[task].head, documents)
    return [document for document in predicted if isinstance(document, Document)]


def united(first: Found, second: Found) -> Found:
    found = []
    for one, other in zip(first, second, strict=True):
        pairs = zip(one.spans, other.spans, strict=True)
        spans = (replace(a, attributes={**a.attributes, **b.attributes}) for a, b in pairs)
        found.append(one.with_(spans=tuple(spans)))
    return found


def without_affirmed(gold: Found, predicted: Found) -> tuple[Found, Found]:
    """Both sides with only the mentions that have a gold attribute."""
    kept: tuple[Found, Found] = ([], [])
    for want, have in zip(gold, predicted, strict=True):
        places = [place for place, span in enumerate(want.spans) if span.attributes]
        for side, document in zip(kept, (want, have), strict=True):
            side.append(document.with_(spans=tuple(document.spans[place] for place in places)))
    return kept


def rows_of(
    gold: Found, systems: Mapping[str, Found], labels: Sequence[str], *, derived: bool
) -> list[tuple[str, int, dict[str, PRF]]]:
    """Name, number of gold and the scores of each system: by attribute, over all, and over annotated mentions if some are not."""
    scored = {name: score_attributes(gold, found, labels=labels)[0] for name, found in systems.items()}
    annotated = {}
    for name, found in systems.items():
        annotated[name] = score_attributes(*without_affirmed(gold, found), labels=labels)[0].micro
    first = next(iter(scored.values()))
    rows = [(label, {name: scores.per_label[label] for name, scores in scored.items()}) for label in first.labels]
    rows += [("all", {name: scores.micro for name, scores in scored.items()})]
    rows += [("annotated", annotated)] if derived else []
    return [(label, round(next(iter(own.values())).tp + next(iter(own.values())).fn), own) for label, own in rows]


def main() -> None:
    """Score every task and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tasks", nargs="+", type=Path, help="prepared attribute tasks")
    parser.add_argument("--bundle", type=Path, help="a bundle with heads for these tasks")
    parser.add_argument("--split", default="test")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    bundle: Any = None
    if options.bundle:
        from osler.artifacts.bundle import Bundle

        bundle = Bundle.load(options.bundle, options.device)
    names = ["rules", "head", "union"] if bundle else ["rules"]
    print(f"| task | attribute | gold | {' | '.join(f'{name} P / R / F1' for name in names)} |")
    print("|---|---|---:|" + "---|" * len(names))
    figures: dict[str, Any] = {}
    speeds = []
    for folder in options.tasks:
        task = TaskFolder.open(folder)
        gold = [record for record in task.read(options.split) if isinstance(record, Document)]
        by_rules(gold[:1], task.card.language)  # reads the words of the language
        started = time.process_time()
        systems = {"rules": by_rules(gold, task.card.language)}
        speeds.append(
            f"{task.card.name}: {len(gold) / (time.process_time() - started):,.0f} notes per CPU second by rules"
        )
        if bundle:
            systems["head"] = by_head(gold, bundle, task.card.name)
            systems["union"] = united(systems["rules"], systems["head"])
        # What no rule is about, such as i2b2's conditional, is the head's alone.
        labels = [label for label in task.card.labels if bundle or label in ATTRIBUTES]
        for label, number, own in rows_of(gold, systems, labels, derived="repeated" in task.card.source.options):
            cells = [f"{100 * s.precision:.1f} / {100 * s.recall:.1f} / {100 * s.f1:.1f}" for s in own.values()]
            print(f"| {task.card.name} | {label} | {number:,} | {' | '.join(cells)} |")
            figures[f"{task.card.name}/{label}"] = {"gold": number} | {n: s.as_dict() for n, s in own.items()}
        if bundle:
            last = figures[f"{task.card.name}/all"]
            assert last["union"]["recall"] >= max(last["rules"]["recall"], last["head"]["recall"])
    print("\n" + "\n".join(speeds))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
