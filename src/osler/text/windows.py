"""Cut a long token sequence into overlapping windows.

The cuts depend on the number of tokens and on where words begin, never on annotations. Every token is predicted in exactly
one window, the one with the most context around it: that part of a window is its core.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from osler.core.errors import RecipeError


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens `start`..`end` are seen, and `core_start`..`core_end` of them are predicted here (half open)."""

    start: int
    end: int
    core_start: int
    core_end: int

    def moved(self, by: int) -> Window:
        """The same window `by` tokens later."""
        return Window(self.start + by, self.end + by, self.core_start + by, self.core_end + by)


def windows(n_tokens: int, size: int, overlap: int, boundaries: Sequence[int] | None = None) -> list[Window]:
    """Cut into windows of at most `size` tokens; neighbours share `overlap` tokens where words allow it.

    `boundaries` are the positions where words begin; without them every token is a word. No window or core begins or ends
    inside a word, unless the word is longer than a window. Neighbours may therefore share more tokens than `overlap`, or
    fewer where a long word leaves no room. A word is predicted where its first token has the most context: the distance to
    the nearer edge of the window, where the edges of the sequence count as infinitely far.
    """
    if size < 1 or not 0 <= overlap < size:
        raise RecipeError(
            f"windows of {size} tokens cannot overlap by {overlap} tokens",
            fix="The size must be at least 1 and the overlap from 0 to size - 1",
        )
    if n_tokens == 0:
        return []
    if n_tokens <= size:
        return [Window(0, n_tokens, 0, n_tokens)]
    cuts: Sequence[int] = range(n_tokens + 1)
    if boundaries is not None:
        cuts = sorted({0, n_tokens, *(cut for cut in boundaries if 0 < cut < n_tokens)})
    ranges = _ranges(n_tokens, size, overlap, cuts)
    made: list[Window] = []
    core_start = 0
    for (start, end), following in zip(ranges, [*ranges[1:], None], strict=True):
        core_end = end if following is None else _border(end, following[0], cuts)
        if core_end > core_start:  # nothing is left to predict where a word covers the core
            made.append(Window(start, end, core_start, core_end))
            core_start = core_end
    return made


def _ranges(n_tokens: int, size: int, overlap: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Window ranges without gaps; starts and ends strictly increase."""
    found: list[tuple[int, int]] = []
    start = end = 0
    while True:
        # Beyond the previous end: a word longer than a window must be cut, or there would be no progress.
        cut = _last_cut(cuts, end + 1, start + size)
        end = start + size if cut is None else cut
        found.append((start, end))
        if end >= n_tokens:
            return found
        start = _next_start(start, end, size, overlap, cuts)


def _next_start(start: int, end: int, size: int, overlap: int, cuts: Sequence[int]) -> int:
    """Start of the window after `start`..`end`: a cut about `overlap` tokens before `end` that lets it pass `end`."""
    candidate = _last_cut(cuts, start + 1, end - overlap)
    if candidate is None:
        candidate = _first_cut(cuts, max(start + 1, end - overlap), end)
    if candidate is None:
        return end - overlap
    word_end = _first_cut(cuts, end + 1, cuts[-1])
    assert word_end is not None  # the end of the sequence is a cut
    if word_end - candidate <= size:
        return candidate
    # The next word does not fit with that much overlap: use less. Nothing helps a word longer than a window.
    later = _first_cut(cuts, word_end - size, end)
    return candidate if later is None else later


def _border(end: int, following_start: int, cuts: Sequence[int]) -> int:
    """End of the core: the first word start that is nearer to `end` than to the start of the next window."""
    middle = (end + following_start + 1) // 2
    cut = _first_cut(cuts, middle, end)
    return middle if cut is None else cut


def _last_cut(cuts: Sequence[int], low: int, high: int) -> int | None:
    """Last cut in `low`..`high`, both included."""
    index = bisect_right(cuts, high) - 1
    return cuts[index] if index >= 0 and cuts[index] >= low else None


def _first_cut(cuts: Sequence[int], low: int, high: int) -> int | None:
    """First cut in `low`..`high`, both included."""
    index = bisect_left(cuts, low)
    return cuts[index] if index < len(cuts) and cuts[index] <= high else None
