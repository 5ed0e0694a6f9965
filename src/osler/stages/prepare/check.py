"""Check prepared tasks: counts, offsets and shared records."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from osler.artifacts.task_folder import TaskFolder
from osler.tasks.card import ExpectedCounts, Kind, TaskCard
from osler.tasks.leakage import Fingerprint, SharedRecords, fingerprint, overlaps
from osler.tasks.records import OffsetCounts, RecordCounts

Verdict = Literal["equal", "explained", "differs", "synthetic", "not stated"]


@dataclass(frozen=True)
class CountLine:
    """One number of one split: as counted here, as stated on the card, and as published."""

    split: str
    number: str
    here: int
    card: int | None
    paper: int | None
    verdict: Verdict
    reason: str | None = None


@dataclass
class TaskReport:
    """Result for one task."""

    task: str
    lines: list[CountLine] = field(default_factory=list)
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: dict[str, dict[str, int]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    release: str | None = None
    """Release of the files, if the corpus has several."""
    synthetic: bool = False
    """Whether osler generated the files, so their counts differ from the published ones."""

    @property
    def sound(self) -> bool:
        """Whether every number is as stated or explained, and mentions are aligned."""
        return all(line.verdict != "differs" for line in self.lines) and self.aligned

    @property
    def aligned(self) -> bool:
        """Whether no mention covers only whitespace, and at most a few have wrong offsets."""
        return not self.offsets.get(OffsetCounts.BLANK) and not OffsetCounts.misaligned(self.offsets, self.left_out)


@dataclass
class CheckReport:
    """Results for all tasks, and the records shared within and across them."""

    tasks: list[TaskReport]
    within: list[SharedRecords]
    across: list[SharedRecords]

    @property
    def sound(self) -> bool:
        return all(task.sound for task in self.tasks)

    def as_dict(self) -> dict[str, Any]:
        return {
            "sound": self.sound,
            "tasks": [{**asdict(task), "sound": task.sound} for task in self.tasks],
            "shared_within_tasks": [asdict(item) for item in self.within],
            "shared_across_tasks": [asdict(item) for item in self.across],
        }


def check(tasks: Sequence[TaskFolder], *, leakage: bool = True) -> CheckReport:
    """Check each task, and with `leakage` compare all tasks with each other."""
    prints: dict[str, list[Fingerprint]] = {}
    reports = []
    names = _names(tasks)
    for name, task in zip(names, tasks, strict=True):
        task.artifact.verify()
        reports.append(_check_task(task, name, prints if leakage else None))
    reports += _fold_totals([task.card for task in tasks], reports)
    if not leakage:
        return CheckReport(reports, [], [])
    shared = overlaps(prints, _pairs(tasks, names))
    own = [item for item in shared if item.of.rpartition("/")[0] == item.within.rpartition("/")[0]]
    return CheckReport(reports, own, [item for item in shared if item not in own])


def _names(tasks: Sequence[TaskFolder]) -> list[str]:
    """Name each task, adding its folder if several share a name, such as two releases of a corpus."""
    times = Counter(task.card.name for task in tasks)
    return [
        task.card.name if times[task.card.name] == 1 else f"{task.card.name} ({task.artifact.path})" for task in tasks
    ]


def _check_task(task: TaskFolder, name: str, prints: dict[str, list[Fingerprint]] | None) -> TaskReport:
    card, counts = task.card, task.artifact.manifest.counts
    report = TaskReport(
        name,
        problems=counts.get("problems", {}),
        left_out=counts.get("left_out", {}),
        absent=counts.get("absent", []),
        release=card.release if card.releases else None,
        synthetic=bool(counts.get("synthetic")),
    )
    offsets = OffsetCounts()
    for split in task.splits:
        found = RecordCounts(card.kind)
        for record in task.stream(split):
            found.add(record)
            offsets.add(record)
            if prints is not None:
                prints.setdefault(f"{name}/{split}", []).append(fingerprint(record))
        report.splits[split] = found.as_dict()
    report.offsets = offsets.as_dict(report.problems)
    for line in _lines(card, report.splits):
        made_up = report.synthetic and line.verdict in ("differs", "explained")
        report.lines.append(replace(line, verdict="synthetic") if made_up else line)
    return report


def _lines(card: TaskCard, splits: Mapping[str, Mapping[str, Any]]) -> Iterator[CountLine]:
    """Yield every number that is stated or worth showing, by split."""
    stated: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    paper = card.paper.splits if card.paper else {}
    for column, source in (("card", card.counts), ("paper", paper)):
        for key, counts in source.items():
            for number, value in counts.stated().items():
                stated[key, number][column] = value
    for split, numbers in splits.items():
        for number in ("documents", "mentions", "relations", "assigned"):
            if number in numbers:
                stated.setdefault((split, number), {})
    by_card = _left_out(card)
    order = [*splits, *(key for key in paper if key not in splits)]
    for (key, number), columns in sorted(stated.items(), key=lambda item: order.index(item[0][0])):
        parts = list(splits) if key == "all" else key.split("+")
        if any(part not in splits for part in parts):
            continue
        here = sum(_number(splits[part], number) for part in parts)
        pinned = [card.counts.get(part, ExpectedCounts()).stated().get(number) for part in parts]
        if "card" not in columns and None not in pinned:
            columns["card"] = sum(filter(None, pinned))
        yield _line(card, key, number, here, columns, by_card.get((key, number)))


@dataclass(frozen=True)
class _LeftOut:
    """Expected change of a number because the card drops labels that its counts still include."""

    number: int
    exact: bool
    """Whether the number is exact rather than an upper bound."""
    reason: str


def _left_out(card: TaskCard) -> dict[tuple[str, str], _LeftOut]:
    """Return what to expect instead of the card's counts if labels were dropped or renamed after counting."""
    found: dict[tuple[str, str], _LeftOut] = {}
    if card.discover_labels or not card.labels:
        return found
    for split, counts in card.counts.items():
        gone = {label: count for label, count in counts.labels.items() if label not in card.labels}
        if not gone:
            continue
        renamed: dict[str, dict[str, int]] = defaultdict(dict)
        for label, count in gone.items():
            new = card.label_map.get(label, "")
            if new in card.labels:
                renamed[new][label] = count
            how = f"the card renames it to {new}" if new in card.labels else "left out by the card"
            found[split, f"label:{label}"] = _LeftOut(0, True, how)
        for new, labels in renamed.items():
            reason = f"the card adds {_listed(labels)}"
            found[split, f"label:{new}"] = _LeftOut(counts.labels.get(new, 0) + sum(labels.values()), True, reason)
        lost = {label: count for label, count in gone.items() if card.label_map.get(label, "") not in card.labels}
        if not lost:
            continue
        counted = {Kind.TAGGING: "mentions", Kind.RELATION: "relations"}.get(card.kind, "assigned")
        reason = f"left out by the card: {_listed(lost)}"
        for number, value in counts.stated().items():
            if number == counted:
                found[split, number] = _LeftOut(value - sum(lost.values()), True, reason)
            elif number in ("mentions", "overlapping", "discontinuous"):
                found[split, number] = _LeftOut(value, False, reason)
    return found


def _listed(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{label} {count:,}" for label, count in labels.items())


def _line(
    card: TaskCard, key: str, number: str, here: int, columns: Mapping[str, int], left_out: _LeftOut | None = None
) -> CountLine:
    pinned, printed = columns.get("card"), columns.get("paper")
    reason = card.paper.reason(key, number) if card.paper else None
    verdict: Verdict = "equal" if columns else "not stated"
    if pinned is not None and pinned != here:
        if left_out and (here == left_out.number or (here < left_out.number and not left_out.exact)):
            return CountLine(key, number, here, pinned, printed, "explained", left_out.reason)
        verdict = "differs"
    elif printed is not None and printed != here:
        # The explanation is about the official files, so it holds only if the count is the card's.
        verdict = "explained" if reason and pinned is not None else "differs"
    return CountLine(key, number, here, pinned, printed, verdict, reason if printed not in (None, here) else None)


def _number(counts: Mapping[str, Any], number: str) -> int:
    label = number.removeprefix("label:")
    found = counts.get("labels", {}).get(label, 0) if label != number else counts.get(number, 0)
    return int(found)


def _fold_totals(cards: Sequence[TaskCard], reports: Sequence[TaskReport]) -> list[TaskReport]:
    """For tasks with all folds present, compare the sum over their test sets with the published total."""
    groups: dict[str, list[tuple[TaskCard, TaskReport]]] = defaultdict(list)
    for card, report in zip(cards, reports, strict=True):
        if card.fold is not None:
            groups[card.name.rsplit("-fold", 1)[0]].append((card, report))
    totals = []
    for name, members in groups.items():
        card = members[0][0]
        stated = (card.paper.splits if card.paper else {}).get("folds", ExpectedCounts()).stated()
        if not stated or len({member.fold for member, _ in members}) < card.folds:
            continue
        total = TaskReport(f"{name} (all folds)")
        for number, value in stated.items():
            here = sum(_number(report.splits["test"], number) for _, report in members)
            total.lines.append(_line(card, "folds", number, here, {"paper": value}))
        totals.append(total)
    return totals


def _pairs(tasks: Sequence[TaskFolder], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of splits to compare: those within a task, and each training split with other tasks' held-out splits."""
    named = list(zip(names, tasks, strict=True))
    for name, task in named:
        yield from itertools.combinations([f"{name}/{split}" for split in task.splits], 2)
    for (one_name, one), (other_name, other) in itertools.permutations(named, 2):
        same_corpus_folds = one.card.fold is not None and other.card.fold is not None
        if "train" in one.splits and not same_corpus_folds:
            for split in other.splits:
                if split != "train":
                    yield f"{one_name}/train", f"{other_name}/{split}"
