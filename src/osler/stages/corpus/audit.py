"""A sample of what one step removed, to judge whether it was right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from osler.artifacts.corpus import Corpus, KeptDocument
from osler.artifacts.ledger import Ledger, LedgerEntry
from osler.report.tables import Row, Table
from osler.stages.corpus.originals import Origin, Original, Originals, differing_words, kept_documents

SNIPPET = 240
"""Most characters of a document that are shown."""
_CONTEXT = 8  # words before the first difference


@dataclass(frozen=True, slots=True)
class AuditedRemoval:
    """A removed document or passage, with snippets of it and of the document that was kept instead if text was asked for."""

    entry: LedgerEntry
    removed: str | None = None
    kept: str | None = None


def audit(
    corpus: Corpus, step: str, count: int, *, source: str | None = None, seed: int = 1, text: bool = False
) -> tuple[list[AuditedRemoval], int]:
    """A sample of a step's removals, and how many there are. With `text`, documents are read again from the raw files."""
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
        removed, kept = _snippets(entry, original, twins.get(compared.get(entry, ("", ""))))
        result.append(replace(removal, removed=removed, kept=kept))
    return result


def _origin(entry: LedgerEntry) -> Origin | None:
    """Where to read a document again. A record that was not read then is not read now."""
    if entry.row is None or entry.step in ("read", "select"):
        return None
    return Origin(entry.source, entry.file, entry.row, entry.id)


def _compared(entry: LedgerEntry) -> tuple[str, str] | None:
    """Source and id of the kept document to compare with: of a pair the other one; for a passage of a later step, its own document."""
    if entry.step == "decontaminate":
        return None  # the other document is one of a task
    if entry.kept_source is not None and entry.kept_id is not None:
        return entry.kept_source, entry.kept_id
    later = entry.step in ("deidentify", "boilerplate") and entry.unit == "passage"
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
    if twin is None:
        return _cut(original.cleaned), None
    # Two texts that are nearly the same are best compared from where they first differ.
    changes = differing_words(original.cleaned, twin.text)
    first = max(0, changes[0].place - _CONTEXT) if changes else 0
    dots = "… " if first else ""
    removed, kept = (" ".join(text.split()[first:]) for text in (original.cleaned, twin.text))
    return _cut(dots + removed), _cut(dots + kept)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else f"{line[: SNIPPET - 2]} …"


def audit_table(audited: Sequence[AuditedRemoval], total: int, step: str) -> Table:
    """The sample as a table, without text."""
    entries = [removal.entry for removal in audited]
    units = {entry.unit for entry in entries}
    pairs = any(entry.kept_id is not None for entry in entries)
    rows: list[Row] = []
    for number, entry in enumerate(entries, 1):
        place = entry.file if entry.row is None else f"{entry.file}:{entry.row}"
        kept: Row = [_name(entry.kept_source, entry.kept_id, entry.source), entry.jaccard] if pairs else []
        rows.append([number, entry.source, entry.id, place, entry.reason, entry.characters, *kept])
    other = "test document" if step == "decontaminate" else "kept instead"
    columns = ["", "source", "id", "read from", "reason", "characters", *([other, "Jaccard"] if pairs else [])]
    what = "passages" if units == {"passage"} else "documents" if units == {"document"} else "documents and passages"
    return Table(columns, rows, f"{len(entries):,} of {total:,} {what} that {step} removed")


def _name(source: str | None, key: str | None, own: str) -> str | None:
    if key is None:
        return None
    return key if source in (None, own) else f"{key} ({source})"
