"""MedRQE XML: pairs of a long and a short question with `value` true or false.

The root element has another name in every file. White space around the questions is layout of the XML and left off.
`type` is kept in meta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osler.formats import xml
from osler.formats.base import Loss, Problems, strict_unless
from osler.formats.output import LABELS, META, only_pairs, output_file, unheld
from osler.formats.sources import Source, opened
from osler.text.document import Record, TextPair


@dataclass(frozen=True)
class MedRqe:
    """Question pairs; the long question is the premise."""

    name: str = "medrqe"
    description: str = "MedRQE XML: question entailment"
    suffixes: tuple[str, ...] = (".xml",)
    layout: Literal["file", "folder"] = "file"

    def detect(self, source: Source) -> bool:
        """Whether the first XML file has question pairs."""
        with opened(source) as tree:
            return any("<pair pid=" in line for name in tree.names("*.xml")[:1] for line in tree.head(name, 4))

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[TextPair]:
        """Yield the pairs in file order; an id is unique within its file."""
        found = strict_unless(problems)
        with opened(source) as tree:
            for name in tree.names("*.xml") or list(tree):
                place = tree.where(name)
                with tree.open_binary(name) as stream:
                    for element in xml.stream(stream, "pair", place):
                        first, second = (xml.element_text(element, tag).strip() for tag in ("chq", "faq"))
                        if not first or not second:
                            where = f"{place}:{element.sourceline}"
                            found.report("empty-text", "a pair lacks a question", where=where)
                        label, kind = element.get("value", ""), element.get("type", "")
                        labels, meta = (label,) if label else (), {"type": kind} if kind else {}
                        yield TextPair(element.get("pid", ""), first, second, labels=labels, meta=meta)

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one file."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            stream.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<QuestionPairs>\n')
            for record in records:
                if (pair := only_pairs(record, losses)) is None:
                    continue
                losses.update(unheld(pair, {LABELS, META}))
                losses[LABELS] += max(len(pair.labels) - 1, 0)
                losses[META] += len(pair.meta.keys() - {"type"})
                losses["outer white space"] += any(text != text.strip() for text in (pair.first, pair.second))
                named = {"pid": pair.id, "type": pair.meta.get("type", ""), "value": "".join(pair.labels[:1])}
                cells = "".join(f' {key}="{_held(value, losses)}"' for key, value in named.items() if value)
                texts = f"<chq>{_held(pair.first, losses)}</chq>\n<faq>{_held(pair.second, losses)}</faq>"
                stream.write(f"<pair{cells}>\n{texts}\n</pair>\n".encode())
            stream.write(b"</QuestionPairs>\n")
        return Loss(+losses)


def _held(text: str, losses: Counter[str]) -> str:
    return xml.escape(xml.holdable(text, losses))


FORMAT = MedRqe()
