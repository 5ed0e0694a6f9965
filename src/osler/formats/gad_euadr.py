"""GAD and EU-ADR, the folds of BioBERT: `train.tsv` (sentence, label) and `test.tsv` (index, sentence, label).

Only test tables have a header. The id of a row includes its file (`GAD/1/test-17`); fold and split are in meta.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats.base import Format, SourceReading
from osler.formats.output import LABELS, RENAMED, documents, output_file, tab_line
from osler.formats.sources import SourceTree
from osler.text.document import Document, Record

_HEADER = ["index", "sentence", "label"]
_FILE = re.compile(r"(?:.*/)?(\d+)/(train|dev|test)\.tsv")


@dataclass(frozen=True)
class GadEuadr(Format):
    """Sentences with masked entities and a label."""

    def _detect(self, tree: SourceTree) -> bool:
        lines = [line for name in tree.names("*.tsv")[:2] for line in tree.head(name, 3)]
        return any("@GENE$" in line and "@DISEASE$" in line for line in lines)

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in self._files(reading.tree):
            stem = name.removesuffix(".tsv")
            match = _FILE.fullmatch(name)
            meta = {"fold": match[1], "split": match[2]} if match else {}
            width = 2
            for number, line in reading.tree.lines(name):
                cells = line.split("\t")
                if number == 1 and cells == _HEADER:
                    width = 3
                elif len(cells) != width:
                    reading.report("malformed-line", f"not {width} columns", name, number)
                else:
                    identifier = f"{stem}-{cells[0] if width == 3 else number}"
                    yield Document(identifier, cells[-2], labels=(cells[-1],), meta=meta)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        stem = path.name.removesuffix(".tsv")
        with output_file(path) as stream:
            stream.write(tab_line(_HEADER, losses).encode())
            for document in documents(records, losses, holds={LABELS}, meta={"fold", "split"}):
                losses[LABELS] += len(document.labels) != 1
                name = document.id.rsplit("/", 1)[-1].removeprefix(f"{stem}-")
                losses[RENAMED] += document.id not in (name, f"{stem}-{name}")
                cells = (name, document.text, document.labels[0] if document.labels else "")
                stream.write(tab_line(cells, losses).encode())


FORMAT = GadEuadr("gad_euadr", "GAD and EU-ADR folds: sentence and label, tab-separated", (".tsv",))
