"""As many one-to-one pairs as can be made, by augmenting paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def augment(
    root: int,
    near: Mapping[int, Sequence[int]] | Sequence[Sequence[int]],
    guess_of: dict[int, int],
    gold_of: dict[int, int],
) -> None:
    """Find a guess for one more gold, breadth first, moving others to their next best where that is needed.

    `near` lists the guesses that each gold may be paired with, the best first; both pairings are changed in place.
    """
    reached: dict[int, int] = {}  # guess -> the gold it was reached from
    queue = [root]
    for gold in queue:
        for guess in near[gold]:
            if guess in reached:
                continue
            reached[guess] = gold
            if guess in gold_of:
                queue.append(gold_of[guess])
                continue
            _flip(guess, reached, guess_of, gold_of)
            return


def _flip(guess: int, reached: Mapping[int, int], guess_of: dict[int, int], gold_of: dict[int, int]) -> None:
    """Give every guess on the path from a free one back to the root to the gold it was reached from."""
    while True:
        gold = reached[guess]
        before = guess_of.get(gold)
        gold_of[guess], guess_of[gold] = gold, guess
        if before is None:
            return
        guess = before
