"""A card in words: for `osler tasks info`, and all cards as the page of tasks in the documentation."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence

from osler.tasks.card import ExpectedCounts, Kind, TaskCard

_KINDS = {
    Kind.TAGGING: "Tagging",
    Kind.RELATION: "Relations",
    Kind.CLASSIFICATION: "Classification and entailment",
    Kind.MULTILABEL: "Several labels at once",
    Kind.REGRESSION: "Similarity and other numbers",
}
_FEW = 12


def describe(card: TaskCard) -> str:
    """What a person wants to know before preparing a task."""
    lines = [f"{card.name}: {card.title}", ""]
    facts = {
        "kind": f"{card.kind}, {card.record}s, {card.language}, {card.domain}",
        "labels": _labels(card),
        "licence": card.licence,
        "access": card.access,
        "citation": card.citation,
        "given out as": ", ".join(card.distribution),
    }
    for name, value in facts.items():
        if value:
            lines += textwrap.wrap(f"{name + ':':<13} {value}", 110, subsequent_indent=" " * 14)
    lines += ["", "Splits"]
    for line in _splits(card):
        lines += textwrap.wrap(line.replace("`", ""), 110, initial_indent="  ", subsequent_indent="    ")
    if card.notes:
        lines += ["", "Notes"]
        for note in card.notes:
            lines += textwrap.wrap(f"- {note}", 110, initial_indent="  ", subsequent_indent="    ")
    lines += ["", f"Protocols (default: {card.protocol_id()})"]
    for name, protocol in card.protocols.items():
        lines += textwrap.wrap(
            f"{card.protocol_id(name)} [{protocol.metric}] {protocol.description}",
            110,
            initial_indent="  ",
            subsequent_indent="    ",
        )
    if card.source.reader == "files":
        lines += ["", f"Prepare it: osler tasks prepare {card.name} --from DIR --out DIR"]
    return "\n".join(lines)


def page(cards: Sequence[TaskCard]) -> str:
    """The Markdown page of all tasks."""
    return "\n".join(_page(cards)) + "\n"


def _page(cards: Sequence[TaskCard]) -> Iterator[str]:
    yield "# Tasks"
    yield ""
    yield "<!-- Made from the cards by `osler tasks docs`; do not edit. -->"
    yield ""
    yield (
        "Every task osler knows, from its card. `osler tasks info NAME` shows one with the file names it expects, "
        "`osler tasks prepare NAME --from DIR --out DIR` reads the official files, and `osler tasks check DIR` compares "
        "what was read with the numbers below. A number is always printed with its protocol, `task/protocol@version`."
    )
    grouped: dict[Kind, list[TaskCard]] = defaultdict(list)
    for card in cards:
        grouped[card.kind].append(card)
    for kind, title in _KINDS.items():
        yield from ("", f"## {title}", "")
        yield "| task | what it is | language | records (train / dev / test) | protocols | access |"
        yield "|---|---|---|---|---|---|"
        for card in grouped[kind]:
            name = f"[{card.name}](#{card.name})"
            protocols = ", ".join(f"`{p}`" for p in card.protocols)
            yield f"| {name} | {card.title} | {card.language} | {_sizes(card)} | {protocols} | {_access(card)} |"
    yield from ("", "## Cards")
    for card in cards:
        yield from ("", f"### {card.name}", "", card.title + ".", "")
        yield f"- Labels: {_labels(card) or 'a number'}"
        yield f"- Licence: {card.licence}. {card.access}"
        yield f"- Citation: {card.citation}"
        for line in _splits(card):
            yield f"- {line}"
        if card.paper:
            yield f"- Numbers in the literature: {card.paper.source}"
            for place, reason in card.paper.differences.items():
                yield f"  - {place}: {reason}"
        for note in card.notes:
            yield f"- {note}"
        yield "- Protocols:"
        for name, protocol in card.protocols.items():
            default = " (default)" if name == card.protocol else ""
            yield f"  - `{card.protocol_id(name)}`{default}, {protocol.metric}: {protocol.description}"


def _labels(card: TaskCard) -> str:
    if card.discover_labels:
        return "as many as the data has"
    labels = ", ".join(card.labels[:_FEW])
    return f"{labels} and {len(card.labels) - _FEW} more" if len(card.labels) > _FEW else labels


def _splits(card: TaskCard) -> Iterator[str]:
    if card.source.reader != "files":
        yield "written by the embedded synthetic clinic, no files needed"
    folder = f" in {' or '.join(card.source.folder)}" if card.source.folder else ""
    for name, split in card.source.splits.items():
        numbers = _numbers(card.counts.get(name))
        if split.carve:
            drawn = "the last ones" if split.carve.method == "tail" else f"drawn with seed {split.carve.seed}"
            origin = f"{split.carve.share:.4g} of the groups of {split.carve.of} (by {split.carve.by}), {drawn}"
        else:
            files = [*split.files, *([split.listed.file] if split.listed else [])]
            optional = ", may be missing" if split.optional else ""
            origin = f"{', '.join(f'`{file}`' for file in files)}{folder}{optional}"
        yield f"{name}: {origin}{numbers}"


def _numbers(counts: ExpectedCounts | None) -> str:
    stated = {} if counts is None else counts.stated()
    shown = [f"{count:,} {name}" for name, count in stated.items() if not name.startswith("label:")]
    return f" ({', '.join(shown)})" if shown else ""


def _sizes(card: TaskCard) -> str:
    if card.folds:
        return f"{card.folds} folds"
    sizes = []
    for split in ("train", "dev", "test"):
        counts = card.counts.get(split) or (card.paper.splits.get(split) if card.paper else None)
        sizes.append("-" if counts is None or counts.documents is None else f"{counts.documents:,}")
    return " / ".join(sizes)


def _access(card: TaskCard) -> str:
    if card.source.reader == "clinic":
        return "embedded"
    return "free" if card.access.startswith("Free") else "on application"
