"""A study's findings in a few sentences: the headline, one line per comparison, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from osler.core.console import list_text
from osler.stages.study.cells import CellKey
from osler.stages.study.layouts.common import TableLine, lines, missing_text, points_text, seeds_text
from osler.stages.study.results import Compared, Results

_MOST_NAMES = 6


def verdict(results: Results) -> list[str]:
    """Return the sentences of a study's verdict. Differences are in points (times 100)."""
    found = [*_models(results), *_joint(results), *_pairs(results)]
    if not found:
        found = [_nothing_to_compare(results)]
    if results.missing:
        found[0] = f"So far, {missing_text(results).rstrip('.')}: {found[0]}"
    return [*found, _trust(results)]


@dataclass(frozen=True)
class _Versus:
    """Comparison of two ways of training over several tasks."""

    first: str
    second: str
    family: Mapping[str, Compared]
    """Tested comparison of each task."""
    untested: Mapping[str, float]
    """Difference on tasks whose metric has no test."""

    def __str__(self) -> str:
        clear = {column: found.comparison.difference for column, found in self.family.items() if found.significant}
        better = [column for column, difference in clear.items() if difference > 0]
        worse = [column for column, difference in clear.items() if difference < 0]
        noise = [column for column in self.family if column not in better and column not in worse]
        number = len(self.family) + len(self.untested)
        if number == 1:
            return self._on_one_task(better, worse)
        parts = []
        if better:
            parts.append(f"better than {self.second} on {len(better)} of {number} tasks")
        if worse:
            parts.append(
                f"worse on {len(worse)}" if better else f"worse than {self.second} on {len(worse)} of {number} tasks"
            )
        if not parts:
            text = f"{self.first} and {self.second} do not differ beyond noise on any of {number} tasks"
            return f"{text} ({self._mean()})." + self._unknown()
        text = f"{self.first} is {' and '.join(parts)} ({self._mean()})."
        return text + (f" Within noise: {list_text(noise, _MOST_NAMES)}." if noise else "") + self._unknown()

    def _on_one_task(self, better: Sequence[str], worse: Sequence[str]) -> str:
        if self.untested:
            [(column, value)] = self.untested.items()
            return f"{self.first} against {self.second} on {column}: {points_text(value)} points, without a test of significance."
        [(column, found)] = self.family.items()
        c = found.comparison
        size = f"{points_text(c.difference)} points (95 % interval {points_text(c.low)} to {points_text(c.high)})"
        if better or worse:
            return f"{self.first} is {'better' if better else 'worse'} than {self.second} on {column}: {size}."
        return f"{self.first} and {self.second} do not differ beyond noise on {column}: {size}."

    def _mean(self) -> str:
        """Describe the mean difference over tasks. Its interval combines those of the tasks as independent samples of documents."""
        values = [found.comparison for found in self.family.values()]
        differences = [*(c.difference for c in values), *self.untested.values()]
        mean = sum(differences) / len(differences)
        text = f"mean {points_text(mean)} points"
        if self.untested:
            return text
        below = math.sqrt(sum((c.difference - c.low) ** 2 for c in values)) / len(values)
        above = math.sqrt(sum((c.high - c.difference) ** 2 for c in values)) / len(values)
        return f"{text}, 95 % interval {points_text(mean - below)} to {points_text(mean + above)}"

    def _unknown(self) -> str:
        return (
            f" Not tested, because the metric cannot be decomposed by document: {list_text(list(self.untested), _MOST_NAMES)}."
            if self.untested
            else ""
        )


def _versus(
    results: Results,
    first: str,
    second: str,
    pairs: Sequence[tuple[CellKey, CellKey]],
    family: Mapping[CellKey, Compared],
) -> _Versus | None:
    """Compare cells with others task by task; None if no task has both."""
    cells = results.cells
    known = [(key, other) for key, other in pairs if key in cells and other in cells]
    tested = {key.column: family[key] for key, _ in known if key in family}
    untested = {
        key.column: cells[key].summary.mean - cells[other].summary.mean for key, other in known if key not in family
    }
    return _Versus(first, second, tested, untested) if known else None


def _models(results: Results) -> list[str]:
    """Compare every model with the baseline; with several models, name the one with the best mean first."""
    shown = [line for line in lines(results, ("single", "together", "refine")) if line.row != results.baseline]
    found: list[str] = []
    for line in shown:
        # A refinement is compared with the plain baseline.
        mode = "single" if line.mode == "refine" else line.mode
        other = next((o for o in lines(results) if (o.row, o.mode) == (results.baseline, mode)), None)
        if other is None:
            continue
        keys = [(CellKey(line.row, c, line.mode), CellKey(results.baseline, c, mode)) for c in results.columns]
        versus = _versus(results, line.label, other.label, keys, results.comparisons)
        found += [str(versus)] if versus else []
    best = _best_mean(results) if len(found) > 1 else None
    return [best, *found] if best else found


def _best_mean(results: Results) -> str | None:
    """Name the model with the best mean over tasks, among those that have all of them."""
    means: dict[str, float] = {}
    for line in lines(results, ("single", "together", "refine")):
        known = [cell for cell in line.cells(results, results.columns) if cell is not None]
        if len(known) == len(results.columns):
            means[line.label] = sum(cell.summary.mean for cell in known) / len(known)
    if len(means) < 2:
        return None
    first, second, *_ = sorted(means, key=lambda name: -means[name])
    over = f"over {len(results.columns)} tasks" if len(results.columns) > 1 else f"on {results.columns[0]}"
    text = f"Best mean {over}: {first} ({100 * means[first]:.1f}), then {second} ({100 * means[second]:.1f})."
    if results.ranks is not None:
        test = "differ" if results.ranks.rejected else "do not differ"
        text += (
            f" Over tasks, the ranks of the models {test} significantly (Friedman, p = {results.ranks.p_value:.3f})."
        )
    return text


def _joint(results: Results) -> list[str]:
    """Compare all tasks in one run with each task alone, for every model."""
    found = []
    for row in results.rows:
        keys = [
            (key, single.key)
            for key in results.cells
            if key.row == row and key.mode == "together" and key.fraction == 1.0
            if (single := results.single_task_baseline(key))
        ]
        versus = _versus(
            results, f"{row} trained on all tasks together", f"{row} trained on each alone", keys, results.together
        )
        found += [str(versus)] if versus else []
    return found


def _pairs(results: Results) -> list[str]:
    found = []
    for row in results.rows:
        compared = [pair.comparison for key, pair in results.pairs.items() if key.row == row]
        if compared:
            helps, hurts = sum(c.low > 0 for c in compared), sum(c.high < 0 for c in compared)
            found.append(
                f"{row} trained on pairs of tasks: of {len(compared)} effects of one task on another, {helps} help and {hurts} hurt "
                "beyond noise (not corrected for their number; see pairwise.html)."
            )
    return found


def _nothing_to_compare(results: Results) -> str:
    line = lines(results)[0] if lines(results) else TableLine(results.rows[0], results.rows[0], "single")
    known = [cell for cell in line.cells(results, results.columns) if cell is not None]
    if not known:
        return "There is nothing to compare yet."
    mean = 100 * sum(cell.summary.mean for cell in known) / len(known)
    over = f"a mean of {mean:.1f} over {len(known)} tasks" if len(known) > 1 else f"{mean:.1f} on {known[0].key.column}"
    return f"The study has scores of one model, so nothing is compared: {line.label} has {over}."


def _trust(results: Results) -> str:
    """State the number of seeds and what "better" means."""
    seeds = seeds_text(results.cells.values())
    fewest = min(len(cell.seeds) for cell in results.cells.values())
    text = f"Based on {seeds}."
    if fewest == 1:
        text += " One seed does not show how much scores vary from seed to seed: run several before you rely on a small difference."
    elif fewest == 2:
        text += " Two seeds show little of how much scores vary from seed to seed."
    number = max(len(results.comparisons), len(results.together))
    if number:
        text += " Better and worse: below 5 % in a paired bootstrap over documents and seeds" + (
            f", Holm-corrected over {number} comparisons." if number > 1 else "."
        )
    return text
