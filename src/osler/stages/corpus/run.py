"""The corpus stage: clean raw files, remove duplicates, write a corpus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.artifacts.corpus import LEDGER_SCHEMA, SHARD_SCHEMA, Corpus, CorpusWriter
from osler.artifacts.corpus_card import CorpusCard, SourceCard
from osler.core.artifact import Workspace, produce
from osler.core.errors import InputError, RecipeError
from osler.core.extras import require
from osler.core.files import fingerprint, remove_tree
from osler.core.logs import get_logger
from osler.core.processes import run_all
from osler.stages.corpus.clean import REMOVED_SCHEMA, Part, clean_part, plan_parts
from osler.stages.corpus.config import Cleaning, CorpusRecipe, SourceCleaning, named_cleaning
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.inputs import find_inputs, names_digest

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))
log = get_logger("osler.corpus")

Mask = NDArray[np.bool_]
AS_IT_IS = "documents exactly as they are; only those without any text are left out"
_SUMS = ("characters", "words", "bytes", "repaired")


def plan(recipe: CorpusRecipe, out: Path) -> list[str]:
    """Describe what a run will do, one line per step."""
    files = _find_inputs(recipe)
    sources = Counter(file.source_name for file in files)
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(sources.items())[:8])
    more = f" and {len(sources) - 8:,} more" if len(sources) > 8 else ""
    size = sum(file.size for file in files)
    amount = f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"
    return [
        f"read {len(files):,} {'file' if len(files) == 1 else 'files'} ({amount}); files per source: {shown}{more}",
        *_preparation(recipe, files),
        f"write shards of about {recipe.shard_megabytes} MB of text, a ledger of removed documents and a card to {out}",
    ]


def run(recipe: CorpusRecipe, out: Path, *, force: bool = False) -> Corpus:
    """Build the corpus at `out`; resume an interrupted build, reuse a finished one."""
    files = _find_inputs(recipe)
    parents = {"inputs": fingerprint(file.path for file in files), "names": names_digest(files)}
    build = partial(_build, recipe, files)
    made = produce(out, kind="corpus", recipe=recipe, parents=parents, build=build, force=force)
    return Corpus(made.path, made.manifest, made.reused)


def _find_inputs(recipe: CorpusRecipe) -> list[InputFile]:
    """List the input files. Sources of one name are one source on the card, so they must be cleaned alike."""
    files = find_inputs(recipe.sources)
    known: dict[str, SourceCleaning | None] = {}
    for file in files:
        own = recipe.sources[file.source].clean
        if known.setdefault(file.source_name, own) != own:
            raise RecipeError(
                f"two sources are called {file.source_name!r} and are cleaned differently",
                where="sources",
                fix="Give each source a name of its own",
            )
    return files


def _build(recipe: CorpusRecipe, files: list[InputFile], workspace: Workspace) -> None:
    began = time.monotonic()
    writer = CorpusWriter(workspace.path)
    folder = workspace.path / "parts"
    card = writer.card
    if card is None:
        parts = plan_parts(files, recipe, folder)
        run_all(clean_part, parts, workers=recipe.workers, label="corpus: clean")
        keep = _documents_to_keep(parts, files, recipe)
        shards = _plan_shards(parts, keep, writer, recipe.shard_megabytes * 1_000_000)
        card = _count(parts, keep, files, recipe, len(shards))
        if not card.documents:
            raise _empty(card, files)
        run_all(_write_shard, shards, workers=recipe.workers, label="corpus: write")
        removals = (_removed(part, mask) for part, mask in zip(parts, keep, strict=True))
        writer.write_ledger(table.select(LEDGER_SCHEMA.names) for table in removals)
        writer.write_card(card, _preparation(recipe, files))
    remove_tree(folder)
    workspace.counts.update(
        documents=card.documents,
        words=card.words,
        characters=card.characters,
        read=card.read,
        removed=sum(card.removed.values()),
    )
    seconds = round(time.monotonic() - began, 3)
    removed = workspace.counts["removed"]
    log.event("corpus.done", documents=card.documents, words=card.words, removed=removed, seconds=seconds)


def _documents_to_keep(parts: Sequence[Part], files: Sequence[InputFile], recipe: CorpusRecipe) -> list[Mask]:
    """For each part, a mask over its kept documents: False for exact copies that are removed."""
    rules = {file.source_name: recipe.cleaning(recipe.sources[file.source].clean).exact_duplicates for file in files}
    keeping = pa.array([name for name, rule in rules.items() if rule == "keep"], pa.string())
    columns = [_read(part.kept, "digest", "source") for part in parts]
    digests = np.concatenate([np.empty((0, 2), dtype="<u8"), *(_digests(table) for table in columns)])
    kept_as_is = [pc.is_in(table["source"], keeping).to_numpy() for table in columns]
    remain = documents_that_remain(digests, np.concatenate([np.empty(0, dtype=np.bool_), *kept_as_is]))
    ends = np.cumsum([table.num_rows for table in columns], dtype=np.int64)
    return np.split(remain, ends)[: len(parts)]


def _digests(table: Any) -> NDArray[np.uint64]:
    chunks = [chunk for chunk in table["digest"].chunks if len(chunk)]
    views = [np.frombuffer(chunk.buffers()[1], dtype="<u8").reshape(-1, 2) for chunk in chunks]
    rows = [view[chunk.offset :][: len(chunk)] for view, chunk in zip(views, chunks, strict=True)]
    return np.concatenate([np.empty((0, 2), dtype="<u8"), *rows])


def documents_that_remain(digests: NDArray[np.uint64], kept: Mask) -> Mask:
    """Mark the rows of an (n, 2) array of 128-bit digests that remain: all `kept` ones, else the first of each value.

    A kept row counts as the first of its value wherever it stands, so that no other copy of it remains.
    """
    first = np.ones(len(digests), dtype=np.bool_)
    # The sort is stable: equal digests are in input order, kept ones before others, and only the later ones are unmarked.
    order = np.lexsort((~kept, digests[:, 0], digests[:, 1]))
    ordered = digests[order]
    first[order[1:]] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return first | kept


def _removed(part: Part, mask: Mask) -> Any:
    """Documents that a part lost to filters or as duplicates, in input order."""
    tables = [_read(part.removed, *REMOVED_SCHEMA.names)]
    if not mask.all():
        copies = _read(part.kept, *REMOVED_SCHEMA.names[:-1]).filter(pa.array(~mask))
        reasons = pa.array(["duplicate.exact"] * copies.num_rows, pa.string())
        tables.append(copies.append_column("reason", reasons).select(REMOVED_SCHEMA.names))
    return pa.concat_tables(tables).sort_by("position")


def _count(
    parts: Sequence[Part], keep: Sequence[Mask], files: Sequence[InputFile], recipe: CorpusRecipe, shards: int
) -> CorpusCard:
    sums: dict[str, Counter[str]] = {file.source_name: Counter() for file in files}
    removed: dict[str, Counter[str]] = {name: Counter() for name in sums}
    lengths: Counter[int] = Counter()
    for part, mask in zip(parts, keep, strict=True):
        kept = _read(part.kept, "source", *_SUMS).filter(pa.array(mask))
        totals = kept.group_by("source").aggregate([([], "count_all"), *((name, "sum") for name in _SUMS)])
        for row in totals.to_pylist():
            sums[row["source"]].update(documents=row["count_all"], **{name: row[f"{name}_sum"] for name in _SUMS})
        lengths.update((2 ** np.log2(kept["words"].to_numpy()).astype(np.int64)).tolist())
        losses = _removed(part, mask)
        for name, reason in zip(losses["source"].to_pylist(), losses["reason"].to_pylist(), strict=True):
            removed[name][reason] += 1
    origins = {file.source_name: recipe.sources[file.source] for file in reversed(files)}
    sources = {}
    for name in sums:
        facts = origins[name].model_dump(include={"language", "licence", "weight"})
        sources[name] = SourceCard(**_counts(sums[name], removed[name]), **facts)
    return CorpusCard(
        **_counts(sum(sums.values(), Counter()), sum(removed.values(), Counter())),
        shards=shards,
        words_per_document={str(low): count for low, count in sorted(lengths.items())},
        sources=sources,
    )


def _counts(sums: Counter[str], removed: Counter[str]) -> dict[str, Any]:
    counts = {name: sums[name] for name in ("documents", *_SUMS)}
    return {"read": sums["documents"] + removed.total(), "removed": dict(sorted(removed.items())), **counts}


def _empty(card: CorpusCard, files: Sequence[InputFile]) -> InputError:
    where = files[0].path if len(files) == 1 else f"{files[0].path} and {len(files) - 1:,} more files"
    if not card.read:
        return InputError("the input has no documents", where=where, fix="Give files with text")
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in card.removed.items())
    limits = " and ".join(f"filters.{reason}" for reason in card.removed if reason != "empty")
    relax = f"Relax {limits} with --set, or give" if limits else "Give"
    return InputError(f"all {card.read:,} documents were removed: {reasons}", where=where, fix=f"{relax} other files")


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


def _plan_shards(parts: Sequence[Part], keep: Sequence[Mask], writer: CorpusWriter, limit: int) -> list[_Shard]:
    """Fill shards with kept documents, in order, up to about `limit` bytes of text each."""
    rows: dict[int, list[_Rows]] = {}
    before = 0
    for part, mask in zip(parts, keep, strict=True):
        if not mask.any():
            continue
        sizes = np.where(mask, _read(part.kept, "bytes")["bytes"].to_numpy(), 0)
        shard_of = (before + np.cumsum(sizes) - sizes) // limit
        before += int(sizes.sum())
        edges = np.flatnonzero(np.diff(shard_of, prepend=-1)).tolist()
        for start, stop in zip(edges, [*edges[1:], len(mask)], strict=True):
            if mask[start:stop].any():
                rows.setdefault(int(shard_of[start]), []).append(_Rows(part.kept, start, mask[start:stop]))
    return [_Shard(writer, number, tuple(rows[key])) for number, key in enumerate(sorted(rows))]


def _write_shard(shard: _Shard) -> None:
    shard.writer.write_shard(shard.number, (table for rows in shard.rows for table in _tables(rows)))


def _tables(rows: _Rows) -> Iterator[Any]:
    """The rows, one row group of the part at a time."""
    stop = rows.start + len(rows.mask)
    with pq.ParquetFile(rows.part) as file:
        first = 0
        for index in range(file.num_row_groups):
            last = first + file.metadata.row_group(index).num_rows
            low, high = max(first, rows.start), min(last, stop)
            if low < high:
                table = file.read_row_group(index, columns=SHARD_SCHEMA.names, use_threads=False)
                mask = pa.array(rows.mask[low - rows.start : high - rows.start])
                yield table.select(SHARD_SCHEMA.names).slice(low - first, high - low).filter(mask)
            first = last


def _read(path: Path, *columns: str) -> Any:
    return pq.read_table(path, columns=list(columns), use_threads=False)


def _preparation(recipe: CorpusRecipe, files: Sequence[InputFile]) -> list[str]:
    """Describe how documents are repaired, filtered and deduplicated, for the plan and the card."""
    cleaned = {file.source_name: recipe.sources[file.source].clean for file in files}
    lines = [] if all(cleaned.values()) else _steps(recipe.cleaning())
    for name, clean in cleaned.items():
        if clean is not None:
            steps = AS_IT_IS if clean == named_cleaning("none") else "; ".join(_steps(recipe.cleaning(clean)))
            lines.append(f"Source {name}: {steps}")
    return lines


def _steps(cleaning: Cleaning) -> list[str]:
    repair = "off"
    if cleaning.unicode.repair:
        entities = ", HTML entities resolved" if cleaning.unicode.html_entities else ""
        repair = f"mojibake fixed, control characters removed, line ends unified{entities}, normalised to NFC"
    filters = []
    for name, rule in cleaning.filters.items():
        options = ", ".join(f"{option} = {value}" for option, value in rule.resolved().items())
        filters.append(f"{name} ({options})")
    copies = "first copy kept" if cleaning.exact_duplicates == "remove" else "all copies kept"
    return [
        f"Unicode repair: {repair}",
        f"Filters: {', '.join(filters) or 'none'}",
        f"Exact duplicates: {copies}",
        *([] if cleaning.strip else ["Whitespace around documents: kept"]),
    ]
