"""GAD and EU-ADR, the folds of BioBERT: `train.tsv` (sentence, label) and `test.tsv` (index, sentence, label).

Only test tables have a header. The file a row comes from is part of its id (`GAD/1/test-17`), fold and split are in
meta.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Problems, strict_unless
from osler.formats.output import LABELS, META, RENAMED, flattened, only_documents, output_file, unheld
from osler.formats.sources import Source, opened
from osler.text.document import Document, Record

_HEADER = ["index", "sentence", "label"]
_FILE = re.compile(r"(?:.*/)?(\d+)/(train|dev|test)\.tsv")


@dataclass(frozen=True)
class GadEuadr:
    """Sentences with masked entities and a label."""

    name: str = "gad_euadr"
    description: str = "GAD and EU-ADR folds: sentence and label, tab-separated"
    suffixes: tuple[str, ...] = (".tsv",)
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether a table has masked genes and diseases."""
        with opened(source) as tree:
            lines = [line for name in tree.names("*.tsv")[:2] for line in tree.head(name, 3)]
            return any("@GENE$" in line and "@DISEASE$" in line for line in lines)

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield the sentences, table by table."""
        found = strict_unless(problems)
        with opened(source) as tree:
            for name in tree.names("*.tsv") or list(tree):
                stem = name.removesuffix(".tsv")
                match = _FILE.fullmatch(name)
                meta = {"fold": match[1], "split": match[2]} if match else {}
                width = 2
                for number, line in tree.lines(name):
                    cells = line.split("\t")
                    if number == 1 and cells == _HEADER:
                        width = 3
                        continue
                    if len(cells) != width:
                        found.report("malformed-line", f"not {width} columns", where=tree.where(name, number))
                        continue
                    identifier = f"{stem}-{cells[0] if width == 3 else number}"
                    yield Document(identifier, cells[-2], labels=(cells[-1],), meta=meta)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one table with the header of a test file."""
        losses: Counter[str] = Counter()
        stem = path.name.removesuffix(".tsv")
        with output_file(path) as stream:
            stream.write(("\t".join(_HEADER) + "\n").encode())
            for record in records:
                if (document := only_documents(record, losses)) is None:
                    continue
                losses.update(unheld(document, {LABELS, META}))
                losses[META] += len(document.meta.keys() - {"fold", "split"})
                losses[LABELS] += len(document.labels) != 1
                name = document.id.rsplit("/", 1)[-1].removeprefix(f"{stem}-")
                losses[RENAMED] += document.id not in (name, f"{stem}-{name}")
                cells = (name, document.text, document.labels[0] if document.labels else "")
                stream.write(("\t".join(flattened(cell, "\t\n\r", losses) for cell in cells) + "\n").encode())
        return Loss(+losses)


FORMAT = GadEuadr()
