"""Sentence similarity tables: ClinicalSTS and MedSTS (two sentences and a score, no header), BIOSSES (with a header).

No quoting: sentences contain single quotes. Gold scores of a test set may lie in a file of their own (`….gs.….txt`),
one a line; they join the sentences of the file whose name the gold file's begins with. With a header (the BLUE tables
too) columns go by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Problems, strict_unless
from osler.formats.output import META, RENAMED, VALUES, flattened, only_pairs, output_file, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.text.document import Record, TextPair

_SCORES = ("score", "mean", "similarity")


@dataclass(frozen=True)
class Similarity:
    """Pairs of sentences with a score; `header` is for writing, the reader sees it in the first line."""

    name: str
    description: str
    header: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = (".txt", ".tsv")
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether a table has this header, or none and two sentences with a score."""
        with opened(source) as tree:
            heads = [tree.head(name, 1) for name in self._tables(tree)[:1]]
            cells = heads[0][0].split("\t") if heads and heads[0] else []
            if self.header:
                return cells[: len(self.header)] == list(self.header)
            return "sentence1" in cells or (len(cells) == 3 and _number(cells[2]) is not None)

    def _tables(self, tree: SourceTree) -> list[str]:
        return [name for name in tree.names("*.txt", "*.tsv") if ".gs." not in name.lower()] or list(tree)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[TextPair]:
        """Yield the pairs in file order."""
        found = strict_unless(problems)
        with opened(source) as tree:
            for name in self._tables(tree):
                stem = name.rsplit(".", 1)[0]
                gold = next((g for g in tree.names("*.gs.*") if g.startswith(f"{stem}.")), None)
                scores = [line for _, line in tree.lines(gold)] if gold else None
                header: list[str] = []
                count = 0
                for number, line in tree.lines(name):
                    cells = line.split("\t")
                    if number == 1 and "sentence1" in cells:
                        header = cells
                    elif line:
                        pair = _pair(
                            cells, header, f"{stem}-{count + 1}", scores[count : count + 1] if scores else None
                        )
                        count += 1
                        if pair is None:
                            found.report(
                                "malformed-line", "not two sentences and a score", where=tree.where(name, number)
                            )
                        else:
                            yield pair
                if scores is not None and gold and len([s for s in scores if s]) != count:
                    found.report("missing-annotation", "not one score for each pair", where=tree.where(gold))

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one table; without a header, ids are row numbers."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            if self.header:
                stream.write(("\t".join(self.header) + "\n").encode())
            for number, record in enumerate(records, 1):
                if (pair := only_pairs(record, losses)) is None:
                    continue
                losses.update(unheld(pair, {VALUES, META}))
                cells = {"sentence1": pair.first, "sentence2": pair.second, "id": pair.id, **pair.meta}
                if pair.value is not None:
                    cells |= {"score": repr(pair.value), "mean": repr(pair.value)}
                columns = self.header or ("sentence1", "sentence2", *(("score",) if pair.value is not None else ()))
                losses[META] += len(pair.meta.keys() - set(columns))
                losses[RENAMED] += "id" not in columns and pair.id != f"{path.name.rsplit('.', 1)[0]}-{number}"
                row = (flattened(cells.get(column, ""), "\t\n\r", losses) for column in columns)
                stream.write(("\t".join(row) + "\n").encode())
        return Loss(+losses)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _pair(cells: list[str], header: list[str], default_id: str, gold: list[str] | None) -> TextPair | None:
    columns = header or ["sentence1", "sentence2", "score"][: len(cells)]
    if len(cells) != len(columns) or not {"sentence1", "sentence2"} <= set(columns):
        return None
    row = dict(zip(columns, cells, strict=True))
    column = next((name for name in _SCORES if name in row), None)
    shown = gold[0] if gold else row.get(column, "") if column else ""
    value = _number(shown)
    if gold == [] or (shown and value is None):
        return None
    known = {"sentence1", "sentence2", "id", "index", column}
    meta = {key: cell for key, cell in row.items() if key not in known and cell}
    pair_id = row.get("id") or row.get("index") or default_id
    return TextPair(pair_id, row["sentence1"], row["sentence2"], value=value, meta=meta)


FORMAT = Similarity("sts", "ClinicalSTS: two sentences and a score, tab-separated, no quoting")
BIOSSES = Similarity(
    "biosses",
    "BIOSSES: two sentences, five annotators' scores and their mean",
    ("id", "sentence1", "sentence2", *(f"annotator_{letter}" for letter in "ABCDE"), "mean"),
)
