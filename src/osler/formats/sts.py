"""Sentence similarity tables: ClinicalSTS and MedSTS (two sentences and a score, no header), BIOSSES (with a header).

There is no quoting, because sentences contain lone quotation marks. The gold scores of a test set may be in a separate file
(`….gs.….txt`), one per line; its name begins with the name of the sentence file. With a header (as in the BLUE tables)
columns are found by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.core.parsing import to_float
from osler.formats.base import Format, SourceReading
from osler.formats.output import META, RENAMED, VALUES, output_file, pairs, tab_line
from osler.formats.sources import SourceTree
from osler.text.document import Record, TextPair

_SCORES = ("score", "mean", "similarity")


@dataclass(frozen=True)
class Similarity(Format):
    """Pairs of sentences with a score. `header` is for writing; the reader takes it from the first line."""

    header: tuple[str, ...] = ()

    def _detect(self, tree: SourceTree) -> bool:
        head = [line for name in self._files(tree)[:1] for line in tree.head(name, 1)]
        cells = head[0].split("\t") if head else []
        if self.header:
            return cells[: len(self.header)] == list(self.header)
        return "sentence1" in cells or (len(cells) == 3 and to_float(cells[2]) is not None)

    def _files(self, tree: SourceTree) -> list[str]:
        return [name for name in tree.names("*.txt", "*.tsv") if ".gs." not in name.lower()] or list(tree)

    def _read(self, reading: SourceReading) -> Iterator[TextPair]:
        tree = reading.tree
        for name in self._files(tree):
            stem = name.rsplit(".", 1)[0]
            gold = next((g for g in tree.names("*.gs.*") if g.startswith(f"{stem}.")), None)
            scores = [line for _, line in tree.lines(gold)] if gold else []
            header: list[str] = []
            count = 0
            for number, line in tree.lines(name):
                cells = line.split("\t")
                if number == 1 and "sentence1" in cells:
                    header = cells
                elif line:
                    pair = _pair(cells, header, f"{stem}-{count + 1}", scores[count : count + 1] if scores else None)
                    count += 1
                    if pair is None:
                        reading.report("malformed-line", "not two sentences and a score", name, number)
                    else:
                        yield pair
            if gold and len([score for score in scores if score]) != count:
                reading.report("missing-annotation", "the number of scores and pairs differs", gold)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write one table. Without a header, ids are row numbers."""
        stem = path.name.rsplit(".", 1)[0]
        with output_file(path) as stream:
            if self.header:
                stream.write(tab_line(self.header, losses).encode())
            for number, pair in enumerate(pairs(records, losses, holds={VALUES, META}), 1):
                cells = {"sentence1": pair.first, "sentence2": pair.second, "id": pair.id, **pair.meta}
                if pair.value is not None:
                    cells |= {"score": repr(pair.value), "mean": repr(pair.value)}
                columns = self.header or ("sentence1", "sentence2", *(("score",) if pair.value is not None else ()))
                losses[META] += len(pair.meta.keys() - set(columns))
                losses[RENAMED] += "id" not in columns and pair.id != f"{stem}-{number}"
                stream.write(tab_line((cells.get(column, "") for column in columns), losses).encode())


def _pair(cells: list[str], header: list[str], default_id: str, gold: list[str] | None) -> TextPair | None:
    columns = header or ["sentence1", "sentence2", "score"][: len(cells)]
    if len(cells) != len(columns) or not {"sentence1", "sentence2"} <= set(columns):
        return None
    row = dict(zip(columns, cells, strict=True))
    column = next((name for name in _SCORES if name in row), None)
    shown = gold[0] if gold else row.get(column, "") if column else ""
    value = to_float(shown)
    if gold == [] or (shown and value is None):
        return None
    known = {"sentence1", "sentence2", "id", "index", column}
    meta = {key: cell for key, cell in row.items() if key not in known and cell}
    pair_id = row.get("id") or row.get("index") or default_id
    return TextPair(pair_id, row["sentence1"], row["sentence2"], value=value, meta=meta)


FORMAT = Similarity("sts", "ClinicalSTS: two sentences and a score, tab-separated, no quoting", (".txt", ".tsv"))
BIOSSES = Similarity(
    "biosses",
    "BIOSSES: two sentences, five annotators' scores and their mean",
    (".txt", ".tsv"),
    header=("id", "sentence1", "sentence2", *(f"annotator_{letter}" for letter in "ABCDE"), "mean"),
)
