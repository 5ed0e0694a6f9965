"""Find near-duplicates: documents whose sets of word shingles overlap by at least a threshold (Jaccard).

MinHash and banding propose pairs, and the exact Jaccard of each pair decides. Text, sketches and shingles stay on disk;
memory holds a few bytes per document. Every step writes files that a later run reuses. Their content does not depend on
the number of workers or on how work is divided among them.

1. Per part: MinHash of every document; for each band, its hashes with their documents, sorted.
2. Per band and range of hashes: merge the parts; documents that share a hash are candidate pairs.
3. Per part: the shingle sets of the candidates, so that no text is read twice for a pair.
4. Per part: the exact Jaccard of the pairs of its documents.
5. In order of priority: remove each document that is a near-duplicate of one that is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.extras import require
from osler.core.files import atomic
from osler.core.processes import LocalPool, Pool
from osler.stages.corpus.config import NearDuplicates
from osler.stages.corpus.minhash import BLOCK, Hashes, Integers, band_hashes, shingle_hashes

pa, pq, pc = (require(name, "corpus") for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))

Mask = NDArray[np.bool_]

NEAR_DUPLICATE = np.dtype([("removed", "<i8"), ("kept", "<i8"), ("jaccard", "<f8")])
"""A removed document, the kept one that it nearly repeats (rows counted over all files in order), and their Jaccard."""
_SIMILAR = np.dtype([("later", "<i8"), ("earlier", "<i8"), ("jaccard", "<f8")])

_ROW_BITS = 40  # the priority of a document is its source's place << 40 | its row
_PARTNERS = 8
"""Each document is compared with this many of the highest priority that share a band with it, which keeps work linear. On
21,000 abstracts and templated answers, 4 and 1,000 gave the same result."""
_FEW = 5000
_PART_ROWS = 1 << 16
_PART_BYTES = 64 << 20
_SLICE = 1 << 22  # band hashes that are sorted together
_ROW = (1 << _ROW_BITS) - 1


@dataclass(frozen=True)
class _Part:
    """Some row groups of a file, small enough to be hashed in memory."""

    number: int
    path: Path
    groups: range
    keep: Mask
    first: int
    """Row of its first document, counted over all files."""
    sources: tuple[str, ...]
    """All sources, in order of priority."""
    options: NearDuplicates
    folder: Path

    @property
    def stop(self) -> int:
        return self.first + len(self.keep)


def find_near_duplicates(
    files: Sequence[Path],
    keep: Sequence[Mask],
    rank: Mapping[str, int],
    options: NearDuplicates,
    folder: Path,
    pool: Pool,
    *,
    untouched: Collection[str] = (),
) -> NDArray[Any]:
    """Return the near-duplicates among the rows of Parquet files where `keep` is true, in order of the removed row.

    Of two near-duplicates, the one whose source has the lower rank is kept; ties go to the source that is first in `rank`,
    then to the first row. Documents of `untouched` sources come before all others and are never removed. A document is
    removed only if it is itself a near-duplicate of one that is kept; of several, one from its own source is preferred as
    the one named. `folder` holds the working files, from which an interrupted search resumes.
    """
    sources = tuple(sorted(rank, key=lambda name: (name not in untouched, rank[name])))
    parts: list[_Part] = []
    first = 0
    for path, mask in zip(files, keep, strict=True):
        row = 0
        for groups, count in _cut_file(path):
            own = mask[row : row + count]
            parts.append(_Part(len(parts), path, groups, own, first + row, sources, options, folder))
            row += count
        first += len(mask)
    if first < _FEW:
        pool = LocalPool(1)  # starting processes would take longer
    label = "corpus: near-duplicates, {}"
    pool.run_all(_write_bands, parts, label=label.format("hash"))
    documents = sum(_load(_bands_file(folder, part.number)).shape[2] for part in parts)
    slices = documents // _SLICE + 1
    first_removable = len(set(untouched) & set(rank)) << _ROW_BITS
    bands = [
        _BandSlice(band, number, slices, len(parts), first_removable, folder)
        for band in range(options.bands)
        for number in range(slices)
    ]
    pool.run_all(_write_pairs, bands, label=label.format("match"))
    candidates = np.zeros(first, dtype=np.bool_)
    for band in bands:
        _, later, earlier = _load(band.file)
        candidates[later & _ROW] = candidates[earlier & _ROW] = True
    chosen = [(part, candidates[part.first : part.stop]) for part in parts]
    pool.run_all(_write_sets, chosen, label=label.format("collect"))
    starts = np.array([part.first for part in parts], dtype=np.int64)
    comparisons = [_Comparison(part, starts, options.bands, slices) for part in parts]
    pool.run_all(_write_similar, comparisons, label=label.format("compare"))
    return _choose([np.load(_similar_file(folder, part.number)) for part in parts])


def _cut_file(path: Path) -> Iterator[tuple[range, int]]:
    """Yield ranges of row groups and their numbers of rows. A compressed input of any size is one file."""
    metadata = pq.read_metadata(path)
    begin = rows = size = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if rows and (rows + group.num_rows > _PART_ROWS or size + group.total_byte_size > _PART_BYTES):
            yield range(begin, index), rows
            begin, rows, size = index, 0, 0
        rows += group.num_rows
        size += group.total_byte_size
    if rows:
        yield range(begin, metadata.num_row_groups), rows


def _bands_file(folder: Path, part: int) -> Path:
    return folder / f"bands-{part:06d}.npy"


def _pairs_file(folder: Path, band: int, number: int) -> Path:
    return folder / f"pairs-{band:04d}-{number:04d}.npy"


def _sets_file(folder: Path, part: int) -> Path:
    return folder / f"sets-{part:06d}.npy"


def _index_file(folder: Path, part: int) -> Path:
    return folder / f"sets-{part:06d}-index.npy"


def _similar_file(folder: Path, part: int) -> Path:
    return folder / f"similar-{part:06d}.npy"


def _load(path: Path) -> NDArray[Any]:
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def _save(path: Path, array: NDArray[Any]) -> None:
    with atomic(path) as handle:
        np.save(handle, array)


# Step 1: sketches.


def _write_bands(part: _Part) -> None:
    """Write an array (2, bands, documents): the hashes of each band, sorted, and the keys of their documents."""
    path = _bands_file(part.folder, part.number)
    if path.exists():
        return
    options = part.options
    keys, hashes = [np.empty(0, np.int64)], [np.empty((options.bands, 0), np.uint64)]
    for block in _blocks(part, part.keep):
        shingles, counts = shingle_hashes(block.text, block.bounds, options.words)
        long_enough = counts > 0
        if long_enough.any():
            hashes.append(band_hashes(shingles, counts[long_enough], options.bands, options.rows))
            keys.append(block.keys[long_enough])
    joined = np.concatenate(hashes, axis=1)
    order = np.argsort(joined, axis=1, kind="stable")
    runs = (np.take_along_axis(joined, order, axis=1), np.concatenate(keys)[order].view(np.uint64))
    _save(path, np.stack(runs))


@dataclass(frozen=True)
class _Block:
    """Some documents of a part: their keys, concatenated texts and the bounds of each text."""

    keys: Integers
    text: NDArray[np.uint8]
    bounds: Integers


def _blocks(part: _Part, chosen: Mask) -> Iterator[_Block]:
    """Yield the chosen documents of a part, in order, about BLOCK bytes at a time."""
    first = 0
    with pq.ParquetFile(part.path) as file:
        for index in part.groups:
            count = file.metadata.row_group(index).num_rows
            rows = np.flatnonzero(chosen[first : first + count])
            if len(rows):
                table = file.read_row_group(index, columns=["source", "text"], use_threads=False).take(pa.array(rows))
                places = pc.index_in(table["source"], pa.array(part.sources)).to_numpy()
                keys = np.left_shift(places, _ROW_BITS, dtype=np.int64) | (rows + first + part.first)
                yield from _cut(keys, pa.concat_arrays(table["text"].chunks))
            first += count


def _cut(keys: Integers, texts: Any) -> Iterator[_Block]:
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32, count=len(keys) + 1, offset=4 * texts.offset).astype(np.int64)
    text = np.frombuffer(data or b"", dtype=np.uint8)
    begin = 0
    while begin < len(keys):
        end = max(begin + 1, int(np.searchsorted(bounds, bounds[begin] + BLOCK, side="right")) - 1)
        low, high = bounds[begin], bounds[end]
        yield _Block(keys[begin:end], text[low:high], bounds[begin : end + 1] - low)
        begin = end


# Step 2: candidate pairs.


@dataclass(frozen=True)
class _BandSlice:
    """One of `slices` equal ranges of the hashes of a band, over all parts."""

    band: int
    number: int
    slices: int
    parts: int
    first_removable: int
    """Documents with smaller keys are never removed."""
    folder: Path

    @property
    def file(self) -> Path:
        return _pairs_file(self.folder, self.band, self.number)


def _write_pairs(task: _BandSlice) -> None:
    """Write an array (3, pairs): row and key of the later document, sorted by row, and key of the earlier one."""
    if task.file.exists():
        return
    low, high = ((number << 64) // task.slices for number in (task.number, task.number + 1))
    runs = [np.empty((2, 0), np.uint64)]
    for part in range(task.parts):
        run = _load(_bands_file(task.folder, part))[:, task.band]
        begin = np.searchsorted(run[0], np.uint64(low))
        end = np.searchsorted(run[0], np.uint64(high - 1), side="right")
        runs.append(np.array(run[:, begin:end]))
    hashes, keys = np.concatenate(runs, axis=1)
    order = np.argsort(hashes, kind="stable")  # fast, because each part is already sorted
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    shared = np.zeros(len(order), dtype=np.bool_)
    shared[1:] |= same
    shared[:-1] |= same
    hashes, keys = ordered[shared], keys[order[shared]].view(np.int64)
    later, earlier = _pairs(hashes, keys)
    removable = later >= task.first_removable
    later, earlier = later[removable], earlier[removable]
    rows = later & _ROW
    by_row = np.argsort(rows, kind="stable")
    _save(task.file, np.stack((rows, later, earlier))[:, by_row])


def _pairs(hashes: Hashes, keys: Integers) -> tuple[Integers, Integers]:
    """Pair each document with the first _PARTNERS documents that precede it and have the same hash."""
    order = np.lexsort((keys, hashes))
    hashes, keys = hashes[order], keys[order]
    positions = np.arange(len(keys))
    new = np.append(True, hashes[1:] != hashes[:-1])[: len(keys)]
    firsts = np.maximum.accumulate(np.where(new, positions, 0))
    laters, earliers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for partner in range(_PARTNERS):
        after = np.flatnonzero(positions - firsts > partner)
        laters.append(keys[after])
        earliers.append(keys[firsts[after] + partner])
    return np.concatenate(laters), np.concatenate(earliers)


# Steps 3 and 4: exact similarity.


def _write_sets(task: tuple[_Part, Mask]) -> None:
    """Write the sorted shingle sets of a part's candidates, and an index of their rows and where each set ends."""
    part, chosen = task
    index = _index_file(part.folder, part.number)
    if index.exists():
        return
    rows, ends, sets = [np.empty(0, np.int64)], [np.zeros(1, np.int64)], [np.empty(0, np.uint64)]
    for block in _blocks(part, chosen):
        found, lengths = _unique(*shingle_hashes(block.text, block.bounds, part.options.words))
        rows.append(block.keys & _ROW)
        ends.append(ends[-1][-1] + np.cumsum(lengths))
        sets.append(found)
    _save(_sets_file(part.folder, part.number), np.concatenate(sets))
    _save(index, np.stack((np.concatenate(rows), np.concatenate(ends)[1:])))


def _unique(shingles: Hashes, counts: Integers) -> tuple[Hashes, Integers]:
    """Sort the shingles of each document and drop repetitions. No document may be empty."""
    ends = np.cumsum(counts)
    starts = ends - counts
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        shingles[start:end].sort()
    first = np.append(True, shingles[1:] != shingles[:-1])
    first[starts] = True
    return shingles[first], np.add.reduceat(first, starts, dtype=np.int64)


class _Sets:
    """The shingle sets of the candidates of a part."""

    def __init__(self, folder: Path, part: int) -> None:
        self._rows, self._ends = _load(_index_file(folder, part))
        # A plain array, because slicing a memory map takes longer than comparing the sets.
        self.shingles: Hashes = np.asarray(_load(_sets_file(folder, part)))

    def bounds(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return where the sets of these documents begin and end."""
        index = np.searchsorted(self._rows, rows)
        return np.append(0, self._ends)[index], self._ends[index]


@dataclass(frozen=True)
class _Comparison:
    """The pairs whose later document is in a part."""

    part: _Part
    starts: Integers
    """Rows at which the parts begin."""
    bands: int
    slices: int


def _write_similar(task: _Comparison) -> None:
    """Write the pairs that reach the threshold, with their Jaccard."""
    part = task.part
    path = _similar_file(part.folder, part.number)
    if path.exists():
        return
    later, earlier = _own_pairs(task)
    others = np.searchsorted(task.starts, earlier & _ROW, side="right") - 1
    order = np.argsort(others, kind="stable")
    jaccard = np.zeros(len(order))
    own = _Sets(part.folder, part.number)
    for group in np.split(order, np.flatnonzero(np.diff(others[order])) + 1):
        if len(group):
            theirs = _Sets(part.folder, int(others[group[0]]))
            jaccard[group] = _jaccard(own, later[group] & _ROW, theirs, earlier[group] & _ROW, part.options.threshold)
    similar = np.empty(len(order), _SIMILAR)
    similar["later"], similar["earlier"], similar["jaccard"] = later, earlier, jaccard
    _save(path, similar[jaccard >= part.options.threshold])


def _own_pairs(task: _Comparison) -> tuple[Integers, Integers]:
    """Return the distinct pairs of a part, over all bands."""
    part = task.part
    found = [np.empty((2, 0), np.int64)]
    for band in range(task.bands):
        for number in range(task.slices):
            pairs = _load(_pairs_file(part.folder, band, number))
            low, high = np.searchsorted(pairs[0], (part.first, part.stop)).tolist()
            found.append(np.array(pairs[1:, low:high]))
    pairs = np.concatenate(found, axis=1)
    pairs = pairs[:, np.lexsort(pairs)]
    different = np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0))[: pairs.shape[1]]
    later, earlier = pairs[:, different]
    return later, earlier


def _jaccard(own: _Sets, rows: Integers, theirs: _Sets, their_rows: Integers, threshold: float) -> NDArray[np.float64]:
    """Return the exact Jaccard of pairs of shingle sets; 0 where their sizes alone rule out the threshold."""
    bounds = (*own.bounds(rows), *theirs.bounds(their_rows))
    sizes = np.stack((bounds[1] - bounds[0], bounds[3] - bounds[2]))
    possible = np.flatnonzero(sizes.min(axis=0) / sizes.max(axis=0) >= threshold)
    result = np.zeros(len(rows))
    for pair, a, b, c, d in zip(possible.tolist(), *(bound[possible].tolist() for bound in bounds), strict=True):
        both = np.concatenate((own.shingles[a:b], theirs.shingles[c:d]))
        both.sort(kind="stable")  # a merge, because both sets are sorted
        shared = np.count_nonzero(both[1:] == both[:-1])
        result[pair] = shared / (len(both) - shared)
    return result


# Step 5: which documents are removed.


def _choose(similar: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Go through the documents by priority, and remove each that is similar to one that is kept."""
    pairs = np.concatenate([np.empty(0, _SIMILAR), *similar])
    later, earlier = pairs["later"], pairs["earlier"]
    pairs = pairs[np.lexsort((earlier, (later ^ earlier) >> _ROW_BITS != 0, later))]
    removed: set[int] = set()
    chosen = []
    for number, (after, before) in enumerate(zip(pairs["later"].tolist(), pairs["earlier"].tolist(), strict=True)):
        if after not in removed and before not in removed:
            removed.add(after)
            chosen.append(number)
    pairs = pairs[chosen]
    found = np.empty(len(pairs), NEAR_DUPLICATE)
    found["removed"], found["kept"], found["jaccard"] = pairs["later"] & _ROW, pairs["earlier"] & _ROW, pairs["jaccard"]
    return np.sort(found, order="removed")
