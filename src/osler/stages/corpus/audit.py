"""A sample of what one step removed or changed, to judge whether it was right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from osler.artifacts.corpus import Corpus, KeptDocument
from osler.artifacts.ledger import Ledger, LedgerEntry
from osler.report.tables import Cell, Column, Row, Table
from osler.stages.corpus.originals import Origin, Original, Originals, differing_words, kept_documents, twin_of

SNIPPET = 240
"""Maximum characters shown of a document."""
_CONTEXT = 8  # words before the first difference
_DID = {"read": "could not read", "select": "left out, as its options say"}


@dataclass(frozen=True, slots=True)
class AuditedRemoval:
    """A removed document or passage. If text is wanted, it has snippets of itself and of the document kept instead.

    For a document that was only changed, the snippets are from before and after.
    """

    entry: LedgerEntry
    removed: str | None = None
    kept: str | None = None


def audit(
    corpus: Corpus, step: str, count: int, *, source: str | None = None, seed: int = 1, text: bool = False
) -> tuple[list[AuditedRemoval], int]:
    """Return a sample of a step's removals, and how many there are. With `text`, documents are reread from the raw files."""
    entries, total = Ledger.of(corpus).sample(step, count, source=source, seed=seed)
    audited = [AuditedRemoval(entry) for entry in entries]
    return (_with_snippets(corpus, audited) if text else audited), total


def _with_snippets(corpus: Corpus, audited: Sequence[AuditedRemoval]) -> list[AuditedRemoval]:
    origins = {removal.entry: origin for removal in audited if (origin := _origin(removal.entry))}
    originals = Originals(corpus).read(origins.values())
    compared = {removal.entry: pair for removal in audited if (pair := _compared(removal.entry))}
    twins = kept_documents(corpus, compared.values())
    result = []
    for removal in audited:
        entry = removal.entry
        original = originals[origins[entry]] if entry in origins else None
        found = twins.get(compared[entry], []) if entry in compared else []
        removed, kept = _snippets(entry, original, twin_of(entry, original.cleaned, found) if original else None)
        result.append(replace(removal, removed=removed, kept=kept))
    return result


def _origin(entry: LedgerEntry) -> Origin | None:
    """Return where to reread a document; None for a record that was not read in the first place."""
    if entry.row is None or entry.step in ("read", "select"):
        return None
    return Origin(entry.source, entry.file, entry.row, entry.id)


def _compared(entry: LedgerEntry) -> tuple[str, str] | None:
    """Return source and id of the kept document to compare with: the other of a pair, or a passage's own document in a later step."""
    if entry.step == "decontaminate":
        return None  # the other document is one of a task
    if entry.kept_source is not None and entry.kept_id is not None:
        return entry.kept_source, entry.kept_id
    later = entry.step in ("deidentify", "boilerplate") and entry.unit != "document"
    return (entry.source, entry.id) if later else None


def _snippets(
    entry: LedgerEntry, original: Original | None, twin: KeptDocument | None
) -> tuple[str | None, str | None]:
    if original is None:
        return None, None
    if entry.unit == "passage":
        before, after = (original.cleaned, twin.text) if twin else (original.text, original.cleaned)
        taken = [" ".join(change.removed) for change in differing_words(before, after)]
        of_this_size = [passage for passage in taken if len(passage) == entry.characters]
        return _cut(" … ".join(filter(None, of_this_size or taken))), None
    if entry.unit == "document changed":
        after = twin.text if twin else original.cleaned
        return _from_difference(original.cleaned if twin else original.text, after)
    if twin is None:
        return _cut(original.cleaned), None
    return _from_difference(original.cleaned, twin.text)


def _from_difference(before: str, after: str) -> tuple[str, str]:
    """Return snippets of two nearly identical texts, from where they first differ."""
    changes = differing_words(before, after)
    first = max(0, changes[0].place - _CONTEXT) if changes else 0
    dots = "… " if first else ""
    removed, kept = (" ".join(text.split()[first:]) for text in (before, after))
    return _cut(dots + removed), _cut(dots + kept)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else f"{line[: SNIPPET - 2]} …"


def audit_table(audited: Sequence[AuditedRemoval], total: int, step: str) -> Table:
    """Return the sample as a table, without text."""
    entries = [removal.entry for removal in audited]
    other = "test document" if step == "decontaminate" else "kept instead"
    more: dict[Column | str, list[Cell]] = {
        other: [_name(entry.kept_source, entry.kept_id, entry.source) for entry in entries],
        "Jaccard": [entry.jaccard for entry in entries],
        Column("% shared", digits=1, scale=100): [entry.share for entry in entries],
    }
    more = {name: cells for name, cells in more.items() if any(cell is not None for cell in cells)}
    rows: list[Row] = []
    for number, entry in enumerate(entries):
        place = entry.file if entry.row is None else f"{entry.file}:{entry.row}"
        rest = [cells[number] for cells in more.values()]
        rows.append([number + 1, entry.source, _one_line(entry.id), place, entry.reason, entry.characters, *rest])
    columns = ["", "source", "id", "read from", "reason", "characters", *more]
    units = {entry.unit for entry in entries}
    what = {"passage": "passages", "document": "documents", "document changed": "documents"}
    named = what[units.pop()] if len(units) == 1 else "documents and passages"
    did = "changed" if any(entry.unit == "document changed" for entry in entries) else _DID.get(step, "removed")
    if step in _DID:
        named, step = "records", "the reader"
    return Table(columns, rows, f"{len(entries):,} of {total:,} {named} that {step} {did}")


def _name(source: str | None, key: str | None, own: str) -> str | None:
    if key is None:
        return None
    return _one_line(key if source in (None, own) else f"{key} ({source})")


def _one_line(key: str) -> str:
    """Make line breaks in an id visible."""
    return key.replace("\n", "␊")
