"""The tables of a study, laid out plainly or as a paper has them; one file a layout."""

from __future__ import annotations

from collections.abc import Callable

from osler.stages.study.layouts import carrino2022, lewis2020, mulyar2020, peng2020, plain, wada2020
from osler.stages.study.layouts.common import NamedTable
from osler.stages.study.results import Results

LAYOUTS: dict[str, Callable[[Results], list[NamedTable]]] = {
    "plain": plain.tables,
    "carrino2022": carrino2022.tables,
    "lewis2020": lewis2020.tables,
    "mulyar2020": mulyar2020.tables,
    "peng2020": peng2020.tables,
    "wada2020": wada2020.tables,
}


def main_tables(results: Results) -> list[NamedTable]:
    """The tables of a study in its own layout; the first is the main one."""
    return LAYOUTS[results.layout](results)
