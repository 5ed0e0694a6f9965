"""Cells against each other: every model with the baseline, every jointly learned task with its single-task twin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from osler.metrics.significance import Comparison, holm, paired_bootstrap
from osler.stages.study.cells import Cell, CellKey
from osler.stages.study.gather import Evidence

COMPARED = ("single", "together", "refine")
"""Ways of learning in which models are compared with the baseline."""
Cells = Mapping[CellKey, tuple[Cell, Evidence]]


@dataclass(frozen=True)
class Compared:
    """A cell against another of the same task; `p_value` is corrected for all comparisons of its family in the study."""

    key: CellKey
    other: CellKey
    comparison: Comparison
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the difference holds at 5 % after correction."""
        return self.p_value < 0.05

    def as_dict(self) -> dict[str, Any]:
        """Plain data; `read_compared` makes it again."""
        return {
            "cell": list(self.key),
            "other": list(self.other),
            **asdict(self.comparison),
            "p_holm": self.p_value,
        }


def read_compared(values: Mapping[str, Any]) -> Compared:
    """From what `Compared.as_dict` gave."""
    plain = {name: values[name] for name in ("first", "second", "difference", "low", "high", "p_value")}
    return Compared(CellKey(*values["cell"]), CellKey(*values["other"]), Comparison(**plain), values["p_holm"])


def against_baseline(cells: Cells, baseline: str, resamples: int) -> dict[CellKey, Compared]:
    """Every model's cells with the baseline's, learned in the same way from all of the data; a refinement with the plain baseline."""
    pairs = [
        (key, key._replace(row=baseline, mode="single" if key.mode == "refine" else key.mode))
        for key in cells
        if key.row != baseline and key.mode in COMPARED and key.fraction == 1.0
    ]
    return _compared(cells, pairs, resamples)


def against_twins(cells: Cells, mode: str, resamples: int, *, equal: bool) -> dict[CellKey, Compared]:
    """Tasks learned with others, each with the same task learned alone by the same model, with `equal` for as many updates."""
    found = [(key, key.twin(cells, equal=equal)) for key in cells if key.mode == mode and key.fraction == 1.0]
    return _compared(cells, [(key, twin) for key, twin in found if twin is not None], resamples)


def draws_for(comparisons: int, resamples: int) -> int:
    """How many draws a family of comparisons needs: enough for the smallest corrected p-value to be half of 5 %.

    A bootstrap's p-value is at least 2 / (draws + 1), and Holm multiplies it by the number of comparisons: with too few draws no
    difference of a large study, however clear, could ever hold.
    """
    return max(resamples, 80 * comparisons)


def _compared(cells: Cells, pairs: Iterable[tuple[CellKey, CellKey]], resamples: int) -> dict[CellKey, Compared]:
    known = {}
    for key, other in pairs:
        one, two = cells[key][1], cells[other][1] if other in cells else None
        if one is not None and two is not None:
            known[key, other] = (one, two)
    draws = draws_for(len(known), resamples)
    found = [paired_bootstrap(one, two, resamples=draws) for one, two in known.values()]
    adjusted = holm([comparison.p_value for comparison in found])
    return {
        key: Compared(key, other, comparison, p)
        for (key, other), comparison, p in zip(known, found, adjusted, strict=True)
    }
