"""Measure de-identification on a task with gold PHI: what stays readable, whose names are missed, and what is removed
needlessly."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osler.artifacts.bundle_spec import ALL_LANGUAGES
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import progress
from osler.core.errors import InputError, RecipeError
from osler.core.files import fingerprint, write_atomic, write_json
from osler.metrics.deid import Coverage, DeidScores, PhiLabels, phi_labels, score_deid
from osler.stages.serve.deid.config import DeidEvaluateRecipe
from osler.stages.serve.deid.engine import DeidEngine, Failure
from osler.stages.serve.deid.kinds import DATA, PhiFinding, is_removed, kind_of, phi_map
from osler.stages.serve.deid.rules import rules_digest
from osler.text.document import Document, Span
from osler.text.words import words

_METRICS, _CARD = "metrics.json", "card.md"


@dataclass
class _Words:
    """Words with a letter or digit: PHI by label, other words, and how many of each are removed."""

    phi: Counter[str]
    covered: Counter[str]
    other: int = 0
    removed: int = 0
    terms: int = 0
    removed_terms: int = 0

    def recall(self, labels: Iterable[str]) -> float:
        known = set(labels) & set(self.phi)
        total = sum(self.phi[label] for label in known)
        return sum(self.covered[label] for label in known) / total if total else 1.0


def plan(recipe: DeidEvaluateRecipe, out: Path) -> list[str]:
    """Describe what `run` will do, or raise what it would raise."""
    task, engine, _ = _open(recipe)
    lines = [
        f"de-identify the {recipe.split} split of {task.card.name} by {engine.covers}",
        f"score it with scope {recipe.scope}",
    ]
    lines += engine.costs()
    if recipe.planted:
        lines.append(f"plant {recipe.planted} names of each origin and gender into sentences")
    return [*lines, f"write metrics and a card to {out}"]


def run(recipe: DeidEvaluateRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Run the evaluation and write metrics.json and card.md."""
    task, engine, language = _open(recipe)
    parents: dict[str, str | Artifact] = {"task": task.artifact, "rules": rules_digest()}
    if recipe.bundle is not None:
        parents["bundle"] = Artifact.open(recipe.bundle, kind="bundle")
    if recipe.terms is not None:
        parents["terms"] = fingerprint([recipe.terms])
    labels = phi_map(task.card)
    assert labels is not None

    def build(work: Workspace) -> None:
        gold = [record for record in task.read(recipe.split) if isinstance(record, Document)]
        found = _found(engine, gold, recipe.batch)
        kept = [(note, result) for note, result in zip(gold, found, strict=True) if not isinstance(result, Failure)]
        if not kept:
            raise InputError("no note could be processed", where=recipe.task, fix="Check --language and --head")
        phi = phi_labels(labels)
        values = _scores([note for note, _ in kept], [result for _, result in kept], labels, phi, _terms(recipe.terms))
        values |= {
            "task": task.card.name,
            "split": recipe.split,
            "labels": labels,
            "scope": recipe.scope,
            "found_by": engine.covers,
            "notes_not_processed": len(gold) - len(kept),
            "planted_names": _planted(engine, language, recipe.planted) if recipe.planted else {},
        }
        write_json(work.path / _METRICS, values)
        write_atomic(work.path / _CARD, _card(values))
        shown = ("word_recall", "safe_harbor_recall", "clean_share", "other_words_removed")
        work.counts.update(notes=len(kept), **{name: round(values[name], 4) for name in shown})

    return produce(out, kind="deid-evaluation", recipe=recipe, parents=parents, build=build, force=force)


def _open(recipe: DeidEvaluateRecipe) -> tuple[Any, DeidEngine, str]:
    from osler.artifacts.task_folder import TaskFolder

    task = TaskFolder.open(recipe.task)
    if phi_map(task.card) is None:
        raise RecipeError(
            "this task has no labels of PHI that are known",
            where=recipe.task,
            fix='Name its label map on the card: phi = "i2b2-2014" or the path of a TOML file',
        )
    if recipe.split not in task.splits:
        raise RecipeError(f"no split {recipe.split!r}", where=recipe.task, fix=f"Use one of: {', '.join(task.splits)}")
    own = task.card.language
    asked = recipe.language or own
    engine = DeidEngine(recipe.changed(language=asked), recipe.bundle, recipe.device)
    return task, engine, own if asked == ALL_LANGUAGES else asked


def _found(engine: DeidEngine, notes: Sequence[Document], batch: int) -> list[list[PhiFinding] | Failure]:
    found: list[list[PhiFinding] | Failure] = []
    with progress("de-identify", len(notes)) as bar:
        for start in range(0, len(notes), batch):
            found += engine.find(notes[start : start + batch])
            bar.advance(len(notes[start : start + batch]))
    return found


def _scores(
    gold: Sequence[Document],
    found: Sequence[list[PhiFinding] | Failure],
    labels: str,
    phi: PhiLabels,
    terms: frozenset[str],
) -> dict[str, Any]:
    # It only matters that a character is covered, not by which label.
    any_label = next(iter(phi.safe_harbor))
    predicted = [
        note.with_(spans=tuple(Span.at(f.start, f.end, any_label) for f in result), relations=())
        for note, result in zip(gold, found, strict=True)
        if not isinstance(result, Failure)
    ]
    scores = score_deid(gold, predicted, labels)
    strictly = score_deid([_safe_harbor(note, phi) for note in gold], predicted, labels)
    counted = _count_words(gold, predicted, phi, terms)
    return {
        "word_recall": counted.recall(counted.phi),
        "recall": scores.total.recall,
        "character_recall": scores.total.character_recall,
        "character_precision": scores.character_precision,
        "clean_share": scores.clean_share,
        "safe_harbor_recall": strictly.total.recall,
        "safe_harbor_clean_share": strictly.clean_share,
        "notes": scores.notes,
        "notes_with_phi": scores.notes_with_phi,
        "other_words_removed": counted.removed / counted.other if counted.other else 0.0,
        "medical_words": counted.terms,
        "medical_words_removed": counted.removed_terms / counted.terms if counted.terms else None,
        "categories": _by_category(scores, counted, phi),
        "per_label": {
            label: {"mentions": part.mentions, "recall": part.recall, "word_recall": counted.recall([label])}
            for label, part in scores.per_label.items()
        },
    }


def _safe_harbor(note: Document, phi: PhiLabels) -> Document:
    """Reduce the gold to what Safe Harbor lists: no staff and hospitals, and only ages over 89."""
    spans = tuple(
        span
        for span in note.spans
        if span.label in phi.safe_harbor
        and is_removed(kind_of(span.label), span.text_in(note.text), "safe-harbor")
        and (kind_of(span.label) != "AGE" or any(character.isdecimal() for character in span.text_in(note.text)))
    )
    return note.with_(spans=spans, relations=())


def _by_category(scores: DeidScores, counted: _Words, phi: PhiLabels) -> dict[str, dict[str, Any]]:
    from osler.metrics.deid import categories

    titles: dict[str, list[str]] = {}
    for label, category in phi.safe_harbor.items():
        titles.setdefault(categories()[category], []).append(label)
    for label, title in phi.beyond.items():
        titles.setdefault(f"{title} (beyond Safe Harbor)", []).append(label)
    table = {}
    for title, labels in titles.items():
        part = sum((scores.per_label[label] for label in labels if label in scores.per_label), Coverage())
        if part.mentions:
            values = {"mentions": part.mentions, "recall": part.recall, "character_recall": part.character_recall}
            table[title] = {**values, "word_recall": counted.recall(labels)}
    return table


def _count_words(
    gold: Sequence[Document], predicted: Sequence[Document], phi: PhiLabels, terms: frozenset[str]
) -> _Words:
    count = _Words(Counter(), Counter())
    for want, have in zip(gold, predicted, strict=True):
        labels = _labelled(want, phi)
        mask = bytearray(len(want.text))
        for span in have.spans:
            mask[span.start : span.end] = b"\1" * (span.end - span.start)
        for start, end in words(want.text):
            if not want.text[start].isalnum():
                continue
            label = next((labels[place] for place in range(start, end) if place in labels), None)
            if label is not None:
                count.phi[label] += 1
                count.covered[label] += all(mask[start:end])
                continue
            gone, term = any(mask[start:end]), want.text[start:end].lower() in terms
            count.other += 1
            count.removed += gone
            count.terms += term
            count.removed_terms += gone and term
    return count


def _labelled(note: Document, phi: PhiLabels) -> dict[int, str]:
    """Label of each character of gold PHI."""
    return {
        place: span.label
        for span in note.spans
        if phi.holds(span.label)
        for start, end in span.fragments
        for place in range(start, end)
    }


def _terms(path: Path | None) -> frozenset[str]:
    """Words of a list of medical terms, without the shortest, which are mostly articles and units."""
    if path is None:
        return frozenset()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError("cannot be read as UTF-8 text", where=path, fix="Give one term per line") from None
    return frozenset(text[start:end].lower() for start, end in words(text) if end - start > 3)


def _planted(engine: DeidEngine, language: str, count: int) -> dict[str, dict[str, float]]:
    """Share of planted names that are covered completely, by origin and gender."""
    table = tomllib.loads(DATA.joinpath("planted.toml").read_text("utf-8"))
    carriers = table["carriers"].get(language, table["carriers"]["en"])
    recall: dict[str, dict[str, float]] = {}
    for origin, lists in table["origins"].items():
        recall[origin] = {}
        for gender in ("female", "male"):
            notes = list(_sentences(lists, gender, carriers, count))
            found = engine.find([note for note, _ in notes])
            hits = [_covers(result, place) for result, (_, place) in zip(found, notes, strict=True)]
            recall[origin][gender] = sum(hits) / len(hits)
    return recall


def _sentences(
    lists: Mapping[str, list[str]], gender: str, carriers: Sequence[str], count: int
) -> Iterator[tuple[Document, tuple[int, int]]]:
    """Yield every carrier with `count` names, and the position of the name in it."""
    for number in range(count):
        first = lists[gender][number % len(lists[gender])]
        last = lists["last"][(number + number // len(lists[gender])) % len(lists["last"])]
        for carrier in carriers:
            name = f"{first} {last}" if "{name}" in carrier else last
            start = carrier.index("{")
            text = carrier.replace("{name}", name).replace("{last}", name)
            yield Document("planted", text), (start, start + len(name))


def _covers(found: list[PhiFinding] | Failure, place: tuple[int, int]) -> bool:
    if isinstance(found, Failure):
        return True  # the sentence would not be written, so nothing leaks
    return any(finding.start <= place[0] and place[1] <= finding.end for finding in found)


def _card(values: Mapping[str, Any]) -> str:
    """Write the metrics as Markdown."""

    def percent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.1f}"

    lines = [
        f"# De-identification of {values['task']} ({values['split']})",
        "",
        f"Found by: {values['found_by']}. Scope: {values['scope']}. {values['notes']:,} notes, {values['notes_with_phi']:,} with PHI; "
        f"{values['notes_not_processed']:,} could not be processed.",
        "",
        "| | % |",
        "|---|---:|",
        f"| words of PHI removed (recall) | {percent(values['word_recall'])} |",
        f"| mentions of PHI removed completely | {percent(values['recall'])} |",
        f"| mentions in Safe Harbor categories removed completely | {percent(values['safe_harbor_recall'])} |",
        f"| **notes without a leak** | {percent(values['clean_share'])} |",
        f"| notes without a leak in a Safe Harbor category | {percent(values['safe_harbor_clean_share'])} |",
        f"| removed characters that are PHI (precision) | {percent(values['character_precision'])} |",
        f"| other words removed | {100 * values['other_words_removed']:.2f} |",
    ]
    if values["medical_words_removed"] is not None:
        lines.append(f"| words of the medical list removed | {100 * values['medical_words_removed']:.2f} |")
    lines += ["", "| category | mentions | completely removed | words removed |", "|---|---:|---:|---:|"]
    for title, row in values["categories"].items():
        lines.append(f"| {title} | {row['mentions']:,} | {percent(row['recall'])} | {percent(row['word_recall'])} |")
    if values["planted_names"]:
        lines += [
            "",
            "Names of several origins, planted into six sentences: three have a title, a label or a relative before the name, three give "
            "no sign that it is one. Share of sentences whose name is removed completely:",
            "",
        ]
        lines += ["| origin | female | male |", "|---|---:|---:|"]
        for origin, row in values["planted_names"].items():
            lines.append(f"| {origin.replace('_', ' ')} | {percent(row['female'])} | {percent(row['male'])} |")
    lines += [
        "",
        "A mention counts as removed if every letter and digit of it is. Which kind it is taken for does not count. No system finds "
        "all PHI: these figures hold for notes like these.",
    ]
    return "\n".join(lines) + "\n"
