"""Cut a long token sequence into overlapping windows, and put what was said about each token back together.

Where windows are cut depends on the number of tokens and on where words begin, never on annotations. Every token is
decided in exactly one window, the one that shows most of its surroundings: that part of a window is its core.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from osler.core.errors import RecipeError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens `start`..`end` are seen, of which `core_start`..`core_end` are decided here (half open)."""

    index: int
    start: int
    end: int
    core_start: int
    core_end: int


def windows(n_tokens: int, size: int, overlap: int, boundaries: Sequence[int] | None = None) -> list[Window]:
    """Windows of at most `size` tokens whose neighbours share `overlap` tokens where words allow it.

    `boundaries` are the positions where a word begins; without them every token is a word. No window, and no core,
    begins or ends inside a word, unless the word is longer than a window. To keep words whole, neighbours may share
    more tokens than asked, or fewer where a long word leaves no room. A word is decided where its first token has most
    context: the distance to the nearer edge of the window, the edges of the sequence counting as infinitely far.
    """
    if size < 1 or not 0 <= overlap < size:
        raise RecipeError(
            f"windows of {size} tokens cannot overlap by {overlap}",
            fix="Give a size of at least 1 and an overlap from 0 to size - 1",
        )
    if n_tokens == 0:
        return []
    cuts = range(n_tokens + 1) if boundaries is None else _clean(boundaries, n_tokens)
    ranges = _ranges(n_tokens, size, overlap, cuts)
    made: list[Window] = []
    core_start = 0
    for (start, end), following in zip(ranges, [*ranges[1:], None], strict=True):
        core_end = end if following is None else _border(end, following[0], cuts)
        if core_end > core_start:  # a word that reaches over a whole core leaves that window nothing to decide
            made.append(Window(len(made), start, end, core_start, core_end))
            core_start = core_end
    return made


def merge(windows: Sequence[Window], values_per_window: Sequence[Sequence[T]]) -> list[T]:
    """One value a token, taken from the window whose core it is in; each window gives a value for all its tokens."""
    merged: list[T] = []
    for window, values in zip(windows, values_per_window, strict=True):
        if len(values) != window.end - window.start:
            raise ValueError(f"window {window.index} has {window.end - window.start} tokens and {len(values)} values")
        merged.extend(values[window.core_start - window.start : window.core_end - window.start])
    return merged


def _clean(boundaries: Sequence[int], n_tokens: int) -> list[int]:
    """The cuts inside the sequence, with its two edges."""
    return sorted({0, n_tokens, *(cut for cut in boundaries if 0 < cut < n_tokens)})


def _ranges(n_tokens: int, size: int, overlap: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Window ranges; starts and ends both strictly increase and no gap is left."""
    found: list[tuple[int, int]] = []
    start = end = 0
    while True:
        # Past the end before it: a word longer than a window is cut, for it would stop all progress.
        cut = _last_cut(cuts, end + 1, start + size)
        end = start + size if cut is None else cut
        found.append((start, end))
        if end >= n_tokens:
            return found
        start = _next_start(start, end, size, overlap, cuts)


def _next_start(start: int, end: int, size: int, overlap: int, cuts: Sequence[int]) -> int:
    """Where the window after `start`..`end` begins: at a cut, with `overlap` behind it, and reaching past `end`."""
    candidate = _last_cut(cuts, start + 1, end - overlap)
    if candidate is None:
        candidate = _first_cut(cuts, max(start + 1, end - overlap), end)
    if candidate is None:
        return end - overlap
    word_end = _first_cut(cuts, end + 1, cuts[-1])
    assert word_end is not None  # the end of the sequence is a cut
    if word_end - candidate <= size:
        return candidate
    # The next word does not fit behind that much context: show less of it. Nothing helps a word longer than a window.
    later = _first_cut(cuts, word_end - size, end)
    return candidate if later is None else later


def _border(end: int, following_start: int, cuts: Sequence[int]) -> int:
    """Where the core passes on: the first token nearer to `end` than to the start of the next window, at a word."""
    middle = (end + following_start + 1) // 2
    cut = _first_cut(cuts, middle, end)
    return middle if cut is None else cut


def _last_cut(cuts: Sequence[int], low: int, high: int) -> int | None:
    """The last cut in `low`..`high`, both included."""
    index = bisect_right(cuts, high) - 1
    return cuts[index] if index >= 0 and cuts[index] >= low else None


def _first_cut(cuts: Sequence[int], low: int, high: int) -> int | None:
    """The first cut in `low`..`high`, both included."""
    index = bisect_left(cuts, low)
    return cuts[index] if index < len(cuts) and cuts[index] <= high else None
