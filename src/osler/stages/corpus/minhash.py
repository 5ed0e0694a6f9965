"""Word shingles and MinHash of many documents at once, in numpy: nothing here loops over words or documents.

The hashes depend on the text alone, never on the process, the machine or the documents beside it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

BLOCK = 1 << 17
"""Bytes of text to hash together, so that intermediate arrays fit into the cache of a core."""

# The value that is hashed for each byte: ASCII letters are lower-cased, digits and all bytes above 127 are kept, and 0 ends a word.
_LETTERS = np.array([ord(chr(b).lower()) if chr(b).isalnum() else 0 for b in range(128)] + [*range(128, 256)], np.uint8)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


def shingle_hashes(text: NDArray[np.uint8], bounds: Integers, words: int) -> tuple[Hashes, Integers]:
    """Hash every run of `words` words, in order and with repetitions; also return their number in each document.

    `text` is the concatenated UTF-8 of the documents, `bounds` where each begins and where the last ends. Words are
    compared in lower case (A to Z), without punctuation.
    """
    hashes, starts = _word_hashes(text, bounds)
    firsts = np.searchsorted(starts, bounds)
    counts = np.maximum(np.diff(firsts) - (words - 1), 0)
    if not counts.any():
        return np.empty(0, np.uint64), counts
    length = len(hashes) - (words - 1)
    shingles = np.zeros(length, dtype=np.uint64)
    for offset in range(words):
        shingles *= _FACTOR
        shingles += hashes[offset : offset + length]
    _mix(shingles)
    # Drop shingles that run from one document into the next.
    shifts = np.repeat(firsts[:-1] - (np.cumsum(counts) - counts), counts)
    return shingles[shifts + np.arange(len(shifts))], counts


def band_hashes(shingles: Hashes, counts: Integers, bands: int, rows: int) -> Hashes:
    """Return the MinHash of documents with `counts` shingles each, one hash per band: an array (bands, documents)."""
    values = (shingles >> np.uint64(32)).astype(np.uint32)
    starts = np.cumsum(counts) - counts
    permuted = np.empty((rows, len(values)), dtype=np.uint32)
    hashes = np.zeros((bands, len(counts)), dtype=np.uint64)
    minima = np.empty((bands, rows, len(counts)), dtype=np.uint32)
    for factors, band in zip(_factors(bands * rows).reshape(bands, rows, 1), minima, strict=True):
        np.multiply(values, factors, out=permuted)
        np.minimum.reduceat(permuted, starts, axis=1, out=band)
    for number in range(rows):
        hashes += minima[:, number]
        _mix(hashes)
    return hashes


def _mix(hashes: Hashes) -> None:
    """Spread the difference between any two hashes over all their bits, in place."""
    for shift, factor in _MIX:
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> np.uint64(32)


@cache
def _factors(count: int) -> NDArray[np.uint32]:
    """Return odd numbers; multiplying by one of them modulo 2**32 is a permutation."""
    numbers = np.arange(1, count + 1, dtype=np.uint64)
    _mix(numbers)
    return numbers.astype(np.uint32) | np.uint32(1)


def _word_hashes(text: NDArray[np.uint8], bounds: Integers) -> tuple[Hashes, Integers]:
    """Return hash and first byte of every word of some documents."""
    hashes, starts = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    low = 0
    while low < len(text):
        high = _block_end(text, bounds, low)
        inner = bounds[slice(*np.searchsorted(bounds, (low + 1, high)))] - low
        found, at = _hash_words(text[low:high], inner)
        hashes.append(found)
        starts.append(at + low)
        low = high
    return np.concatenate(hashes), np.concatenate(starts)


def _block_end(text: NDArray[np.uint8], bounds: Integers, low: int) -> int:
    """Return where to cut so that at most BLOCK bytes are hashed together.

    The cut is between two documents, between two words of a long one, or inside an even longer word. A document is cut in
    the same places whatever its neighbours are.
    """
    limit = low + BLOCK
    if limit >= len(text):
        return len(text)
    end = int(bounds[np.searchsorted(bounds, limit, side="right") - 1])
    if end > low:
        return end
    gaps = np.flatnonzero(_LETTERS[text[low:limit]] == 0)
    return low + int(gaps[-1]) + 1 if len(gaps) else limit


def _hash_words(text: NDArray[np.uint8], inner: Integers) -> tuple[Hashes, Integers]:
    """Return hash and first byte of every word of a block. `inner` holds the document boundaries inside it."""
    letters = np.zeros(len(text) + 2, dtype=np.uint8)  # with a gap before the first and after the last
    np.take(_LETTERS, text, out=letters[1:-1], mode="clip")
    inside = letters != 0
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    touching = inner[inside[inner] & inside[inner + 1]]  # where two documents have no gap between them
    if len(touching):
        edges = np.sort(np.concatenate((edges, np.repeat(touching, 2))), kind="stable")  # a merge of two sorted runs
    starts = edges[::2]
    # A polynomial in the bytes of each word: prefix sums over the whole text, divided by the power at the word's start.
    powers, inverses = _powers()
    sums = np.empty(len(text) + 1, dtype=np.uint64)
    sums[0] = 0
    np.multiply(letters[1:-1], powers[: len(text)], out=sums[1:])
    np.cumsum(sums, out=sums)
    sums = sums[edges]
    hashes = (sums[1::2] - sums[::2]) * inverses[starts]
    _mix(hashes)
    return hashes, starts


@cache
def _powers() -> tuple[Hashes, Hashes]:
    """Return powers of an odd number and their inverses, modulo 2**64."""
    inverse = np.uint64(pow(int(_FACTOR), -1, 1 << 64))
    powers, inverses = (np.full(BLOCK, number, dtype=np.uint64) for number in (_FACTOR, inverse))
    powers[0] = inverses[0] = 1
    return np.cumprod(powers), np.cumprod(inverses)
