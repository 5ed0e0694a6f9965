"""Write docs/tasks.md from the task cards: python docs/build_tasks.py"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from osler.tasks.card import Kind, TaskCard
from osler.tasks.catalogue import all_cards, protocol_families
from osler.tasks.describe import labels_text, release_lines, split_lines

_KINDS = {
    Kind.TAGGING: "Tagging",
    Kind.RELATION: "Relations",
    Kind.ATTRIBUTES: "Attributes of mentions",
    Kind.CLASSIFICATION: "Classification and entailment",
    Kind.MULTILABEL: "Multi-label classification",
    Kind.REGRESSION: "Regression and similarity",
}


def page() -> str:
    """Return the Markdown page of all tasks."""
    return "\n".join(_page(list(all_cards()))) + "\n"


def _page(cards: Sequence[TaskCard]) -> Iterator[str]:
    yield "# Tasks"
    yield ""
    yield "<!-- Generated from the task cards by docs/build_tasks.py; do not edit. -->"
    yield ""
    yield (
        "All tasks that ship with osler. `osler tasks info NAME` shows one task and the files it needs, "
        "`osler tasks prepare NAME --from DIR --out DIR` reads the official files, and `osler tasks check DIR` compares "
        "the result with the counts below. Scores are always printed with their protocol, `task/protocol@version`."
    )
    grouped: dict[Kind, list[TaskCard]] = defaultdict(list)
    for card in cards:
        grouped[card.kind].append(card)
    for kind, title in _KINDS.items():
        yield from ("", f"## {title}", "")
        yield "| task | description | language | records (train / dev / test) | default protocol | access |"
        yield "|---|---|---|---|---|---|"
        for card in grouped[kind]:
            name = f"[{card.name}](#{card.name})"
            more = f" and {len(card.protocols) - 1} more" if len(card.protocols) > 1 else ""
            protocols = f"`{card.protocol}`{more}"
            yield f"| {name} | {card.title} | {card.language} | {_sizes(card)} | {protocols} | {_access(card)} |"
    families = protocol_families()
    yield from ("", "## Shared protocols")
    for family, protocols in families.items():
        yield from ("", f"### protocols: {family}", "")
        for name, protocol in protocols.items():
            yield f"- `{name}`, {protocol.metric}: {protocol.description}"
    yield from ("", "## Cards")
    for card in cards:
        yield from ("", f"### {card.name}", "", card.title + ".", "")
        yield f"- Labels: {labels_text(card) or 'a number'}"
        yield f"- Licence: {card.licence}. {card.access}"
        yield f"- Citation: {card.citation}"
        for line in split_lines(card):
            yield f"- {line}"
        for line in release_lines(card):
            yield f"- Release {line}"
        if card.paper:
            yield f"- Published counts: {card.paper.source}"
            for place, reason in card.paper.differences.items():
                yield f"  - {place}: {reason}"
        for note in card.notes:
            yield f"- {note}"
        yield "- Protocols:"
        own = dict(card.protocols)
        for family, protocols in families.items():
            if all(own.get(name) == protocol for name, protocol in protocols.items()):
                own = {name: protocol for name, protocol in own.items() if name not in protocols}
                default = f"; `{card.protocol_id()}` is the default" if card.protocol in protocols else ""
                yield f"  - those of [{family}](#protocols-{family}){default}"
        for name, protocol in own.items():
            default = " (default)" if name == card.protocol else ""
            yield f"  - `{card.protocol_id(name)}`{default}, {protocol.metric}: {protocol.description}"


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
        return "built in"
    return "free" if card.access.startswith("Free") else "on application"


if __name__ == "__main__":
    (Path(__file__).parent / "tasks.md").write_text(page(), encoding="utf-8")
