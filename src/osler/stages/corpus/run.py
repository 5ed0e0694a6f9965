"""The corpus stage: raw files in, a corpus artifact out."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import fingerprint, remove_tree, write_atomic, write_json
from osler.core.logs import get_logger
from osler.core.processes import run_all
from osler.stages.corpus.clean import (
    GROUP_BYTES,
    Part,
    clean_part,
    parquet_writer,
    plan_parts,
    read_columns,
    regrouped,
    removed_schema,
)
from osler.stages.corpus.config import CorpusRecipe, CorpusSource
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.inputs import find_inputs, names_digest


def documents_to_keep(parts: Sequence[Path], remove_duplicates: bool) -> list[NDArray[np.bool_]]:
    """For the kept documents of every part, in input order, which of them are no later copy of another."""
    digests = [_digests(part) for part in parts]
    together = np.concatenate([np.empty((0, 2), dtype="<u8"), *digests])
    first = first_copies(together) if remove_duplicates else np.ones(len(together), dtype=np.bool_)
    ends = np.cumsum([len(digest) for digest in digests], dtype=np.int64)
    return np.split(first, ends)[: len(parts)]


def first_copies(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For an (n, 2) array of 128-bit digests in input order, which rows are the first with their value."""
    first = np.ones(len(digests), dtype=np.bool_)
    # The sort is stable, so equal digests stay in input order and only the later ones are unmarked.
    order = np.lexsort((digests[:, 0], digests[:, 1]))
    ordered = digests[order]
    first[order[1:]] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return first


def _digests(part: Path) -> NDArray[np.uint64]:
    pieces = [np.empty((0, 2), dtype="<u8")]
    for chunk in read_columns(part, "digest")["digest"].chunks:
        if len(chunk):
            pieces.append(np.frombuffer(chunk.buffers()[1], dtype="<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)])
    return np.concatenate(pieces)


LEDGER = "ledger.parquet"
_GROUP_ROWS = 65_536
_COLUMNS = ("source", "file", "row", "id", "reason")


def write_ledger(path: Path, parts: Sequence[Part], keep: Sequence[NDArray[np.bool_]]) -> None:
    """Join what each part removed with the duplicates found over all parts, in input order."""
    pa = require("pyarrow", "corpus")
    schema = pa.schema([removed_schema().field(name) for name in _COLUMNS])
    with parquet_writer(path, schema, compression="zstd", dictionary=("source", "file", "reason")) as writer:
        tables = (_removals(part, mask).select(_COLUMNS) for part, mask in zip(parts, keep, strict=True))
        for group in regrouped(tables, _GROUP_ROWS, lambda table: np.ones(table.num_rows, dtype=np.int64)):
            writer.write_table(group)


def _removals(part: Part, mask: NDArray[np.bool_]) -> Any:
    pa = require("pyarrow", "corpus")
    schema = removed_schema()
    tables = [read_columns(part.removed, *schema.names)]
    if not mask.all():
        known = [name for name in schema.names if name != "reason"]
        copies = read_columns(part.kept, *known).filter(pa.array(~mask))
        reasons = pa.array(["duplicate.exact"] * copies.num_rows, pa.string())
        tables.append(copies.append_column("reason", reasons).select(schema.names))
    return pa.concat_tables(tables).sort_by("position")


SHARD_COLUMNS = ("id", "text", "source", "language")


@dataclass(frozen=True)
class Take:
    """Rows to take from a part: those of `mask` that are true, counted from `start`."""

    part: Path
    start: int
    mask: NDArray[np.bool_]


@dataclass(frozen=True)
class Shard:
    """One shard to write."""

    path: Path
    takes: tuple[Take, ...]


def plan_shards(
    parts: Sequence[Part],
    keep: Sequence[NDArray[np.bool_]],
    sizes: Sequence[NDArray[np.int64]],
    folder: Path,
    limit: int,
) -> list[Shard]:
    """Fill shards with kept documents, in order, up to about `limit` bytes of text each."""
    takes: dict[int, list[Take]] = {}
    before = 0
    for part, mask, size in zip(parts, keep, sizes, strict=True):
        if not mask.any():
            continue
        kept_size = np.where(mask, size, 0)
        shard_of = (before + np.cumsum(kept_size) - kept_size) // limit
        before += int(kept_size.sum())
        edges = np.flatnonzero(np.diff(shard_of, prepend=-1)).tolist()
        for start, stop in zip(edges, [*edges[1:], len(mask)], strict=True):
            if mask[start:stop].any():
                takes.setdefault(int(shard_of[start]), []).append(Take(part.kept, start, mask[start:stop]))
    return [
        Shard(folder / f"shard-{index:05d}.parquet", tuple(takes[number])) for index, number in enumerate(sorted(takes))
    ]


def write_shard(shard: Shard) -> None:
    """Write one shard, unless an earlier run did."""
    if shard.path.exists():
        return
    pa = require("pyarrow", "corpus")
    compute = require("pyarrow.compute", "corpus")
    schema = pa.schema([(name, pa.string()) for name in SHARD_COLUMNS])
    with parquet_writer(shard.path, schema, compression="zstd", dictionary=("source", "language")) as writer:
        tables = (table for take in shard.takes for table in _rows(take))
        for group in regrouped(tables, GROUP_BYTES, lambda table: compute.binary_length(table["text"]).to_numpy()):
            writer.write_table(group)


def _rows(take: Take) -> Iterator[Any]:
    """The taken rows, one row group of the part at a time."""
    pa = require("pyarrow", "corpus")
    parquet = require("pyarrow.parquet", "corpus")
    stop = take.start + len(take.mask)
    with parquet.ParquetFile(take.part) as file:
        first = 0
        for index in range(file.num_row_groups):
            last = first + file.metadata.row_group(index).num_rows
            low, high = max(first, take.start), min(last, stop)
            if low < high:
                table = file.read_row_group(index, columns=list(SHARD_COLUMNS), use_threads=False).select(SHARD_COLUMNS)
                mask = pa.array(take.mask[low - take.start : high - take.start])
                yield table.slice(low - first, high - low).filter(mask)
            first = last


_SUMS = ("characters", "words", "bytes", "repaired")


@dataclass
class SourceCounts:
    """Counts over some documents; what was read is what is held plus what was removed."""

    read: int = 0
    documents: int = 0
    characters: int = 0
    words: int = 0
    bytes: int = 0
    repaired: int = 0
    removed: Counter[str] = field(default_factory=Counter)

    def plain(self) -> dict[str, Any]:
        """The counts as plain data, reasons sorted."""
        return {**asdict(self), "removed": dict(sorted(self.removed.items()))}


class Statistics:
    """Tallies over the whole corpus and by source, and how long documents are."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.total = SourceCounts()
        self.sources = {name: SourceCounts() for name in sources}
        self.lengths: Counter[int] = Counter()

    def add_part(self, part: Part, keep: NDArray[np.bool_]) -> None:
        """Count one part, given which of its kept documents stay after duplicates are removed."""
        kept = read_columns(part.kept, "source", *_SUMS)
        names = np.asarray(kept["source"].to_pylist(), dtype=object)
        values = {name: kept[name].to_numpy().astype(np.int64) for name in _SUMS}
        for name in dict.fromkeys(names.tolist()):
            here = names == name
            copies = int((here & ~keep).sum())
            self._add(
                name, {key: int(column[here & keep].sum()) for key, column in values.items()}, int((here & keep).sum())
            )
            self._remove(name, "duplicate.exact", copies)
        removed = read_columns(part.removed, "source", "reason")
        pairs = Counter(zip(removed["source"].to_pylist(), removed["reason"].to_pylist(), strict=True))
        for (name, reason), count in pairs.items():
            self._remove(name, reason, count)
        self.lengths.update((2 ** np.log2(values["words"][keep]).astype(np.int64)).tolist())

    def plain(self) -> dict[str, Any]:
        """Everything as plain data; lengths are counted in words, from each power of two to below the next."""
        return {
            **self.total.plain(),
            "words_per_document": {str(low): count for low, count in sorted(self.lengths.items())},
            "sources": {name: tally.plain() for name, tally in self.sources.items()},
        }

    def _add(self, source: str, sums: dict[str, int], documents: int) -> None:
        for tally in (self.total, self.sources[source]):
            tally.read += documents
            tally.documents += documents
            for name, value in sums.items():
                setattr(tally, name, getattr(tally, name) + value)

    def _remove(self, source: str, reason: str, count: int) -> None:
        if count:
            for tally in (self.total, self.sources[source]):
                tally.read += count
                tally.removed[reason] += count


CARD = "card.json"


def write_card(
    folder: Path, statistics: Statistics, files: Sequence[InputFile], recipe: CorpusRecipe, shards: int
) -> dict[str, Any]:
    """Write both cards, the machine's last: it marks the corpus as complete."""
    card: dict[str, Any] = {"shards": shards, **statistics.plain()}
    for name, facts in card["sources"].items():
        origin = _source_of(name, files, recipe)
        facts["language"], facts["licence"], facts["weight"] = origin.language, origin.licence, origin.weight
    write_atomic(folder / "README.md", _readme(card, recipe))
    write_json(folder / CARD, card)
    return card


def _source_of(name: str, files: Sequence[InputFile], recipe: CorpusRecipe) -> CorpusSource:
    return recipe.sources[next(file.source for file in files if file.source_name == name)]


def _readme(card: dict[str, Any], recipe: CorpusRecipe) -> str:
    removed = sum(card["removed"].values())
    shards = "shard" if card["shards"] == 1 else "shards"
    filters = [f"`{name}` ({_options(judge.resolved())})" for name, judge in recipe.filters.items()]
    lines = [
        "# Corpus card",
        "",
        f"{card['documents']:,} documents, {card['words']:,} words, {card['characters']:,} characters "
        f"in {card['shards']:,} Parquet {shards} (`shards/`, columns `id`, `text`, `source`, `language`).",
        "",
        f"Of {card['read']:,} documents read, {removed:,} were removed; `ledger.parquet` lists each with its reason.",
        "",
        "## Sources",
        "",
        *_table(
            ["source", "language", "licence", "read", "kept", "words", "repaired", "weight"],
            [
                [
                    name,
                    facts["language"] or "not stated",
                    facts["licence"] or "not stated",
                    *(f"{facts[key]:,}" for key in ("read", "documents", "words", "repaired")),
                    f"{facts['weight']:g}",
                ]
                for name, facts in card["sources"].items()
            ],
        ),
        "",
        "## Removed",
        "",
        *(
            _table(
                ["reason", "documents"], [[f"`{reason}`", f"{count:,}"] for reason, count in card["removed"].items()]
            )
            if removed
            else ["Nothing was removed."]
        ),
        "",
        "## Length of documents",
        "",
        *_table(
            ["words", "documents"],
            [
                [f"{int(low):,} to {2 * int(low) - 1:,}", f"{count:,}"]
                for low, count in card["words_per_document"].items()
            ],
        ),
        "",
        "## How it was made",
        "",
        f"- Unicode repair: {_repair(recipe)}",
        f"- Filters: {', '.join(filters) or 'none'}",
        f"- Exact duplicates: {'first copy kept' if recipe.exact_duplicates == 'remove' else 'all copies kept'}",
        "- A word is what stands between blanks.",
        "",
    ]
    return "\n".join(lines)


def _repair(recipe: CorpusRecipe) -> str:
    if not recipe.unicode.repair:
        return "off"
    entities = ", HTML entities resolved" if recipe.unicode.html_entities else ""
    return f"mojibake undone, control characters dropped, line ends unified{entities}, NFC"


def _options(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_row(header), _row(["---"] * len(header)), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


log = get_logger("osler.corpus")


def plan(recipe: CorpusRecipe, out: Path) -> list[str]:
    """What a run will do, a line a step."""
    files = find_inputs(recipe.sources)
    sources = Counter(file.source_name for file in files)
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(sources.items())[:8])
    more = f" and {len(sources) - 8:,} more" if len(sources) > 8 else ""
    size = sum(file.size for file in files) / 1e6
    filters = ", ".join(recipe.filters) or "none"
    repair = "repair Unicode" if recipe.unicode.repair else "leave Unicode as it is"
    copies = (
        "remove exact duplicates (the first copy stays)" if recipe.exact_duplicates == "remove" else "keep duplicates"
    )
    return [
        f"read {len(files):,} files, {size:,.1f} MB; files by source: {shown}{more}",
        f"{repair}; filters: {filters}; {copies}",
        f"write Parquet shards of about {recipe.shard_megabytes} MB of text, a ledger of removals and a card to {out}",
    ]


def run(recipe: CorpusRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the corpus at `out`, or continue or reuse the one that is there."""
    require("pyarrow", "corpus")
    files = find_inputs(recipe.sources)
    parents = {"inputs": fingerprint(file.path for file in files), "names": names_digest(files)}
    return produce(
        out, kind="corpus", recipe=recipe, parents=parents, build=partial(_build, recipe, files), force=force
    )


def _build(recipe: CorpusRecipe, files: list[InputFile], workspace: Workspace) -> None:
    began = time.monotonic()
    folder = workspace.path / "parts"
    if not (workspace.path / CARD).exists():
        parts = plan_parts(files, recipe, folder)
        run_all(clean_part, parts, workers=recipe.workers, label="corpus: clean")
        keep = documents_to_keep([part.kept for part in parts], recipe.exact_duplicates == "remove")
        statistics = Statistics(list(dict.fromkeys(file.source_name for file in files)))
        for part, mask in zip(parts, keep, strict=True):
            statistics.add_part(part, mask)
        _refuse_empty(statistics, files)
        sizes = [read_columns(part.kept, "bytes")["bytes"].to_numpy() for part in parts]
        shards = plan_shards(parts, keep, sizes, workspace.path / "shards", recipe.shard_megabytes * 1_000_000)
        run_all(write_shard, shards, workers=recipe.workers, label="corpus: write")
        write_ledger(workspace.path / LEDGER, parts, keep)
        write_card(workspace.path, statistics, files, recipe, len(shards))
    remove_tree(folder)
    for left in workspace.path.rglob(".*.tmp"):  # half a file, from a run that was killed while it wrote
        left.unlink()
    card = json.loads((workspace.path / CARD).read_text(encoding="utf-8"))
    removed = sum(card["removed"].values())
    workspace.counts.update(
        documents=card["documents"],
        words=card["words"],
        characters=card["characters"],
        read=card["read"],
        removed=removed,
    )
    seconds = round(time.monotonic() - began, 3)
    log.event("corpus.done", documents=card["documents"], words=card["words"], removed=removed, seconds=seconds)


def _refuse_empty(statistics: Statistics, files: list[InputFile]) -> None:
    if statistics.total.documents:
        return
    place = files[0].path if len(files) == 1 else f"{files[0].path} and {len(files) - 1:,} more files"
    if not statistics.total.read:
        raise InputError("the input holds no document", where=place, fix="Give files with text")
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(statistics.total.removed.items()))
    raise InputError(
        f"no document is left of {statistics.total.read:,}: {reasons}",
        where=place,
        fix="Loosen the option that each reason names, or give other files",
    )
