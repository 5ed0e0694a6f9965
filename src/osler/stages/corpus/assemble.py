"""Write what remains of a corpus: shards, ledger and the counts of the card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from osler.artifacts.corpus import DENSITY, LEDGER_SCHEMA, SHARD_SCHEMA, CorpusWriter
from osler.artifacts.corpus_card import NOT_STATED, CorpusCard, SkippedRecord, SourceCard
from osler.core.extras import require
from osler.core.processes import Pool
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.counts import TextCounts
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.remaining import Mask, Remaining
from osler.text.terms import term_list

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))

_SUMS = ("characters", "words", "sentences", "bytes", "repaired")
_BEFORE = tuple(f"read_{name}" for name in TextCounts._fields)
_SKIPPED_ON_CARD = 1000
_MOST_VALUES = 100


@dataclass(frozen=True)
class _Rows:
    """Rows of a part's kept documents: those from `start` on where `mask` is true."""

    part: Path
    start: int
    mask: Mask


@dataclass(frozen=True)
class _Shard:
    writer: CorpusWriter
    number: int
    rows: tuple[_Rows, ...]
    terms: Path | None


def write_shards(remaining: Remaining, writer: CorpusWriter, recipe: CorpusRecipe, pool: Pool) -> int:
    """Write the documents that remain; return the number of shards."""
    shards = _plan_shards(remaining, writer, recipe)
    pool.run_all(_write_shard, shards, label="corpus: write")
    return len(shards)


def write_ledger(remaining: Remaining, writer: CorpusWriter) -> None:
    """Write what every step removed or changed, in input order."""
    tables = (remaining.ledger(part) for part in range(len(remaining.files)))
    writer.write_ledger(table.select(LEDGER_SCHEMA.names) for table in tables)


def count(remaining: Remaining, before: Sequence[Path], files: Sequence[InputFile], recipe: CorpusRecipe) -> CorpusCard:
    """Return the card of the corpus, except for the number of shards. `before` lists the files with counts of what each part read."""
    tallies = {file.source_name: _Tally() for file in files}
    skipped: list[SkippedRecord] = []
    for path in before:
        for source, counts in json.loads(path.read_text(encoding="utf-8")).items():
            tallies[source].sums.update({f"read_{name}": count for name, count in counts.items()})
    for part, mask in enumerate(remaining.keep):
        columns = ("source", "licence", "language", "patient", *_SUMS)
        kept = remaining.column(part, *columns).filter(pa.array(mask))
        sizes = [([], "count_all"), ("patient", "count"), *((name, "sum") for name in _SUMS)]
        for row in kept.group_by("source").aggregate(sizes).to_pylist():
            counted = {"documents": row["count_all"], "of_patients": row["patient_count"]}
            tallies[row["source"]].sums.update(counted | {name: row[f"{name}_sum"] for name in _SUMS})
        lengths = 2 ** np.log2(kept["words"].to_numpy()).astype(np.int64)
        kept = kept.append_column("length", pa.array(lengths))
        for name in ("licence", "language", "length"):
            for row in _grouped(kept, name):
                tallies[row["source"]].by(name)[row[name] or NOT_STATED] += row["count_all"]
        losses = remaining.ledger(part)
        documents = pc.equal(losses["unit"], "document")
        unreadable = pc.equal(losses["step"], "read")
        for row in _grouped(losses.filter(pc.and_(documents, pc.invert(unreadable))), "reason"):
            tallies[row["source"]].removed[row["reason"]] += row["count_all"]
        for row in _grouped(losses.filter(pc.equal(losses["unit"], "passage")), "reason"):
            tallies[row["source"]].passages[row["reason"]] += row["count_all"]
        for row in losses.filter(pc.and_(documents, unreadable)).to_pylist():
            tallies[row["source"]].sums["unreadable"] += 1
            if len(skipped) < _SKIPPED_ON_CARD:
                skipped.append(SkippedRecord(**{name: row[name] for name in SkippedRecord.model_fields}))
    origins = {file.source_name: recipe.sources[file.source] for file in reversed(files)}
    sources = {
        name: SourceCard(
            **tally.counts(),
            language=origins[name].language,
            licence=origins[name].licence,
            weight=origins[name].weight,
        )
        for name, tally in tallies.items()
    }
    return CorpusCard(**sum(tallies.values(), _Tally()).counts(), sources=sources, skipped=skipped)


def _grouped(rows: Any, name: str) -> list[dict[str, Any]]:
    counted: list[dict[str, Any]] = rows.group_by(["source", name]).aggregate([([], "count_all")]).to_pylist()
    return counted


@dataclass(frozen=True)
class _Tally:
    """Running counts of one source."""

    sums: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    passages: Counter[str] = field(default_factory=Counter)
    language: Counter[str] = field(default_factory=Counter)
    licence: Counter[str] = field(default_factory=Counter)
    length: Counter[int] = field(default_factory=Counter)

    def by(self, column: str) -> Counter[Any]:
        """Return the document counts by language, licence or length."""
        counter: Counter[Any] = getattr(self, column)
        return counter

    def __add__(self, other: _Tally) -> _Tally:
        return _Tally(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def counts(self) -> dict[str, Any]:
        """Return the counts as fields of the card."""
        return {
            "read": self.sums["documents"] + self.removed.total(),
            "removed": dict(sorted(self.removed.items())),
            "passages": dict(sorted(self.passages.items())),
            "languages": _most_common(self.language),
            "licences": _most_common(self.licence),
            "words_per_document": {str(low): number for low, number in sorted(self.length.items())},
            **{name: self.sums[name] for name in ("documents", "unreadable", "of_patients", *_BEFORE, *_SUMS)},
        }


def _most_common(counts: Counter[str]) -> dict[str, int]:
    """Return counts by value, most common first, with the rare ones as `other`: articles may state licences in thousands of ways."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(number for _, number in ranked[_MOST_VALUES:])
    return dict(ranked[:_MOST_VALUES]) | ({"other": rest} if rest else {})


def _plan_shards(remaining: Remaining, writer: CorpusWriter, recipe: CorpusRecipe) -> list[_Shard]:
    """Fill shards with documents, in order, up to about `shard_megabytes` of text each."""
    limit = recipe.shard_megabytes * 1_000_000
    rows: dict[int, list[_Rows]] = {}
    before = 0
    for part, (path, mask) in enumerate(zip(remaining.files, remaining.keep, strict=True)):
        if not mask.any():
            continue
        sizes = np.where(mask, remaining.column(part, "bytes")["bytes"].to_numpy(), 0)
        shard_of = (before + np.cumsum(sizes) - sizes) // limit
        before += int(sizes.sum())
        edges = np.flatnonzero(np.diff(shard_of, prepend=-1)).tolist()
        for start, stop in zip(edges, [*edges[1:], len(mask)], strict=True):
            if mask[start:stop].any():
                rows.setdefault(int(shard_of[start]), []).append(_Rows(path, start, mask[start:stop]))
    terms = recipe.density_terms
    return [_Shard(writer, number, tuple(rows[key]), terms) for number, key in enumerate(sorted(rows))]


def _write_shard(shard: _Shard) -> None:
    tables = (table for rows in shard.rows for table in _tables(rows))
    shard.writer.write_shard(shard.number, (_with_density(table, shard.terms) for table in tables))


def _tables(rows: _Rows) -> Iterator[Any]:
    """Yield the rows, one row group of the part at a time."""
    stop = rows.start + len(rows.mask)
    with pq.ParquetFile(rows.part) as file:
        first = 0
        for index in range(file.num_row_groups):
            last = first + file.metadata.row_group(index).num_rows
            low, high = max(first, rows.start), min(last, stop)
            if low < high:
                names = [name for name in SHARD_SCHEMA.names if name != DENSITY.name]
                table = file.read_row_group(index, columns=names, use_threads=False)
                mask = pa.array(rows.mask[low - rows.start : high - rows.start])
                yield table.select(names).slice(low - first, high - low).filter(mask)
            first = last


def _with_density(table: Any, terms: Path | None) -> Any:
    """Add the term density of the documents to a table, or nulls without a list."""
    if terms is None:
        return table.append_column(DENSITY, pa.nulls(table.num_rows, DENSITY.type))
    shares = term_list(terms).density(table["text"].to_pylist())
    return table.append_column(DENSITY, pa.array(shares.astype(np.float32)))
