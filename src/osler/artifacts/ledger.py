"""The ledger of a corpus: every document and passage that was removed, and every document that was changed."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from osler.artifacts.corpus import LEDGER_SCHEMA, STEPS, Corpus, step_order
from osler.core.errors import ArtifactError, UnknownNameError
from osler.core.extras import require
from osler.core.files import undamaged

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))

_NUMBER = re.compile(r"(?<![\w-])\d[\d,]*(?!\w)")
Unit = Literal["document", "passage", "document changed"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One row of the ledger. `artifacts.corpus.LEDGER_SCHEMA` says what the columns mean."""

    source: str
    file: str
    row: int | None
    id: str
    step: str
    reason: str
    unit: Unit
    characters: int | None = None
    kept_id: str | None = None
    kept_source: str | None = None
    jaccard: float | None = None
    byte: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class LedgerTotal:
    """How many entries a source has for a step, reason and unit, and how many characters they concern."""

    source: str
    step: str
    reason: str
    unit: Unit
    entries: int
    characters: int


@dataclass(frozen=True)
class Ledger:
    """Reads a ledger one row group at a time."""

    path: Path

    @classmethod
    def of(cls, corpus: Corpus) -> Ledger:
        """The ledger of a finished corpus."""
        ledger = cls(corpus.ledger_path)
        with undamaged(ledger.path):
            names = pq.read_schema(ledger.path).names
        if names != LEDGER_SCHEMA.names:
            raise ArtifactError(
                "the ledger was written by another version of osler, and has other columns",
                where=ledger.path,
                fix="Make the corpus again with --force",
            )
        return ledger

    def totals(self) -> list[LedgerTotal]:
        """Count entries and characters by source, step, reason and unit, with steps in pipeline order."""
        entries: Counter[tuple[str, str, str, Unit]] = Counter()
        characters: Counter[tuple[str, str, str, Unit]] = Counter()
        keys = ["source", "step", "reason", "unit"]
        for group in self._groups([*keys, "characters"]):
            counted = group.group_by(keys).aggregate([([], "count_all"), ("characters", "sum")])
            for row in counted.to_pylist():
                # Reasons of the step `read` contain line and column numbers; without them, thousands are the same.
                reason = _NUMBER.sub("…", row["reason"]) if row["step"] == "read" else row["reason"]
                key = (row["source"], row["step"], reason, row["unit"])
                entries[key] += row["count_all"]
                characters[key] += row["characters_sum"] or 0
        totals = [LedgerTotal(*key, count, characters[key]) for key, count in entries.items()]
        return sorted(totals, key=lambda total: (total.source, step_order(total.step), total.reason, total.unit))

    def near_duplicates(self) -> tuple[Counter[tuple[str, str]], Counter[int]]:
        """Count near-duplicates by (source, source of the kept document), and by Jaccard similarity in hundredths."""
        pairs: Counter[tuple[str, str]] = Counter()
        hundredths: Counter[int] = Counter()
        for group in self._groups(["step", "unit", "source", "kept_source", "jaccard"]):
            found = group.filter(self._matching(group, "near-duplicates", None))
            pairs.update(zip(found["source"].to_pylist(), found["kept_source"].to_pylist(), strict=True))
            values = found["jaccard"].drop_null().to_numpy()
            hundredths.update((values * 100 + 1e-9).astype(int).tolist())
        return pairs, hundredths

    def find(self, key: str, source: str | None = None) -> list[LedgerEntry]:
        """Return all entries for documents with this id."""
        found: list[LedgerEntry] = []
        with undamaged(self.path), pq.ParquetFile(self.path) as file:
            for index in range(file.num_row_groups):
                # Most row groups lack the id, so skip their other columns.
                here = pc.equal(file.read_row_group(index, ["id"], use_threads=False)["id"], key)
                if pc.any(here).as_py():
                    rows = file.read_row_group(index, use_threads=False).filter(here).to_pylist()
                    found += [LedgerEntry(**row) for row in rows if source in (None, row["source"])]
        return found

    def sample(
        self, step: str, count: int, *, source: str | None = None, seed: int = 1
    ) -> tuple[list[LedgerEntry], int]:
        """Sample up to `count` removals of a step, in order, and count them all. If the step only changes documents, sample the changes.

        The same seed gives the same sample. Memory: one row group of the ledger, and a bit for each row of the ledger.
        """
        step = step.replace("_", "-")
        for changed in (False, True):
            groups = self._groups(["step", "unit", "source"])
            matching = [self._matching(group, step, source, changed=changed) for group in groups]
            total = sum(int(pc.sum(mask).as_py() or 0) for mask in matching)
            if total:
                break
        else:
            raise self._nothing(step, source)
        chosen = sorted(random.Random(seed).sample(range(total), min(count, total)))
        found: list[LedgerEntry] = []
        first = 0
        with undamaged(self.path), pq.ParquetFile(self.path) as file:
            for index, mask in enumerate(matching):
                last = first + int(pc.sum(mask).as_py() or 0)
                places = [number - first for number in chosen if first <= number < last]
                if places:
                    rows = file.read_row_group(index, use_threads=False).filter(mask).take(places)
                    found += [LedgerEntry(**row) for row in rows.to_pylist()]
                first = last
        return found, total

    def _matching(self, group: Any, step: str, source: str | None, *, changed: bool = False) -> Any:
        unit = (pc.equal if changed else pc.not_equal)(group["unit"], "document changed")
        mask = pc.and_(pc.equal(group["step"], step), unit)
        return mask if source is None else pc.and_(mask, pc.equal(group["source"], source))

    def _nothing(self, step: str, source: str | None) -> UnknownNameError:
        """Create the error for a step, or a step and a source, without entries."""
        totals = self.totals()
        steps = list(dict.fromkeys(total.step for total in sorted(totals, key=lambda total: step_order(total.step))))
        if step not in STEPS:
            return UnknownNameError(f"no step {step!r}", where="--step", fix=f"Use one of: {', '.join(STEPS)}")
        sources = [total.source for total in totals if total.step == step]
        if source is not None and sources:
            known = ", ".join(dict.fromkeys(sources))
            return UnknownNameError(
                f"the step {step!r} did nothing to {source!r}", fix=f"It removed or changed documents of: {known}"
            )
        found = f"Steps that did: {', '.join(steps)}" if steps else "No step did"
        return UnknownNameError(f"the step {step!r} removed and changed nothing", where=self.path.parent, fix=found)

    def _groups(self, columns: list[str]) -> Iterator[Any]:
        with undamaged(self.path), pq.ParquetFile(self.path) as file:
            for index in range(file.num_row_groups):
                yield file.read_row_group(index, columns, use_threads=False)
